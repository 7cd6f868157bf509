"""What an endpoint says it serves, compared with what was asked for, before any work is sent."""

from __future__ import annotations

from dataclasses import dataclass

from ascend_ocrvl.errors import RequestError
from ascend_ocrvl.verify.answer import NoAnswer
from ascend_ocrvl.verify.client import Client
from ascend_ocrvl.verify.replies import ServedModel, describe, read_models


@dataclass(frozen=True)
class Handshake:
    """Which served name requests will use. ``fault`` is set when there is no point in sending any."""

    model: str
    served: tuple[ServedModel, ...] = ()
    server: str = ""
    version: str = ""
    notes: tuple[str, ...] = ()
    fault: NoAnswer | None = None

    @property
    def chosen(self) -> ServedModel:
        """The entry of the model list for ``model``; an empty one when the endpoint gives no list."""
        return next((served for served in self.served if served.id == self.model), ServedModel(self.model))


async def shake_hands(client: Client, wanted: str | None) -> Handshake:
    """Ask for the model list and choose the served name: ``wanted``, or the only one there is.

    Raises `RequestError` when the endpoint serves other names than ``wanted``.
    """
    reply = await client.models()
    if isinstance(reply, NoAnswer):
        return _without_list(wanted, reply, client)
    body, server = reply
    served = read_models(body)
    if not served:
        said = "an empty model list" if served is not None else f"{describe(body)} instead of a model list"
        detail = f"GET {client.endpoint.url}/models gives {said}."
        return _without_list(wanted, NoAnswer("nonsense", detail), client)
    names = [model.id for model in served]
    if wanted is not None and wanted not in names:
        raise mismatch(wanted, names, client.endpoint.url)
    notes: tuple[str, ...] = ()
    if wanted is None and len(names) > 1:
        notes = (f"The endpoint serves {', '.join(names)}; {names[0]} was asked. --model chooses another.",)
    version = await client.version()
    return Handshake(wanted or names[0], served, server, version, notes)


def mismatch(wanted: str, served: list[str], url: str) -> RequestError:
    """The error for a served name that the endpoint has not got."""
    return RequestError(
        f"{url} serves {', '.join(served)}, and {wanted} was asked for.",
        wanted=f"an endpoint that serves {wanted}, or the name that this one serves",
        why="A request for another name gets 404. The served name also says which weights and which pipeline "
        "version belong together.",
        remedy=f"--model {served[0]}",
    )


def _without_list(wanted: str | None, fault: NoAnswer, client: Client) -> Handshake:
    """With a name, requests can be tried without a list; a dead or closed endpoint is not tried again."""
    if fault.kind == "timeout":
        fault = NoAnswer(
            "unreachable", f"{client.endpoint.url}/models: {fault.detail}", fault.seconds, fault.attempts
        )
    if wanted is None or fault.kind in ("unreachable", "denied"):
        return Handshake(wanted or "", fault=fault)
    return Handshake(wanted, notes=(f"The served name could not be checked: {fault.detail}",))
