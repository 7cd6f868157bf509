"""Environment variables of the server."""

from __future__ import annotations

from ascend_ocrvl.catalog import for_release
from ascend_ocrvl.catalog.schema import EnvLimit, EnvRule, Product, Release
from ascend_ocrvl.errors import PlanRefused
from ascend_ocrvl.plan import flags as flag_words
from ascend_ocrvl.plan.choice import TUTORIAL, Choice, requested
from ascend_ocrvl.plan.flags import Flag
from ascend_ocrvl.plan.ground import Ground
from ascend_ocrvl.plan.model import Decision, Spec
from ascend_ocrvl.plan.weights import Weights

Env = tuple[tuple[str, str], ...]

_SECRET = ("TOKEN", "SECRET", "PASSWORD", "API_KEY")


def choose_environment(spec: Spec, ground: Ground, weights: Weights, flags: tuple[Flag, ...]) -> Choice[Env]:
    """The product's variables for the release, those of the weights, and the user's, which win.

    Raises `PlanRefused` for a value that stops the server, and for device lists, which are container-local
    numbers.
    """
    product, release = ground.product, ground.release
    given = dict(spec.extra_env)
    limits = {limit.name: limit for limit in ground.catalog.env_limits}
    for name, value in given.items():
        _check(name, value, limits.get(name), flags)
    rules = [r for r in for_release(product.env, release.version) if r.hub in (None, weights.hub)]
    env = {r.name: r.value for r in rules}
    notes = [_rule_note(r) for r in rules if r.name not in given]
    notes += [*_hub_note(product, release, weights, given), _model_path()]
    for rule in rules:
        limit = limits.get(rule.name)
        clash = _flag_clash(env[rule.name], limit, flags) if limit and rule.name not in given else None
        if limit and clash:
            del env[rule.name]
            notes = [n for n in notes if n.field != f"env.{rule.name}"]
            why = f"Left out because of {clash}: {limit.reason}"
            notes.append(
                Decision(f"env.{rule.name}", "left out", why, limit.source, limit.standing, deviates=True)
            )
    env |= dict(weights.env)
    notes += [_user_note(name, value, env.get(name)) for name, value in given.items()]
    env |= given
    return Choice(tuple(env.items()), tuple(notes), (*_exposed(given), *_pinned_twice(given, rules)))


def omissions(product: Product, release: Release, given: Env) -> Choice[None]:
    """What the documented command has and this plan leaves out, unless the user asked for it."""
    names = {f"env.{name}" for name, _ in given}
    return Choice(
        None,
        tuple(
            Decision(
                o.field, f"left out (documented: {o.value})", o.reason, o.source, o.standing, deviates=True
            )
            for o in for_release(product.omitted, release.version)
            if o.field not in names
        ),
    )


def _rule_note(rule: EnvRule) -> Decision:
    return Decision(f"env.{rule.name}", rule.value, rule.reason, rule.source, rule.standing, rule.deviates)


def _hub_note(product: Product, release: Release, weights: Weights, given: dict[str, str]) -> list[Decision]:
    gone = [r for r in for_release(product.env, release.version) if r.hub not in (None, weights.hub)]
    why = (
        "The weights are a folder of the host."
        if weights.hub is None
        else f"The weights come from {weights.hub}."
    )
    return [
        requested(f"env.{r.name}", f"left out (documented: {r.value})", why, deviates=True)
        for r in gone
        if r.name not in given
    ]


def _model_path() -> Decision:
    reason = "A shell variable of the documented script only; here the command names the model itself."
    return Decision("env.MODEL_PATH", "left out", reason, TUTORIAL, deviates=True)


def _user_note(name: str, value: str, before: str | None) -> Decision:
    if before == value:
        return requested(f"env.{name}", value, "Asked for, and documented.")
    reason = "Asked for." if before is None else f"Asked for, instead of {before}."
    shown = "(hidden)" if _is_secret(name) else value
    return requested(f"env.{name}", shown, reason, deviates=True)


def _check(name: str, value: str, limit: EnvLimit | None, flags: tuple[Flag, ...]) -> None:
    if limit is None:
        return
    if limit.forbidden:
        raise PlanRefused(
            f"--env {name}={value} cannot be used in a container.",
            wanted="the chips as --npus",
            why=limit.reason,
            remedy=f"--npus {value}" if value.replace(",", "").isdigit() else "--npus 0",
            see=limit.source,
        )
    if limit.values and value not in limit.values:
        raise PlanRefused(
            f"--env {name}={value} is none of its values.",
            wanted=", ".join(limit.values),
            why=limit.reason,
            remedy=f"--env {name}={limit.values[min(1, len(limit.values) - 1)]}",
            see=limit.source,
        )
    for one, other in limit.excludes:
        if _has(value, one) and _has(value, other):
            raise PlanRefused(
                f"--env {name}={value} has {one} and {other} together.",
                wanted="one of the two",
                why=limit.reason,
                remedy=f"--env {name}={one}",
                see=limit.source,
            )
    clash = _flag_clash(value, limit, flags)
    if clash:
        raise PlanRefused(
            f"--env {name}={value} and --arg {clash} were both given.",
            wanted="one of the two",
            why=limit.reason,
            remedy=f"leave {name} out of --env",
            see=limit.source,
        )


def _flag_clash(value: str, limit: EnvLimit, flags: tuple[Flag, ...]) -> str | None:
    for part, flag in limit.excludes_flags:
        if _has(value, part) and flag_words.take(flags, flag)[0]:
            return flag
    return None


def _has(value: str, start: str) -> bool:
    return any(part.strip().lower().startswith(start.lower()) for part in value.split(","))


def _is_secret(name: str) -> bool:
    return any(word in name.upper() for word in _SECRET)


def _exposed(given: dict[str, str]) -> tuple[str, ...]:
    names = [name for name in given if _is_secret(name)]
    if not names:
        return ()
    return (
        f"{', '.join(names)} is stored in the plan and readable in `docker inspect` by who may use docker.",
    )


def _pinned_twice(given: dict[str, str], rules: list[EnvRule]) -> tuple[str, ...]:
    name = "CPU_AFFINITY_CONF"
    if name not in given or name in {r.name for r in rules}:
        return ()
    return (f"{name} and enable_cpu_binding pin the same threads; the later one, enable_cpu_binding, wins.",)
