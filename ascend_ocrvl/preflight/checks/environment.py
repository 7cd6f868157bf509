"""Environment variables of the services."""

from __future__ import annotations

from ascend_ocrvl.catalog.schema import EnvLimit
from ascend_ocrvl.preflight.context import Context
from ascend_ocrvl.preflight.finding import Finding
from ascend_ocrvl.preflight.verdict import failed, listed, passed, warned

VISIBLE = ("ASCEND_RT_VISIBLE_DEVICES", "ASCEND_VISIBLE_DEVICES")
BINDING = "CPU_AFFINITY_CONF"


def environments(ctx: Context) -> list[dict[str, str]]:
    """The environment of every service; without a plan, what was asked for."""
    return [dict(s.env) for s in ctx.services] or [dict(ctx.spec.extra_env)]


def visible_devices(ctx: Context) -> Finding:
    """No variable renumbers the devices that are mapped one by one."""
    limits = {limit.name: limit for limit in ctx.catalog.env_limits if limit.name in VISIBLE}
    given = {n: env[n] for env in environments(ctx) for n in limits if n in env}
    given = {n: v for n, v in given.items() if not (n == VISIBLE[1] and v == "void")}
    if not given:
        return passed(f"{listed(VISIBLE)} are not set.")
    name, value = next(iter(given.items()))
    return failed(
        f"{name}={value}.",
        wanted=f"{name} unset",
        why=limits[name].reason,
        remedy="Leave it out: the service sees the devices that are mapped into it, and only these.",
        commands=(_without(ctx, name),),
        source=limits[name].source,
    )


def conflicts(ctx: Context) -> list[Finding] | Finding:
    """No variable has a value that the libraries refuse, or works against an option."""
    out: list[Finding] = []
    for limit in ctx.catalog.env_limits:
        if limit.name in VISIBLE:
            continue
        wrong = next(
            filter(None, (_wrong(limit, env, _words(ctx, i)) for i, env in enumerate(environments(ctx)))),
            None,
        )
        if wrong:
            out.append(
                failed(
                    f"{limit.name}: {wrong}.",
                    wanted=f"one of {listed(limit.values)}" if limit.values else "one of the two, or neither",
                    why=limit.reason,
                    remedy="Leave the variable to the plan.",
                    commands=(_without(ctx, limit.name),),
                    source=limit.source,
                )
            )
    if any(n == BINDING for n, _ in ctx.spec.extra_env) and any(
        "enable_cpu_binding" in w for s in ctx.services for w in s.serve
    ):
        out.append(
            warned(
                f"{BINDING} is given, and the plan has enable_cpu_binding.",
                wanted="one of the two",
                why="Both pin the same threads: torch_npu at its start, vLLM-Ascend after warm-up. The "
                "later one wins, and newer torch_npu may stop with `Thread affinity conflict detected!`.",
                remedy="Leave the variable out.",
                commands=(_without(ctx, BINDING),),
                source=ctx.source("note.affinity"),
            )
        )
    return out or passed("No value that the libraries refuse.")


def _wrong(limit: EnvLimit, env: dict[str, str], words: tuple[str, ...]) -> str | None:
    value = env.get(limit.name)
    if value is None:
        return None
    if limit.forbidden:
        return f"{value!r} is set"
    if limit.values and value not in limit.values:
        return f"{value!r} is not a value"
    parts = [p.strip() for p in value.split(",")]
    for one, other in limit.excludes:
        if any(p.startswith(one) for p in parts) and any(p.startswith(other) for p in parts):
            return f"{one} and {other.rstrip(':')} exclude each other"
    for one, option in limit.excludes_flags:
        if any(p.startswith(one) for p in parts) and option in words:
            return f"{one} and {option} exclude each other"
    return None


def _words(ctx: Context, index: int) -> tuple[str, ...]:
    return ctx.services[index].serve if index < len(ctx.services) else ctx.spec.extra_args


def _without(ctx: Context, name: str) -> str:
    return ctx.retry(extra_env=tuple(p for p in ctx.spec.extra_env if p[0] != name))
