"""Who may open a device node: the kernel's rule, applied to facts."""

from __future__ import annotations

from ascend_ocrvl.host.facts import DeviceNode, HostFacts, OsFacts

CAP_DAC_OVERRIDE = 1 << 1  # linux/capability.h
READ_WRITE = 6


def has_dac_override(os: OsFacts) -> bool | None:
    """The process may pass over owner and mode; None when its capabilities are not known."""
    try:
        return bool(int(os.cap_eff or "", 16) & CAP_DAC_OVERRIDE)
    except ValueError:
        return None


def can_open(node: DeviceNode, os: OsFacts) -> bool | None:
    """The probing user may read and write ``node``; None when the facts do not decide.

    What the kernel said to the probe (``readable``, ``writable``) goes before what owner and mode let one
    expect.
    """
    if node.readable is not None and node.writable is not None:
        return node.readable and node.writable
    override = has_dac_override(os)
    if override:
        return True
    if node.mode is None or os.uid is None or node.uid is None or node.gid is None:
        return None
    if override is None and os.uid == 0:
        return None
    try:
        mode = int(node.mode, 8)
    except ValueError:
        return None
    if os.uid == node.uid:
        return (mode >> 6) & READ_WRITE == READ_WRITE
    if node.gid in os.gids:
        return (mode >> 3) & READ_WRITE == READ_WRITE
    return mode & READ_WRITE == READ_WRITE


def owner(node: DeviceNode) -> str:
    """``HwHiAiUser:HwHiAiUser 0660``."""
    user = node.user or (str(node.uid) if node.uid is not None else "?")
    group = node.group or (str(node.gid) if node.gid is not None else "?")
    return f"{user}:{group} {node.mode or '????'}"


def reason(node: DeviceNode, facts: HostFacts) -> str:
    """Why the probing user may not open ``node``: ``capability``, ``session``, ``ownership`` or
    ``permission``.

    ``session``: the account is in the group, but the session began before that. ``ownership``: the node
    belongs to root alone, so there is no group to join. Device nodes are only asked about when
    :func:`can_open` says no.
    """
    os = facts.os
    if os.uid == 0:
        return "capability"
    account = next((u for u in facts.users if u.name == os.user), None)
    if account and node.group and node.group in account.groups and node.group not in os.groups:
        return "session"
    if node.gid == 0:
        return "ownership"
    return "permission"
