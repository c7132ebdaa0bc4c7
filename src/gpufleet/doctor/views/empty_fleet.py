"""What the engine says of waiting pods on a fleet without any work: causes that no pod's end removes.

Nodes and pods come as amounts, as all checks count them, so that pods of any scheduler can be asked about.
The cause is the one that ``gpufleet explain`` tells where only the amounts stand in the way.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpufleet.doctor.facts import Facts
from gpufleet.doctor.views.free_capacity import CPU, MEMORY, NANO, Amounts, offered_when_well
from gpufleet.model.device import WHOLE_GPU_MILLI, Device, Serves
from gpufleet.model.identifiers import DeviceId, NodeName, PodUid
from gpufleet.model.node import Node
from gpufleet.model.pod import Pod
from gpufleet.model.resource_names import GPU_RESOURCES, is_mig_instance
from gpufleet.model.resources import Resources
from gpufleet.model.shape import GpuRequest, Shape

if TYPE_CHECKING:
    from gpufleet.engine.scheduler import Engine

NANO_PER_MILLI = NANO // 1000
POLICY = "best-fit"
"""Any policy will do: whether a pod fits on an empty node does not depend on it."""

PODS_MAX = 1 << 20
"""Nodes count as empty, so their limit of pods keeps no pod away."""

Selection = frozenset[str]
"""The names of the nodes that a pod selects."""


@dataclass(frozen=True)
class Barrier:
    """Why a pod fits on no empty node: the cause, and the nearest way out as ``explain`` says it, or ""."""

    cause: str
    way_out: str


def barriers_on_empty(
    facts: Facts, wanted: Iterable[tuple[Amounts, Selection]]
) -> dict[object, Barrier | None]:
    """By amounts and selection what keeps a pod off every empty node; None where it fits on one."""
    # The engine takes a second to load, and few clusters have a pod to ask about.
    from gpufleet.engine.event import NodeSet, PodAdded, PodRemoved
    from gpufleet.engine.explanations.causes import ABOUT_TO_RUN
    from gpufleet.engine.policy import find_policy
    from gpufleet.engine.scheduler import Engine

    asked = list(dict.fromkeys(wanted))
    labels = {names: f"selection-{number}" for number, (_, names) in enumerate(asked)}
    engine = Engine(find_policy(POLICY))
    engine.step(0, [NodeSet(_node(name, offered, labels)) for name, offered in _sorts(facts, labels)])
    found: dict[object, Barrier | None] = {}
    for number, (amounts, names) in enumerate(asked):
        uid = PodUid(str(number))
        engine.step(0, [PodAdded(Pod(uid, _shape(amounts, labels[names])))])
        cause = engine.cause(uid)
        found[amounts, names] = None if cause in {"", ABOUT_TO_RUN} else Barrier(cause, _way_out(engine, uid))
        # Each pod is asked about alone, as if no other were there.
        engine.step(0, [PodRemoved(uid)])
    return found


def _sorts(facts: Facts, selections: Iterable[Selection]) -> list[tuple[str, Amounts]]:
    """One node, with what it offers, of all that offer the same and are selected alike.

    Empty, they are one and the same to a pod, and to build thousands in the engine takes seconds.
    """
    wanted = tuple(selections)
    found: dict[tuple[Amounts, frozenset[Selection]], str] = {}
    for one in facts.nodes:
        chosen = frozenset(names for names in wanted if one.name in names)
        found.setdefault((offered_when_well(one.seen), chosen), one.name)
    return [(name, offered) for (offered, _), name in found.items()]


def _way_out(engine: "Engine", uid: PodUid) -> str:
    explained = engine.explanation(uid)
    if explained is None:
        return ""
    ways = (one.way_out for one in explained.findings if one.reason == explained.cause)
    return next((way[0] for way in ways if way), "")


def _node(name: str, offered: Amounts, labels: Mapping[Selection, str]) -> Node:
    devices = tuple(
        Device(DeviceId(f"{name}/{kind}/{index}"), serves=Serves.WHOLE)
        for kind in GPU_RESOURCES
        for index in range(offered.of(kind) // NANO)
    )
    # A card that is cut into MIG instances is a GPU as well, and is not given out whole.
    devices += tuple(
        Device(DeviceId(f"{name}/{kind}/{index}"), serves=Serves.NOTHING)
        for kind in sorted(offered.by_name)
        if is_mig_instance(kind)
        for index in range(offered.of(kind) // NANO)
    )
    chosen = {label: "yes" for names, label in labels.items() if name in names}
    resources = _resources(offered, rounded_up=False)
    known = tuple(kind for kind in GPU_RESOURCES if offered.of(kind))
    return Node(NodeName(name), resources, devices, chosen, gpu_resources=known)


def _shape(asked: Amounts, label: str) -> Shape:
    kinds = [kind for kind in GPU_RESOURCES if asked.of(kind)]
    count = sum(asked.of(kind) for kind in kinds) // NANO
    gpu = GpuRequest(count, WHOLE_GPU_MILLI) if count else GpuRequest()
    kind = kinds[0] if len(kinds) == 1 else ""
    return Shape(_resources(asked, rounded_up=True), gpu, ((label, "yes"),), gpu_resource=kind)


def _resources(amounts: Amounts, *, rounded_up: bool) -> Resources:
    """Amounts as the engine counts them: what is offered is rounded down, what is asked for up."""

    def whole(nano: int, unit: int) -> int:
        return -(-nano // unit) if rounded_up else nano // unit

    others = (name for name in amounts.by_name if name not in {CPU, MEMORY, *GPU_RESOURCES})
    other = tuple((name, whole(amounts.of(name), NANO)) for name in others)
    cpu, memory = whole(amounts.of(CPU), NANO_PER_MILLI), whole(amounts.of(MEMORY), NANO)
    return Resources(cpu, memory, PODS_MAX, other=other)
