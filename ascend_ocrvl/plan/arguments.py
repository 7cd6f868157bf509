"""The arguments of ``vllm serve``:

the product's rules for the release, what we add, and what the user gave.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ascend_ocrvl.catalog import for_release
from ascend_ocrvl.catalog.schema import ArgumentRule, Model, Product
from ascend_ocrvl.errors import PlanRefused
from ascend_ocrvl.plan import flags as flag_words
from ascend_ocrvl.plan.additional_config import FLAG as ADDITIONAL
from ascend_ocrvl.plan.choice import REQUEST, TUTORIAL, Choice, requested
from ascend_ocrvl.plan.flags import Flag
from ascend_ocrvl.plan.graph import COMPILATION, EAGER
from ascend_ocrvl.plan.ground import Ground
from ascend_ocrvl.plan.model import Decision, Spec
from ascend_ocrvl.plan.wish import Wish

# The order of the documented commands, so that a person can lay the two side by side.
ORDER = (
    "--max-model-len",
    "--max-num-batched-tokens",
    "--max-num-seqs",
    "--gpu-memory-utilization",
    "--served-model-name",
    "--trust-remote-code",
    "--no-enable-prefix-caching",
    "--mm-processor-cache-gb",
    "--dtype",
    COMPILATION,
    "--enforce-eager",
    ADDITIONAL,
)
DTYPE = "--dtype"
PARALLEL = ("--tensor-parallel-size", "--pipeline-parallel-size", "--data-parallel-size")
HALF = {"half": "float16", "float": "float32"}  # vLLM's other names of the same types


@dataclass(frozen=True)
class Parts:
    """What other decisions contribute to the arguments."""

    max_model_len: int | None
    graph: str
    additional_config: dict[str, Any]
    served_name: str


def choose_arguments(wish: Wish, ground: Ground, model: Model, parts: Parts) -> Choice[tuple[Flag, ...]]:
    """Every option but ``--host`` and ``--port``, in the documented order; the user's others come last.

    Raises `PlanRefused` for a data type or a parallelism that the product has not got.
    """
    product = ground.product
    _refuse_parallel(wish.flags, product)
    dtype = choose_dtype(wish.flags, product)
    rules = _rules(ground, wish, parts.graph)
    own = {r.flag: Flag(r.flag, () if r.value is None else (r.value,)) for r in rules}
    notes = [_rule_note(r) for r in rules]
    if parts.max_model_len is not None:
        own["--max-model-len"] = Flag("--max-model-len", (str(parts.max_model_len),))
    for flag, note in (*_numbers(wish.spec), _served(wish.spec, model, parts), *_trust(model)):
        own[flag.name] = flag
        notes = [n for n in notes if n.field != note.field] + [note]
    if dtype.value is not None:
        own[DTYPE] = Flag(DTYPE, (dtype.value,))
    if parts.additional_config:
        own[ADDITIONAL] = Flag(ADDITIONAL, (flag_words.compact(parts.additional_config),))
    others = flag_words.take(wish.flags, ADDITIONAL, DTYPE)[1]
    compilation, others = flag_words.take(others, COMPILATION)
    if compilation:
        own[COMPILATION] = _compilation(own.get(COMPILATION), compilation)
        own.pop("--enforce-eager", None)
        notes = [n for n in notes if n.field not in (f"args.{COMPILATION}", "args.--enforce-eager")]
        notes.append(requested(f"args.{COMPILATION}", own[COMPILATION].value, "Asked for.", deviates=True))
    own, notes, rest = _overrule(own, notes, others)
    notes.append(_spelling())
    ordered = sorted(own.values(), key=lambda f: ORDER.index(f.name) if f.name in ORDER else len(ORDER))
    return Choice(
        (*ordered, *rest), (*notes, *dtype.decisions), (*_secrets(wish.flags), *_renamed(wish.spec, model))
    )


def _rules(ground: Ground, wish: Wish, graph: str) -> list[ArgumentRule]:
    mode = "eager" if graph == EAGER else "graph"
    return [
        r
        for r in for_release(ground.product.args, ground.release.version)
        if r.profile in (None, wish.spec.profile) and r.mode in (None, mode)
    ]


def _rule_note(rule: ArgumentRule) -> Decision:
    return Decision(
        f"args.{rule.flag}", rule.value or "on", rule.reason, rule.source, rule.standing, rule.deviates
    )


def _numbers(spec: Spec) -> list[tuple[Flag, Decision]]:
    wanted = (("--max-num-seqs", spec.max_num_seqs), ("--gpu-memory-utilization", spec.memory_utilization))
    return [
        (Flag(name, (f"{value:g}",)), requested(f"args.{name}", f"{value:g}", "Asked for.", deviates=True))
        for name, value in wanted
        if value is not None
    ]


def _served(spec: Spec, model: Model, parts: Parts) -> tuple[Flag, Decision]:
    name = "--served-model-name"
    if spec.served_name is None:
        reason = f"The name that Paddle clients of pipeline {model.pipeline_version} ask for."
        return Flag(name, (parts.served_name,)), Decision(
            f"args.{name}", parts.served_name, reason, model.source, model.standing
        )
    differs = spec.served_name != model.served_name
    return Flag(name, (parts.served_name,)), requested(
        f"args.{name}", parts.served_name, "Asked for.", deviates=differs
    )


def _renamed(spec: Spec, model: Model) -> tuple[str, ...]:
    if spec.served_name in (None, model.served_name):
        return ()
    return (
        f"Clients of {model.title} ask for {model.served_name} unless they are told {spec.served_name} "
        "(vl_rec_api_model_name); without it they get 404.",
    )


def _trust(model: Model) -> list[tuple[Flag, Decision]]:
    if not model.trust_remote_code:
        return []
    reason = "The weights come with their own model code, as in the documented command."
    return [(Flag("--trust-remote-code"), Decision("args.--trust-remote-code", "on", reason, TUTORIAL))]


def choose_dtype(flags: tuple[Flag, ...], product: Product) -> Choice[str | None]:
    """``--dtype``;

    None: not given. Raises `PlanRefused` for a type that the chip has not got, ``auto`` included.
    """
    field = f"args.{DTYPE}"
    given = flag_words.take(flags, DTYPE)[0]
    if not given:
        if not product.dtype_explicit:
            return Choice(None)
        value = product.dtypes[0]
        return Choice(
            value, (Decision(field, value, product.dtype_reason, product.dtype_source, product.standing),)
        )
    value = HALF.get(given[-1].value, given[-1].value)
    automatic = value == "auto" and not product.dtype_explicit
    if not automatic and value not in product.dtypes:
        raise PlanRefused(
            f"--dtype {given[-1].value} was asked for on {product.title}.",
            wanted=f"--dtype {product.dtypes[0]}",
            why=product.dtype_reason,
            remedy="leave --dtype out: the plan sets it",
            see=product.dtype_source,
        )
    return Choice(
        value,
        (requested(field, value, "Asked for.", deviates=not (product.dtype_explicit and not automatic)),),
    )


def _refuse_parallel(flags: tuple[Flag, ...], product: Product) -> None:
    for flag in flag_words.take(flags, *PARALLEL)[0]:
        if flag.value.isdigit() and int(flag.value) <= product.max_tensor_parallel:
            continue
        raise PlanRefused(
            f"{flag.name} {flag.value} was asked for.",
            wanted="one chip per service",
            why="The model is served on a single device: the support matrix has no parallelism for it.",
            remedy="--npus 0,1   (a service on each chip)",
            see="vllm-ascend supported_models.md",
        )


def _compilation(rule: Flag | None, given: tuple[Flag, ...]) -> Flag:
    base = flag_words.json_of((rule,)) if rule else {}
    return Flag(COMPILATION, (flag_words.compact(flag_words.merged(base, flag_words.json_of(given))),))


def _overrule(
    own: dict[str, Flag], notes: list[Decision], others: tuple[Flag, ...]
) -> tuple[dict[str, Flag], list[Decision], list[Flag]]:
    """The user's word wins over a rule of the same option, ``--no-…`` being the same option."""
    own = dict(own)
    rest: list[Flag] = []
    for flag in others:
        clash = next((name for name in own if _positive(name) == _positive(flag.name)), None)
        if clash is None:
            rest.append(flag)
            notes = [*notes, requested(f"args.{flag.name}", flag.value or "on", "Asked for.", deviates=True)]
            continue
        before = next(n for n in notes if n.field == f"args.{clash}")
        same = own.pop(clash) == flag
        reason = "Asked for." if same else f"Asked for, instead of {clash} {before.value}: {before.reason}"
        changed = replace(
            before, field=f"args.{flag.name}", value=flag.value or "on", reason=reason, source=REQUEST,
            standing="requested", deviates=before.deviates or not same,
        )  # fmt: skip
        gone = () if clash == flag.name else (_replaced(before, clash, flag.name),)
        notes = [m for n in notes for m in ((changed, *gone) if n is before else (n,))]
        if flag.name in ORDER:
            own[flag.name] = flag
        else:
            rest.append(flag)
    return own, notes, rest


def _replaced(before: Decision, name: str, by: str) -> Decision:
    return requested(
        f"args.{name}", f"left out (documented: {before.value})", f"{by} takes its place.", deviates=True
    )


def _positive(name: str) -> str:
    return "--" + name[5:] if name.startswith("--no-") else name


def _spelling() -> Decision:
    reason = (
        "The documented command writes --max_model_len and --additional_config; vLLM takes both for the "
        "same option, and "
        "hyphens are its own spelling."
    )
    return Decision("args.spelling", "hyphens", reason, "vllm/utils/argparse_utils.py", deviates=True)


def _secrets(flags: tuple[Flag, ...]) -> tuple[str, ...]:
    if not flag_words.take(flags, "--api-key")[0]:
        return ()
    return (
        "--api-key is readable in the plan and in `docker inspect`; --env VLLM_API_KEY=… is no better "
        "hidden.",
    )
