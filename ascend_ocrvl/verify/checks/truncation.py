"""`not_truncated`: the endpoint came to the end of its answer."""

from __future__ import annotations


def check_not_truncated(finish_reason: str, completion_tokens: int | None) -> tuple[str, str]:
    """Problem and detail of the `not_truncated` check."""
    if finish_reason == "stop":
        return "", "finish_reason is stop."
    after = f" after {completion_tokens} tokens" if completion_tokens is not None else ""
    if finish_reason == "length":
        return f"The answer was cut off{after}: finish_reason is length.", ""
    if not finish_reason:
        return "The endpoint gives no finish_reason, so nobody knows whether the answer is whole.", ""
    return f"The answer ended{after} with finish_reason {finish_reason}, not stop.", ""
