"""Questions that will be asked, asked before, all in one round trip.

On an unchanged host a deployment asks the same few questions in the same words every time. They are known
from the plan, so they go over the line together, and `SshTransport.remember` keeps the answers for those who
ask.
"""

from __future__ import annotations

import secrets
import shlex

from ascend_ocrvl.deploy import docker, nginx
from ascend_ocrvl.deploy.history import read_words
from ascend_ocrvl.host.transport import Result, Transport
from ascend_ocrvl.plan.model import Plan


def ask(transport: Transport, plan: Plan, folder: str) -> tuple[Result, ...]:
    """The answers, in one round trip; none when the host does not give them all."""
    names = [s.name for s in plan.services if s.kind == "container"]
    if not names:
        return ()
    mark = f"@@{secrets.token_hex(8)}"
    listed, looked = docker.list_ours(), docker.inspect(*names)
    more = [read_words(folder, plan.digest)]
    if plan.gateway is not None:
        more.append(nginx.read(f"{folder}/gateway"))
        if plan.gateway.keys is not None:
            more.append(nginx.keys_fresh(f"{folder}/gateway", plan.gateway.keys))
    script = "\n".join(
        (
            f"mark={mark}",
            'end() { printf "\\n%s %s\\n" "$mark" "$?"; }',
            f"ours=$({shlex.join(listed)} 2>&1); status=$?; printf '%s\\n' \"$ours\"; (exit $status); end",
            f"{shlex.join(looked)} 2>/dev/null; end",
            f"{shlex.join(docker.inspect())} $ours 2>/dev/null; end",
            *(f"{shlex.join(words)} 2>/dev/null; end" for words in more),
        )
    )
    done = transport.run(("sh", "-s"), timeout_s=60, stdin=script)
    answers = parse(done.stdout, mark)
    if len(answers) != 3 + len(more) or any(status for _, status in answers[:3]):
        return ()  # something is missing or wrong: asked one by one, it says what
    questions = (listed, looked, docker.inspect(*answers[0][0].split()), *more)
    return tuple(
        Result(argv, status, text, "", done.seconds)
        for argv, (text, status) in zip(questions, answers, strict=True)
    )


def parse(text: str, mark: str) -> tuple[tuple[str, int], ...]:
    """Outputs and statuses, as the script frames them: the output, and below it the mark and the status."""
    found, rest = [], text
    while f"\n{mark} " in rest:
        said, _, rest = rest.partition(f"\n{mark} ")
        status, _, rest = rest.partition("\n")
        found.append((said, int(status) if status.isdigit() else 1))
    return tuple(found)
