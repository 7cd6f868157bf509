"""ascend-ocrvl bundle create, inspect, load."""

from __future__ import annotations

import shlex
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ascend_ocrvl.cli.options import json_option, plan_options, read_text, spec_of
from ascend_ocrvl.errors import ExitStatus, RequestError

if TYPE_CHECKING:
    from ascend_ocrvl.bundle import Bundle

_FILE = click.Path(path_type=Path)
file_argument = click.argument("file", type=_FILE, metavar="FILE")


@click.group()
def bundle() -> None:
    """Air-gapped delivery: plan, image, weights and this program in one file."""


@bundle.command()
@click.option("-o", "--output", required=True, type=_FILE, metavar="FILE", help="The bundle to write.")
@click.option(
    "--arch",
    type=click.Choice(["aarch64", "x86_64"]),
    help="Processor of the hosts (`uname -m`). Default: as --facts, --plan or the image archive say.",
)
@click.option(
    "--image-archive",
    "image_archives",
    multiple=True,
    type=_FILE,
    metavar="FILE",
    help="What `docker save` wrote. Default: docker pulls and saves the image.",
)
@click.option(
    "--wheels",
    type=_FILE,
    metavar="DIR",
    help="Wheels of this program and what it needs. Default: pip builds and fetches them.",
)
@click.option(
    "--python", metavar="V", help="Python of the hosts, e.g. 3.11. Default: the one that runs this."
)
@click.option("--no-image", is_flag=True, help="Leave the image out: the hosts have it.")
@click.option("--no-weights", is_flag=True, help="Leave the weights out: the hosts have them.")
@click.option("--no-wheels", is_flag=True, help="Leave the program out: the hosts have it.")
@click.option("--overwrite", is_flag=True, help="Replace a file that is there.")
@plan_options
@click.option(
    "--facts", "facts_file", metavar="FILE", help="Facts of the host, as `probe` printed them. - is stdin."
)
@click.option("--plan", "plan_file", metavar="FILE", help="A plan that is to be applied as it is.")
@json_option
def create(
    *,
    output: Path,
    arch: str | None,
    image_archives: tuple[Path, ...],
    wheels: Path | None,
    python: str | None,
    no_image: bool,
    no_weights: bool,
    no_wheels: bool,
    overwrite: bool,
    weights: str | None,
    facts_file: str | None,
    plan_file: str | None,
    as_json: bool,
    **options: Any,
) -> int:
    """Write a bundle for hosts without a network. --weights names the folder on this machine.

    The file is a plain tar: its INSTALL.txt says how a host that has nothing yet begins.
    """
    from ascend_ocrvl import catalog
    from ascend_ocrvl.bundle import Order
    from ascend_ocrvl.bundle import create as write
    from ascend_ocrvl.cli.options import facts_from
    from ascend_ocrvl.cli.telling import teller
    from ascend_ocrvl.plan import Plan, Spec

    spec = spec_of({**options, "weights": None})
    if plan_file is not None and spec != Spec():
        raise RequestError(
            "--plan was given, and options that make another plan.",
            wanted="one of the two",
            remedy="ascend-ocrvl plan … -o FILE     with these options, then  bundle create --plan FILE",
        )
    telling = teller(as_json=as_json)
    left = {
        name for name, out in (("image", no_image), ("weights", no_weights), ("wheels", no_wheels)) if out
    }
    order = Order(
        path=output,
        spec=spec,
        plan=None if plan_file is None else Plan.from_json(read_text(plan_file), origin=plan_file),
        facts=None if facts_file is None else facts_from(facts_file),
        arch=arch,
        image_archives=image_archives,
        weights=None if weights is None else Path(weights),
        wheels=wheels,
        python=python,
        leave_out=frozenset(left),
        overwrite=overwrite,
    )
    try:
        made = write(order, catalog.load(), telling)
    finally:
        telling.close()
    _show(made, [], verified=None, as_json=as_json)
    return ExitStatus.OK


# Elsewhere the option names the host's folder. Here that one is ours to choose, and the packed one is asked.
for _option in create.params:
    if isinstance(_option, click.Option) and _option.name == "weights":
        _option.help = "Folder on this machine with the weights to pack."


@bundle.command()
@file_argument
@click.option("--verify", is_flag=True, help="Read every byte, and name what was changed.")
@json_option
def inspect(*, file: Path, verify: bool, as_json: bool) -> int:
    """Say what is in a bundle, and whether it is whole. Nothing is unpacked."""
    from ascend_ocrvl.bundle import changed, open_bundle
    from ascend_ocrvl.bundle import verify as read_all
    from ascend_ocrvl.cli.output import show_error
    from ascend_ocrvl.cli.telling import teller

    opened = open_bundle(file)
    if not verify:
        _show(opened, [], verified=None, as_json=as_json)
        return ExitStatus.OK
    telling = teller(as_json=as_json)
    telling.begin("Reading")
    wrong = read_all(opened, lambda name, done: telling.live(f"{name}: {done / 1e9:.1f} GB"))
    telling.close()
    _show(opened, wrong, verified=not wrong, as_json=as_json)
    if wrong:
        show_error(changed(file, wrong), as_json=False)
        return ExitStatus.REQUEST
    return ExitStatus.OK


@bundle.command()
@file_argument
@click.option(
    "--weights",
    metavar="DIR",
    help="Folder on this host for the weights.  [default: /opt/ascend-ocrvl/weights/MODEL]",
)
@click.option("--no-image", is_flag=True, help="Leave docker alone.")
@click.option("--no-weights", is_flag=True, help="Leave the weights in the bundle.")
@click.option("--dry-run", is_flag=True, help="Print the commands that would run, and change nothing.")
@json_option
def load(
    *, file: Path, weights: str | None, no_image: bool, no_weights: bool, dry_run: bool, as_json: bool
) -> int:
    """Put the image into this host's docker, and the weights into their folder.

    What is there already stays as it is; a load that broke off is finished by the same command.
    """
    import platform

    from ascend_ocrvl.bundle import load_steps, open_bundle, without
    from ascend_ocrvl.bundle.folders import weights_folder
    from ascend_ocrvl.cli.output import emit_json
    from ascend_ocrvl.cli.telling import teller
    from ascend_ocrvl.deploy.hands import Hands
    from ascend_ocrvl.deploy.here import this_site
    from ascend_ocrvl.deploy.interrupts import like_ctrl_c
    from ascend_ocrvl.deploy.journal import Journal
    from ascend_ocrvl.deploy.lock import held
    from ascend_ocrvl.deploy.steps import Record, run_steps

    opened = without(open_bundle(file), image=no_image, weights=no_weights)
    folder = str(Path(weights).absolute()) if weights else weights_folder(opened.manifest.model)
    telling = teller(as_json=as_json)
    words = shlex.join(["ascend-ocrvl", *sys.argv[1:]])
    site = this_site(words)
    journal = Journal(site.transport, site.folder, f"{site.me.user}@{site.me.machine}", words, telling.say)
    hands = Hands(site.transport, telling, dry_run, journal.action)
    record = Record()
    try:
        lock = held(site.transport, site.folder, site.me, telling.say)
        with like_ctrl_c(), nullcontext() if dry_run else lock:
            run_steps(load_steps(opened, folder, platform.machine()), hands, record)
    finally:
        telling.close()
    changed = [s for s in record.steps if s.outcome in ("done", "would")]
    if as_json:
        from ascend_ocrvl.values import plain

        emit_json(
            {
                "schema": "ascend-ocrvl/bundle-load/1",
                "outcome": "dry-run" if dry_run else "loaded" if changed else "unchanged",
                "weights": folder if opened.manifest.of("weights") else None,
                "images": [i.reference for i in opened.manifest.images],
                "steps": plain(record.steps),
            }
        )
    elif not dry_run:
        click.echo(f"next: ascend-ocrvl deploy --from-bundle {shlex.quote(str(file))}", err=True)
    return ExitStatus.OK


def _show(opened: Bundle, wrong: list[str], *, verified: bool | None, as_json: bool) -> None:
    from ascend_ocrvl.cli.output import emit_json

    manifest = opened.manifest
    if as_json:
        size = opened.path.stat().st_size
        more = {"file": str(opened.path), "bytes": size, "fingerprint": opened.fingerprint}
        emit_json({**manifest.to_dict(), **more, "verified": verified, "changed": wrong})
        return
    what = [f"product {manifest.product}", manifest.model]
    what += [f"vLLM-Ascend {manifest.release}, CANN {manifest.cann or 'unknown'}"] if manifest.release else []
    what.append(manifest.arch or "any processor")
    lines = [f"{opened.path}: {', '.join(what)}"]
    lines.append(
        f"packed {manifest.created} by ascend-ocrvl {manifest.version}; fingerprint {opened.fingerprint}"
    )
    sizes = {i.path: i.size for i in manifest.items}
    for image in manifest.images:
        identity = image.identity
        lines.append(
            f"  image    {image.reference}, {identity.platform}, {_gb(sizes[image.path])}, {identity.ids[0]}"
        )
        lines += [f"           {digest}" for digest in image.digests]
    for kind, name in (("weights", "weights"), ("wheel", "wheels")):
        items = [i for i in manifest.items if i.kind == kind]
        python = f", Python {manifest.python}" if kind == "wheel" and manifest.python else ""
        if items:
            lines.append(f"  {name:<8} {len(items)} files, {_gb(sum(i.size for i in items))}{python}")
    lines.append(
        "  plan     applied as it is"
        if manifest.exact
        else "  plan     made anew for each host, of the same request"
    )
    if verified:
        lines.append("Every byte is as it was written.")
    click.echo("\n".join(lines))


def _gb(size: int) -> str:
    return f"{size / 1e9:.2f} GB"
