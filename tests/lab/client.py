"""client.py URL MODEL PICTURE STOP OUT [THREADS]: asks for the text of a picture until there is a file STOP.

Every request is counted; OUT gets one JSON document: how many were answered, and each one that was not.
Nothing is tried twice: what fails once has failed. Some threads stream.
"""

import base64
import http.client
import json
import sys
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit


def ask(address, body, stream):
    """One request; the text that was read."""
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=60)
    try:
        headers = {"Content-Type": "application/json"}
        connection.request("POST", "/v1/chat/completions", json.dumps({**body, "stream": stream}), headers)
        answer = connection.getresponse()
        text = answer.read().decode()
        if answer.status != 200:
            raise RuntimeError(f"{answer.status} {text}")
        if not stream:
            return json.loads(text)["choices"][0]["message"]["content"]
        if "data: [DONE]" not in text:
            raise RuntimeError(f"cut off: {text}")
        events = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
        return "".join(e["choices"][0]["delta"].get("content", "") for e in events)
    finally:
        connection.close()


def main():
    """Ask until told to stop."""
    url, model, picture, stop, out = sys.argv[1:6]
    threads = int(sys.argv[6]) if len(sys.argv) > 6 else 6
    address, stop = urlsplit(url), Path(stop)
    image = base64.b64encode(Path(picture).read_bytes()).decode()
    content = [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{image}"}}]
    body = {"model": model, "messages": [{"role": "user", "content": content}]}
    texts, failures, lock = {}, [], threading.Lock()

    def work(number):
        while not stop.exists():
            begun = time.time()
            try:
                text = ask(address, body, number % 3 == 0)
            except Exception as e:
                with lock:
                    failures.append(f"{type(e).__name__}: {e} after {time.time() - begun:.2f} s")
                time.sleep(0.05)
                continue
            with lock:
                texts[text] = texts.get(text, 0) + 1

    workers = [threading.Thread(target=work, args=(n,)) for n in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    Path(out).write_text(json.dumps({"answered": sum(texts.values()), "texts": texts, "failures": failures}))


main()
