"""The cards of a cluster as their agents report them, with what is in use of each.

What a pod was bound to counts as in use before its container has it. Where no grant says which instance it
will get, every unused one of its profile on the node counts; of a pod with resource claims that has no device
yet, everything on its node. A card of which not all is known is left out, and so is a node whose layouts
NVIDIA's MIG Manager changes: two that cut one card undo each other's work.
"""

import msgspec

from gpufleet.cluster.mig_layouts.waiting_pods import instances_of
from gpufleet.kube import keys
from gpufleet.kube.codec.containers import devices_held
from gpufleet.kube.codec.grant import granted_devices, read_grant
from gpufleet.kube.kube_errors import ObjectError
from gpufleet.kube.objects.node import READY, Node
from gpufleet.kube.objects.node_devices import HEALTHY, MIG, WHOLE, NodeDevices, ReportedDevice
from gpufleet.kube.objects.pod import Pod
from gpufleet.mig.cards import CardInstance, MigCard, ModeSwitch
from gpufleet.model import gpu_model
from gpufleet.model.device_id import device_name
from gpufleet.model.fleet_policy import MIG_MANAGER_LABEL
from gpufleet.model.identifiers import DeviceId
from gpufleet.model.mig import Layout, MigGeometry, MigInstance
from gpufleet.model.mig_boards import BOARDS
from gpufleet.model.model_errors import InputError
from gpufleet.model.resource_names import GPU_RESOURCES

ARCHITECTURE_WITH_RESET = "Ampere"
"""NVIDIA's architecture on which a switch of the MIG mode takes a reset."""


class LeftOut(msgspec.Struct, frozen=True, rename="camel"):
    """A card that is not planned with, and why; ``card`` is empty where it is all of a node."""

    node: str
    card: str
    reason: str


class NodeUse(msgspec.Struct):
    """What is in use on a node: cards as a whole, instances by place, and profiles of unknown places.

    ``everything`` where a pod was bound there that may have any device.
    """

    cards: set[DeviceId] = msgspec.field(default_factory=set)
    places: set[tuple[DeviceId, MigInstance]] = msgspec.field(default_factory=set)
    profiles: set[str] = msgspec.field(default_factory=set)
    whole_cards: bool = False
    everything: bool = False


def use_of(report: NodeDevices, bound: list[Pod]) -> NodeUse:
    """What is in use on a node by its report and by the pods that were bound there."""
    use = NodeUse()
    seen: set[str] = set()
    for holder in report.spec.holders:
        seen.add(holder.pod_uid)
        _count(use, DeviceId(holder.device), holder.mig_profile, holder.mig_start)
    for pod in bound:
        if not pod.terminal:
            _count_bound(use, pod, reported=pod.metadata.uid in seen)
    return use


def _count(use: NodeUse, device: DeviceId, profile: str | None, start: int | None) -> None:
    name = device_name(device)
    if profile is not None and start is not None:
        use.places.add((name.card, MigInstance(start, profile)))
    elif name.place is not None:
        use.places.add((name.card, MigInstance(name.place.start, name.place.profile)))
    else:
        use.cards.add(name.card)


def _count_bound(use: NodeUse, pod: Pod, *, reported: bool) -> None:
    """What a pod will have of which not all containers run yet."""
    text = pod.metadata.annotations.get(keys.GRANT)
    try:
        granted = () if text is None else granted_devices(read_grant(text))
        for one in granted:
            _count(use, one.id, one.mig_profile, one.mig_start)
        # What it has is counted by its place already.
        if granted or reported:
            return
        use.everything |= bool(pod.spec.resource_claims or pod.status.extended_resource_claim_status)
        use.profiles |= set(instances_of(pod))
        use.whole_cards |= bool(devices_held(pod.spec, (*GPU_RESOURCES, keys.GPU_SHARE)))
    except (InputError, ObjectError):
        # A pod that cannot be read may have any device of its node.
        use.everything = True


def cards_of(node: Node, report: NodeDevices | None, bound: list[Pod]) -> tuple[list[MigCard], list[LeftOut]]:
    """The cards of a node to plan with, and those that are left out."""
    name = node.metadata.name
    if report is None:
        return [], []
    if node.metadata.labels.get(MIG_MANAGER_LABEL, "false") != "false":
        return [], [LeftOut(name, "", "NVIDIA's MIG Manager changes its layouts")]
    if any(one.type == READY and one.status != "True" for one in node.status.conditions):
        return [], [LeftOut(name, "", "the node is not ready")]
    use = use_of(report, bound)
    found, left_out = [], []
    for device in report.spec.devices:
        model = gpu_model.find(device.model)
        geometry = None if model is None else BOARDS.get(model.name)
        if model is None or geometry is None:
            continue
        reason = _why_not(device, geometry)
        if reason:
            left_out.append(LeftOut(name, device.id, reason))
        else:
            reset = model.architecture == ARCHITECTURE_WITH_RESET
            switch = ModeSwitch.BY_RESET if reset else ModeSwitch.AT_ONCE
            found.append(_card(name, device, use, geometry, switch))
    return found, left_out


def _why_not(device: ReportedDevice, geometry: MigGeometry) -> str:
    """Why a card is not planned with, "" where it is."""
    if device_name(DeviceId(device.id)).card != device.id:
        return "it is offered in parts that go by the name of whole GPUs"
    if device.sharing not in {WHOLE, MIG}:
        return f"it is shared ({device.sharing})"
    if device.health != HEALTHY or device.taints:
        return f"it is {device.health}: {device.health_reason or 'a taint keeps work away'}"
    try:
        geometry.taken(_layout(device))
    except InputError as error:
        return f"its report has a layout that its board does not have: {error}"
    return ""


def _layout(device: ReportedDevice) -> Layout:
    return tuple(MigInstance(one.start, one.profile) for one in device.mig_instances)


def _card(
    node: str, device: ReportedDevice, use: NodeUse, geometry: MigGeometry, switch: ModeSwitch
) -> MigCard:
    card, in_mig = DeviceId(device.id), device.sharing == MIG
    all_in_use = use.everything or card in use.cards
    instances = tuple(
        CardInstance(place, all_in_use or (card, place) in use.places or place.profile in use.profiles)
        for place in _layout(device)
    )
    in_use = all_in_use or (use.whole_cards and not in_mig)
    return MigCard(node, card, geometry, in_mig, instances, in_use, switch)
