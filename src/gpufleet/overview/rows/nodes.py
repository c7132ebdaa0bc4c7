"""Lines of the view of nodes: those with GPUs, what of them is held, and what their agents measure."""

from collections.abc import Iterable
from typing import Any

from gpufleet.kube.codec.node import counted_gpus
from gpufleet.kube.objects.node import READY, Node
from gpufleet.kube.objects.node_devices import HEALTHY, NodeDevices, ReportedDevice
from gpufleet.model.gpu_unit import GpuUnit, unit_of
from gpufleet.model.identifiers import DeviceId
from gpufleet.model.model_errors import InputError
from gpufleet.model.phrases import counted
from gpufleet.overview.rows.known import FleetPart, Known
from gpufleet.overview.rows.lines import NodeLine
from gpufleet.overview.rows.pod_facts import MILLI, PodFact
from gpufleet.overview.rows.use import total
from gpufleet.usage.agent_use import NodeUse

READY_STATE = "ready"
PARTS = {GpuUnit.SHARE: "shares", GpuUnit.INSTANCE: "instances"}
"""What the devices of a card are called that is given out in parts under the name of whole GPUs."""


Rights = tuple[tuple[str, ...], tuple[str, ...]]
"""The parts that are not known, and the namespaces that are looked at."""


def rights_of(known: Known) -> Rights:
    """What lines say depends on it, beside objects and use."""
    return tuple(sorted(part.value for part in known.unread)), tuple(known.namespaces)


class NodeLines:
    """Lines of nodes; one is made anew when something of its node has changed."""

    def __init__(self) -> None:
        self._made: dict[str, tuple[tuple[Any, ...], NodeLine | None]] = {}

    def of(self, known: Known, facts: list[PodFact]) -> list[NodeLine]:
        """A line for each node with GPUs; of a node that may not be looked at, what its report says."""
        placed: dict[str, list[PodFact]] = {}
        for fact in facts:
            if fact.pod.spec.node_name:
                placed.setdefault(fact.pod.spec.node_name, []).append(fact)
        names = {name for _, name in known.nodes} | {name for _, name in known.devices}
        rights = rights_of(known)
        made: dict[str, tuple[tuple[Any, ...], NodeLine | None]] = {}
        for name in sorted(names):
            # A report may outlive its node by a moment.
            if ("", name) in known.nodes or not known.reads(FleetPart.NODES):
                made[name] = self._made_of(name, placed.get(name, []), known, rights)
        self._made = made
        return [line for _, line in made.values() if line is not None]

    def measured(self, known: Known) -> list[NodeLine]:
        """The lines where nothing but measured use has changed since they were made."""
        for name, (made_of, _) in self._made.items():
            node, report, use, rights, placed = made_of
            if known.use.get(name) is not use:
                line = node_line(name, node, report, placed, known)
                self._made[name] = (node, report, known.use.get(name), rights, placed), line
        return [line for _, line in self._made.values() if line is not None]

    def _made_of(
        self, name: str, placed: list[PodFact], known: Known, rights: Rights
    ) -> tuple[tuple[Any, ...], NodeLine | None]:
        node, report = known.nodes.get(("", name)), known.devices.get(("", name))
        use = known.use.get(name)
        made_of = (node, report, use, rights, placed)
        before = self._made.get(name)
        if before is not None and _are_same(before[0], made_of):
            return before
        return made_of, node_line(name, node, report, placed, known)


def _are_same(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    """Whether a line is made of the very same values: comparing them in full would cost as much as the
    line.
    """
    if one[3] != other[3] or len(one[4]) != len(other[4]):
        return False
    pairs = (*zip(one[:3], other[:3], strict=True), *zip(one[4], other[4], strict=True))
    return all(left is right for left, right in pairs)


def node_line(
    name: str, node: Node | None, report: NodeDevices | None, placed: list[PodFact], known: Known
) -> NodeLine | None:
    """The line of one node; None for one without GPUs. ``placed`` are the pods on it."""
    devices = () if report is None else report.spec.devices
    gpus = len(devices) if devices else _counted(node)
    if gpus == 0 and not placed:
        return None
    unwell = [one for one in devices if one.health != HEALTHY or one.taints]
    state, reason = _state(node, report, unwell, known)
    sees_all = known.reads(FleetPart.PODS) and not known.namespaces
    use = known.use.get(name)
    return NodeLine(
        name,
        state,
        reason,
        ", ".join(sorted({_model(one) for one in devices if one.model})),
        gpus,
        _held(placed) if sees_all else _reported_held(report),
        len(unwell) if report is not None else None,
        len(placed) if sees_all else None,
        *_measured(use),
    )


def _model(device: ReportedDevice) -> str:
    """The model, and whether the device is only a part of such a card."""
    unit = unit_of(DeviceId(device.id))
    return device.model if unit is GpuUnit.GPU else f"{device.model} {PARTS[unit]}"


def _counted(node: Node | None) -> int | None:
    if node is None:
        return None
    try:
        return counted_gpus(node)
    except InputError:
        return None


def _state(
    node: Node | None, report: NodeDevices | None, unwell: list[ReportedDevice], known: Known
) -> tuple[str, str]:
    """The worst that is known of it, and more words."""
    words = "; ".join(dict.fromkeys(f"{one.id}: {one.health_reason or one.health}" for one in unwell))
    if node is None:
        return "?", known.unread.get(FleetPart.NODES, "")
    ready = next((one for one in node.status.conditions if one.type == READY), None)
    if ready is None or ready.status != "True":
        said = "it has no condition Ready" if ready is None else f"Ready is {ready.status}: {ready.reason}"
        return "not ready", said
    if unwell:
        return f"{len(unwell)} unwell", words
    if node.spec.unschedulable:
        return "cordoned", "it takes no new pods (kubectl uncordon)"
    if report is None and known.reads(FleetPart.DEVICES):
        return "no report", "no agent reports its GPUs: nothing with GPUs is placed there"
    return READY_STATE, ""


def _held(placed: Iterable[PodFact]) -> float | None:
    milli = 0
    for fact in placed:
        if fact.gpus_milli is None:
            return None
        milli += fact.gpus_milli
    return milli / MILLI


def _reported_held(report: NodeDevices | None) -> float | None:
    """What the agent sees to be held, for a person without the right to list all pods."""
    return None if report is None else sum(one.gpu_milli for one in report.spec.holders) / MILLI


def _measured(use: NodeUse | None) -> tuple[float | None, ...]:
    cards = [] if use is None else list(use.cards.values())
    busy = total(card.busy_ratio for card in cards)
    hottest = [card.temperature_celsius for card in cards if card.temperature_celsius is not None]
    return (
        None if busy is None else busy / len(cards),
        total(card.memory_used_bytes for card in cards),
        total(card.memory_bytes for card in cards),
        total(card.power_watts for card in cards),
        max(hottest, default=None),
    )


def fleet_words(lines: list[NodeLine]) -> str:
    """The fleet in a few words."""
    held, unwell = total(line.gpus_held for line in lines), sum(line.gpus_unwell or 0 for line in lines)
    away = sum(line.state in {"not ready", "no report"} for line in lines)
    said = [
        counted(len(lines), "node"),
        counted(sum(line.gpus or 0 for line in lines), "GPU"),
        f"{'?' if held is None and lines else f'{held or 0:.6g}'} held",
        f"{unwell} unwell" if unwell else "",
        f"{counted(away, 'node')} away" if away else "",
    ]
    return ", ".join(part for part in said if part)
