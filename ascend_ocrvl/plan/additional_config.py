"""``--additional-config``: the keys of vLLM-Ascend, which change from release to release."""

from __future__ import annotations

from typing import Any

from ascend_ocrvl.catalog import config_keys, for_release, unknown_keys_fatal
from ascend_ocrvl.catalog.schema import Catalog, ConfigRule, Release
from ascend_ocrvl.errors import PlanRefused
from ascend_ocrvl.plan import flags as flag_words
from ascend_ocrvl.plan.choice import Choice, requested
from ascend_ocrvl.plan.flags import Flag
from ascend_ocrvl.plan.ground import Ground
from ascend_ocrvl.plan.model import Decision

FLAG = "--additional-config"


def choose_additional_config(ground: Ground, flags: tuple[Flag, ...]) -> Choice[dict[str, Any]]:
    """The object for the release: the product's rules with the user's keys laid upon them.

    Raises `PlanRefused` for a key that would end the server; before 0.27.1rc1 such a key is only ignored, and
    a warning.
    """
    product, release, catalog = ground.product, ground.release, ground.catalog
    rules = for_release(product.additional_config, release.version)
    allowed = {k.key for k in config_keys(catalog, release.version)}
    rules = tuple(r for r in rules if not allowed or _known(r.key, allowed))
    config: dict[str, Any] = {}
    for rule in rules:
        config = flag_words.merged(config, flag_words.nested(rule.key.split("."), rule.value))
    given = flag_words.json_of(flag_words.take(flags, FLAG)[0])
    own = {r.key: r for r in rules}
    theirs = dict(flag_words.leaves(given))
    decisions = [_of_rule(r) for r in rules if r.key not in theirs]
    decisions += [_of_user(k, v, own.get(k)) for k, v in theirs.items()]
    warnings = [*_unknown(given, allowed, release, catalog), *_overruled(theirs, own)]
    return Choice(flag_words.merged(config, given), tuple(decisions), tuple(warnings))


def _of_rule(rule: ConfigRule) -> Decision:
    value = flag_words.compact(rule.value)
    return Decision(f"args.{FLAG}.{rule.key}", value, rule.reason, rule.source, rule.standing, rule.deviates)


def _of_user(key: str, value: object, rule: ConfigRule | None) -> Decision:
    same = rule is not None and rule.value == value
    return requested(f"args.{FLAG}.{key}", flag_words.compact(value), "Asked for.", deviates=not same)


def _overruled(theirs: dict[str, Any], own: dict[str, ConfigRule]) -> list[str]:
    return [
        f"{FLAG} {key} is {flag_words.compact(value)}, as asked, instead of "
        f"{flag_words.compact(own[key].value)}: "
        f"{own[key].reason}"
        for key, value in theirs.items()
        if key in own and own[key].value != value
    ]


def _unknown(given: dict[str, Any], allowed: set[str], release: Release, catalog: Catalog) -> list[str]:
    if not allowed:  # a catalog without keys knows nothing against any
        return []
    unknown = [key for key, _ in flag_words.leaves(given) if not _known(key, allowed)]
    if not unknown:
        return []
    from difflib import get_close_matches  # only for a proposal

    near = {k: get_close_matches(k, allowed, n=1, cutoff=0.6) for k in unknown}
    hints = "; ".join(f"{k}: did you mean {n[0]}?" for k, n in near.items() if n)
    names = ", ".join(unknown)
    if unknown_keys_fatal(catalog, release.version):
        raise PlanRefused(
            f"{release.version} has no {FLAG} key {names}." + (f" {hints}" if hints else ""),
            wanted="one of " + ", ".join(sorted(allowed)),
            why=f'From {catalog.config_fatal_since} on an unknown key ends the server: "Unexpected keyword '
            f'argument".',
            remedy="leave the key out of --arg",
        )
    return [
        f"{release.version} has no {FLAG} key {names} and ignores it silently."
        + (f" {hints}" if hints else "")
    ]


def _known(key: str, allowed: set[str]) -> bool:
    """A key is known by itself; below a known object whose inner keys nobody listed, everything is."""
    parts = key.split(".")
    for n in range(len(parts), 0, -1):
        head = ".".join(parts[:n])
        if head in allowed:
            listed = any(a.startswith(head + ".") for a in allowed)
            return n == len(parts) or not listed
    return False
