"""What pods were granted and do not hold yet, and which pods without a grant are still to be served.

The kubelet names units and no pod, so all that can be known of whoever asks is in these two lists. Both
are made anew for each call from the node's pods and from what the kubelet says is held: nothing is
kept that could be out of date.
"""

from collections.abc import Collection, Iterable, Iterator

import msgspec

from gpufleet.agent.known import Holders, NodeGpus, NodePod, NodePods
from gpufleet.agent.plugin.units import REPLICA, GpuUnit, Units
from gpufleet.agent.plugin.whole import OpenClaim
from gpufleet.model.device_id import device_name
from gpufleet.model.grant import GrantedDevice, GrantKind

Holding = dict[str, frozenset[str]]
"""What each container of one pod holds."""


class Stranger(msgspec.Struct, frozen=True):
    """A container that asks for units of the resource without having been granted any, and holds none yet."""

    uid: str
    pod: str
    container: str
    size: int


class Waiting(msgspec.Struct, frozen=True):
    """Everybody who may be asking now, the oldest first."""

    claims: tuple[OpenClaim, ...]
    strangers: tuple[Stranger, ...]


class _Granted(msgspec.Struct, frozen=True):
    """A container's grant: which units, and which it holds if it holds any."""

    pod: NodePod
    container: str
    units: frozenset[str]
    held: frozenset[str]


def waiting(resource: str, node: NodeGpus, units: Units, pods: NodePods, holders: Holders) -> Waiting:
    """Who of this node's pods may ask for units of this resource.

    Where another pod holds what was granted to this one, in place of units of its own grant, these are now
    claimed: two pods may be admitted in swapped order, and each still gets as many as it was granted.
    """
    by_pod: dict[tuple[str, str], list[tuple[str, Holding]]] = {}
    for held in holders:
        if held.resource == resource:
            its = {held.container: frozenset(held.units)}
            by_pod.setdefault((held.namespace, held.pod), []).append((held.pod_uid, its))
    present = [(pod, _holding(pod, by_pod)) for pod in _by_age(pods)]
    granted = list(_granted(resource, node, units, present))
    claimed = {(one.pod.uid, one.container) for one in granted}
    strangers = tuple(
        Stranger(pod.uid, pod.title, container, size)
        for pod, holding in present
        for container, requests in pod.requests.items()
        if (size := requests.get(resource, 0))
        and container not in holding
        and (pod.uid, container) not in claimed
    )
    return Waiting(tuple(_open(granted)), strangers)


def _open(granted: list[_Granted]) -> Iterator[OpenClaim]:
    closed = [one for one in granted if one.held]
    for one in granted:
        if not one.held:
            units = _exchanged(one.units, closed)
            yield OpenClaim(one.pod.title, one.container, units, one.pod.first_seen_s)


def _exchanged(units: frozenset[str], closed: Iterable[_Granted]) -> frozenset[str]:
    """These units, or those that whoever holds exactly them has left behind of its own grant."""
    behind = {one.held: one.units for one in closed}
    seen: set[frozenset[str]] = set()
    while units in behind and units not in seen and len(behind[units]) == len(units):
        seen.add(units)
        units = behind[units]
    return units


def _granted(
    resource: str, node: NodeGpus, units: Units, present: Iterable[tuple[NodePod, Holding]]
) -> Iterator[_Granted]:
    behind: dict[str, list[GpuUnit]] = {}
    for unit in units.values():
        if unit.resource == resource:
            behind.setdefault(unit.device, []).append(unit)
            if unit.replica is not None:
                behind[unit.id] = [unit]
    present = list(present)
    taken = {unit for _, holding in present for its in holding.values() for unit in its}
    for pod, holding in present:
        for part in pod.grant.containers if pod.grant is not None else ():
            held = holding.get(part.container, frozenset())
            found: set[str] = set()
            for device in part.devices:
                fitting = behind.get(_device(device, node), [])
                if fitting:
                    found.add(_one_of(fitting, held - found, taken | found))
            if found:
                taken |= found
                yield _Granted(pod, part.container, frozenset(found), held)


def _device(granted: GrantedDevice, node: NodeGpus) -> str:
    """The card, replica or instance that a grant names; empty where it names none that is there."""
    if granted.kind is GrantKind.WHOLE:
        return granted.id
    name = device_name(granted.id)
    gpu = node.gpu(name.card) if granted.kind is GrantKind.MIG else None
    place = (granted.mig_profile, granted.mig_start)
    instances = () if gpu is None else gpu.facts.mig
    replica = "" if name.replica is None else f"{REPLICA}{name.replica}"
    return next((one.uuid + replica for one in instances if (one.profile, one.start) == place), "")


def _one_of(fitting: list[GpuUnit], held: Collection[str], taken: Collection[str]) -> str:
    """The unit of a card or instance; where a grant names no replica, any that nobody has will do."""
    if len(fitting) == 1:
        return fitting[0].id
    names = [unit.id for unit in fitting]
    own = [name for name in names if name in held]
    free = [name for name in names if name not in taken]
    return (own or free or names)[0]


def _holding(pod: NodePod, by_pod: dict[tuple[str, str], list[tuple[str, Holding]]]) -> Holding:
    """What a pod holds; one of its name that is gone is another pod."""
    found: Holding = {}
    for uid, its in by_pod.get((pod.namespace, pod.name), ()):
        if uid in {"", pod.uid}:
            found |= its
    return found


def _by_age(pods: NodePods) -> list[NodePod]:
    """The pods that may still be served, or hold something."""
    unfinished = (pod for pod in pods.values() if not pod.finished)
    return sorted(unfinished, key=lambda pod: (pod.first_seen_s, pod.title))
