#!/usr/bin/python3
"""Stand-in for `vllm serve`: an OpenAI-compatible server that knows some pictures by heart.

It takes the command line of vLLM and behaves as the environment asks:

    STANDIN_START_S=SECONDS   time before it listens (default 0.3)
    STANDIN_ANSWER_S=SECONDS  time for an answer to a request for text (default 0)
    STANDIN_CRASH_ON=N        crash as said by STANDIN_CRASH only where there is a /dev/davinciN
    STANDIN_CRASH=NAME        print /standin/logs/NAME.log after the start time, and end with status 1
    STANDIN_SICK=1            answer 503 on /health for ever
    STANDIN_SERVED=NAME       serve under another name than --served-model-name
    STANDIN_TEXT=TEXT         read this in every picture ("" for an empty answer)
    STANDIN_KNOWS=CASE        read this case of the suite right, and nothing else
    STANDIN_QUIT_AFTER=N      end with status 1 after N requests for text

The pictures that it knows are in /standin/answers.json: SHA-256 of a file to case and text. Any other picture
reads as nothing.
"""

import base64
import hashlib
import json
import os
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

HOME = Path("/standin")


def option(name, default):
    """The value of --name, written with hyphens or underscores, after a blank or `=`."""
    words = sys.argv[1:]
    for i, word in enumerate(words):
        flag, _, value = word.partition("=")
        if flag.replace("_", "-") == name:
            return value or words[i + 1]
    return default


def log(level, text):
    """A line as vLLM writes them."""
    print(f"{level} {time.strftime('%m-%d %H:%M:%S')} [standin.py:1] {text}", flush=True)


def picture_of(message):
    """Bytes of the first picture of a chat message, from its data URL."""
    for part in message.get("content") or []:
        if isinstance(part, dict) and part.get("type") == "image_url":
            return base64.b64decode(part["image_url"]["url"].partition(",")[2])
    return b""


class Handler(BaseHTTPRequestHandler):
    """The endpoints that a client of PaddleOCR-VL uses."""

    protocol_version = "HTTP/1.1"
    served = os.environ.get("STANDIN_SERVED") or option("--served-model-name", "model")
    answers = None
    asked = 0

    def log_message(self, *args):
        """Say nothing for each request; vLLM's access log is not looked at."""

    def answer(self, status, document):
        """Send a JSON document, or nothing."""
        body = b"" if document is None else json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        """/health and /v1/models."""
        if self.path == "/health":
            return self.answer(503 if os.environ.get("STANDIN_SICK") else 200, None)
        if self.path == "/v1/models":
            entry = {"id": self.served, "object": "model", "owned_by": "vllm", "max_model_len": 16384}
            return self.answer(200, {"object": "list", "data": [entry]})
        if self.path == "/version":
            return self.answer(200, {"version": "standin"})
        return self.answer(404, {"error": {"message": "Not Found", "code": 404}})

    def do_POST(self):
        """/v1/chat/completions, with and without streaming."""
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path != "/v1/chat/completions":
            return self.answer(404, {"error": {"message": "Not Found", "code": 404}})
        if request.get("model") != self.served:
            message = f"The model `{request.get('model')}` does not exist."
            return self.answer(404, {"error": {"message": message, "type": "NotFoundError", "code": 404}})
        Handler.asked += 1
        if Handler.asked > int(os.environ.get("STANDIN_QUIT_AFTER", "1000000")):
            log("ERROR", "EngineCore encountered a fatal error.")
            os._exit(1)
        time.sleep(float(os.environ.get("STANDIN_ANSWER_S", "0")))
        picture = picture_of(request["messages"][-1])
        case, text = self.answers.get(hashlib.sha256(picture).hexdigest(), ("", ""))
        if os.environ.get("STANDIN_KNOWS", case) != case:
            text = ""
        text = os.environ.get("STANDIN_TEXT", text)
        usage = {"prompt_tokens": 100, "completion_tokens": len(text), "total_tokens": 100 + len(text)}
        base = {"id": "chatcmpl-standin", "created": int(time.time()), "model": self.served, "usage": usage}
        if request.get("stream"):
            return self.stream(base, text)
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        return self.answer(200, {**base, "object": "chat.completion", "choices": [choice]})

    def stream(self, base, text):
        """The text as one chunk, then the end."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for delta, reason in (({"role": "assistant", "content": text}, None), ({}, "stop")):
            choice = {"index": 0, "delta": delta, "finish_reason": reason}
            chunk = {**base, "object": "chat.completion.chunk", "choices": [choice]}
            self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
        self.wfile.write(b"data: [DONE]\n\n")
        self.close_connection = True


def main():
    """Start as slowly, and end as badly, as the environment asks."""
    if "--help" in sys.argv:
        print("vllm serve [stand-in]")
        return
    log("INFO", "Available plugins for group vllm.platform_plugins:")
    log("INFO", "Platform plugin ascend is activated")
    log("INFO", f"non-default args: {sys.argv[1:]}")
    nodes = sorted(path.name for path in Path("/dev").glob("davinci*"))
    log("INFO", f"device nodes: {' '.join(nodes)}")
    time.sleep(float(os.environ.get("STANDIN_START_S", "0.3")))
    crash = os.environ.get("STANDIN_CRASH")
    only_on = os.environ.get("STANDIN_CRASH_ON")
    if crash and (only_on is None or f"davinci{only_on}" in nodes):
        print((HOME / "logs" / f"{crash}.log").read_text(), flush=True)
        sys.exit(1)
    Handler.answers = json.loads((HOME / "answers.json").read_text())
    address = option("--host", "0.0.0.0"), int(option("--port", "8000"))
    try:
        server = ThreadingHTTPServer(address, Handler)
    except OSError as e:
        log(
            "ERROR",
            f"[Errno {e.errno}] error while attempting to bind on address {address}: address already in use",
        )
        sys.exit(1)
    log("INFO", f"Started server process; listening on {address}")
    server.serve_forever()


main()
