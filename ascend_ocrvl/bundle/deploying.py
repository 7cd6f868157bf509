"""`deploy --from-bundle`: the usual deployment, with image and weights from the bundle and nothing pulled."""

from __future__ import annotations

from dataclasses import fields, replace

from ascend_ocrvl.bundle.folders import weights_folder
from ascend_ocrvl.bundle.load import absent_image_step, image_steps, remembered, room_step, weights_step
from ascend_ocrvl.bundle.reading import Bundle
from ascend_ocrvl.catalog.schema import Catalog
from ascend_ocrvl.deploy.arrangement import Arrangement
from ascend_ocrvl.deploy.hands import Hands
from ascend_ocrvl.deploy.images import Wanted
from ascend_ocrvl.deploy.run import Arrange
from ascend_ocrvl.deploy.steps import Step
from ascend_ocrvl.deploy.weights import folders_step
from ascend_ocrvl.errors import RequestError
from ascend_ocrvl.plan.model import Plan, Spec

# What the bundle holds was chosen when it was made; the rest may be said anew for the host.
PACKED = ("product", "release", "model", "cann", "image", "mirror", "os_variant", "hub")


def wanted_of(bundle: Bundle, asked: Spec) -> tuple[Spec, Plan | None]:
    """What to deploy: a request for a new plan, and the bundle's own plan when that is applied as it is.

    ``asked``: options of the command line. Raises `RequestError` for those that contradict the bundle.
    """
    manifest = bundle.manifest
    given = {f.name: getattr(asked, f.name) for f in fields(Spec) if getattr(asked, f.name) != f.default}
    if manifest.exact:
        return Spec(product=manifest.product), _own_plan(bundle, given)
    wrong = [n for n in PACKED if n in given and _bare(given[n]) != _bare(getattr(manifest.spec, n))]
    if wrong:
        raise RequestError(
            f"{bundle.path} was made for product {manifest.product}, release {manifest.release}, model "
            f"{manifest.model}; asked for is another {', '.join(wrong)}.",
            wanted="options that leave the contents of the bundle as they are",
            remedy="ascend-ocrvl bundle create …     with these options",
        )
    if manifest.of("weights"):
        given.setdefault("weights", weights_folder(manifest.model))
    return replace(manifest.spec, **given), None


def _bare(value: object) -> str:
    """A release with and without its leading v is the same."""
    return str(value).removeprefix("v")


def _own_plan(bundle: Bundle, given: dict[str, object]) -> Plan:
    plan = bundle.plan()
    folder = given.pop("weights", None)
    given.pop("product", None)
    if given:
        raise RequestError(
            f"The plan of {bundle.path} is applied as it is; asked for is another {', '.join(given)}.",
            wanted="no options that make another plan",
            why="The bundle was made with --plan.",
        )
    expected = weights_folder(plan.model)
    if plan.weights and bundle.manifest.of("weights") and plan.weights not in (expected, folder):
        raise RequestError(
            f"The plan of {bundle.path} wants its weights in {plan.weights}.",
            wanted=f"your word for it, since a bundle does not choose where it writes (usual is {expected})",
            remedy=f"--weights {plan.weights}",
        )
    return plan


def arrange_from(bundle: Bundle, usual: Arrange) -> Arrange:
    """As ``usual``, but images and weights come from the bundle."""

    def arrange(plan: Plan, hands: Hands, catalog: Catalog) -> Arrangement:
        arrangement = usual(plan, hands, catalog)
        if not any(s.kind == "container" for s in plan.services):
            return arrangement
        brought = {i.reference for i in bundle.manifest.images}
        if plan.weights and bundle.manifest.of("weights"):
            brought.add(plan.weights)
        steps = _steps(bundle, plan, arrangement, dry=hands.dry)
        return replace(arrangement, steps=tuple(steps), brought=frozenset(brought))

    return arrange


def _steps(bundle: Bundle, plan: Plan, arrangement: Arrangement, *, dry: bool) -> list[Step]:
    packed = {s.title: s for s in image_steps(bundle, plan.arch)}
    folder = plan.weights or ""
    brings_weights = bool(plan.weights and bundle.manifest.of("weights"))
    missing = remembered(bundle, folder)
    steps = [room_step(bundle, folder, plan.arch, missing)] if brings_weights or packed else []
    for reference in plan.images:  # that of the gateway among them
        step = packed.get(f"Image {reference}")
        steps.append(step or absent_image_step(Wanted(reference, plan.arch), bundle))
    for step in arrangement.steps:
        if step.id == "weights" and brings_weights:
            steps.append(weights_step(bundle, folder, missing))
            steps += [] if dry else [replace(step, id="weights:check", title="Weights, looked at")]
        elif step.id == "folders" and brings_weights and dry:
            steps.append(folders_step(_without_mount(plan, folder)))
        elif step.id != "image":
            steps.append(step)
    return steps


def _without_mount(plan: Plan, folder: str) -> Plan:
    """The plan without the mount of the weights, which a dry run has not put there."""
    services = (replace(s, mounts=tuple(m for m in s.mounts if m.source != folder)) for s in plan.services)
    return replace(plan, services=tuple(services))
