"""Context length: what clients send must fit, and on chips with a growing mask it must not be large."""

from __future__ import annotations

from dataclasses import dataclass

from ascend_ocrvl.catalog.schema import Catalog, Client, Model, Product, Release
from ascend_ocrvl.catalog.versions import release_key
from ascend_ocrvl.errors import PlanRefused
from ascend_ocrvl.plan.choice import REQUEST, TUTORIAL, Choice
from ascend_ocrvl.plan.ground import Ground
from ascend_ocrvl.plan.model import Decision, Spec

FIELD = "args.--max-model-len"
MASK_BYTES = 2  # of one float16 element
GIB = 1024**3


@dataclass(frozen=True)
class Budget:
    """Tokens that one request of a client can need."""

    client: Client
    total: int

    @property
    def arithmetic(self) -> str:
        """The sum as a person reads it."""
        c = self.client
        parts = (
            f"{c.image_tokens} image + {c.prompt_tokens} prompt + {c.output_tokens} output = "
            f"{self.total} tokens"
        )
        return f"{parts} (paddlex {c.first} to {c.last}, task {c.task})"


def budget(spec: Spec, model: Model, catalog: Catalog) -> Choice[Budget]:
    """The largest request that the client sends for a task of the model.

    Raises `PlanRefused` for a client nobody read.
    """
    clients, warnings = _clients(spec.client, catalog)
    tasks = {t.id for t in model.tasks}
    sizes = [
        Budget(c, c.image_tokens + c.prompt_tokens + c.output_tokens) for c in clients if c.task in tasks
    ]
    largest = max(sizes, key=lambda b: b.total)
    return Choice(largest, (), warnings)


def _clients(wanted: str | None, catalog: Catalog) -> tuple[list[Client], tuple[str, ...]]:
    """The entries of one client version, and what to say when it is not one that was read."""
    known = catalog.clients
    if wanted is None:
        newest = max(known, key=lambda c: release_key(c.last) or ())
        return [c for c in known if c.last == newest.last], ()
    key = release_key(wanted)
    if key is None:
        raise PlanRefused(
            f"--client {wanted!r} is no paddlex version.",
            wanted="a version, e.g. 3.7.2",
            why="The context that a server needs follows from what its clients send.",
            remedy="pip show paddlex   (on the client)",
        )
    inside = [c for c in known if (release_key(c.first) or ()) <= key <= (release_key(c.last) or ())]
    if inside:
        return inside, ()
    earlier = [c for c in known if (release_key(c.first) or ()) <= key]
    if not earlier:
        oldest = min(known, key=lambda c: release_key(c.first) or ())
        raise PlanRefused(
            f"paddlex {wanted} has no PaddleOCR-VL client.",
            wanted=f"{oldest.first} or later",
            why="The context that a server needs follows from what its clients send.",
            remedy=f"--client {oldest.first}",
            see=oldest.source,
        )
    nearest = max(earlier, key=lambda c: release_key(c.last) or ())
    text = (
        f"What paddlex {wanted} sends is not known: it is taken to send what {nearest.first} to "
        f"{nearest.last} send."
    )
    return [c for c in earlier if c.last == nearest.last], (text,)


def choose_max_model_len(spec: Spec, ground: Ground, model: Model) -> Choice[int | None]:
    """``--max-model-len`` in tokens; None: not given, so the model's own limit holds.

    Raises `PlanRefused`, with the sum, when it is smaller than what a client can send.
    """
    product = ground.product
    needed = budget(spec, model, ground.catalog)
    value = spec.max_model_len or product.always_max_model_len
    if value is None:
        reason = (
            f"Not given, as documented: the model's own limit holds, and clients need "
            f"{needed.value.arithmetic}."
        )
        return Choice(None, (Decision(FIELD, "not given", reason, TUTORIAL),), needed.warnings)
    if value < needed.value.total:
        raise PlanRefused(
            f"A context of {value} tokens is too small for the client: {needed.value.arithmetic}.",
            wanted=f"--max-model-len {needed.value.total} or more",
            why="A longer page is cut off, and Paddle's pipeline does not look at finish_reason: rows go "
            "missing silently.",
            remedy=f"--max-model-len {product.always_max_model_len or needed.value.total}\n"
            "--client VERSION   (when the clients are another paddlex)",
            see=needed.value.client.source,
        )
    reason = f"Clients need {needed.value.arithmetic}."
    if product.max_model_len_reason:
        reason = f"{product.max_model_len_reason} {reason}"
    asked = spec.max_model_len is not None
    decision = Decision(
        FIELD,
        str(value),
        ("Asked for. " if asked else "") + reason,
        REQUEST if asked else product.max_model_len_source or TUTORIAL,
        "requested" if asked else "documented",
        value != product.always_max_model_len,
    )
    return Choice(value, (decision,), (*needed.warnings, *_mask_warning(ground, value)))


def mask_grows(product: Product, release: Release) -> bool:
    """Whether the attention mask is max-model-len squared, because the release's torch_npu is too old for a
    fixed one.
    """
    if product.fixed_mask_torch_npu is None:
        return False
    have = release_key(release.torch_npu.split("+")[0].split(".dev")[0])
    need = release_key(product.fixed_mask_torch_npu)
    return have is None or need is None or have < need


def _mask_warning(ground: Ground, value: int) -> tuple[str, ...]:
    product, release = ground.product, ground.release
    usual = product.always_max_model_len
    if usual is None or value <= usual:
        return ()
    if not mask_grows(product, release):
        return (
            f"The support matrix of {product.id} names {usual} tokens as the limit; {value} is beyond it.",
        )
    size = value * value * MASK_BYTES
    chips = [band[1] for c in ground.catalog.chips if c.product == product.id for band in c.memory_mb]
    beyond = f" No {product.id} chip has that much." if chips and size > max(chips) * 1024**2 else ""
    return (
        f"{release.version} on {product.id} allocates an attention mask of {value} x {value} x {MASK_BYTES} "
        f"bytes = "
        f"{size / GIB:.1f} GiB.{beyond} Take --max-model-len {usual}, or a release whose torch_npu is "
        f"{product.fixed_mask_torch_npu} or later.",
    )
