"""What pods were granted and do not hold yet, which pods without a grant wait, and what is taken.

The kubelet names units and no pod, so all that can be known of the pod that asks is in these lists. They are
made anew for each call from the node's pods and from what is held, in the kubelet's words or where it forgot:
nothing is kept that could be out of date. A container that has started holds something, so it has no open
claim, whether or not the kubelet lists it.
"""

from collections.abc import Collection, Iterable, Iterator

import msgspec

from gpufleet.agent.device_plugin.whole_device_rules import OpenClaim, TakenUnits
from gpufleet.agent.holders.holder_record import AllocateAnswer, ContainerRef
from gpufleet.agent.holders.open_answers import open_answers
from gpufleet.agent.state.node_state import Held, Holders, NodeGpus, NodePod, NodePods
from gpufleet.agent.units.granted_units import UnitIndex
from gpufleet.agent.units.node_units import GpuUnit, Units

HeldUnits = dict[str, frozenset[str]]
"""What each container of one pod holds."""


class UngrantedRequest(msgspec.Struct, frozen=True):
    """A container that asks for units of the resource without having been granted any, and holds none yet."""

    uid: str
    pod: str
    container: str
    size: int


class PendingRequests(msgspec.Struct, frozen=True):
    """All containers that may be asking now, the oldest first, and what others may not have.

    ``forgotten`` are containers that run as far as the API server knows, and whose units the kubelet does not
    list: it asks for them as soon as they end, which may be before the API server hears of the end.
    """

    claims: tuple[OpenClaim, ...]
    ungranted: tuple[UngrantedRequest, ...]
    taken_units: tuple[TakenUnits, ...] = ()
    forgotten: tuple[OpenClaim, ...] = ()

    def may_ask(self, size: int) -> tuple[ContainerRef, ...]:
        """The containers that may be asking for so many."""
        claims = [ContainerRef(one.uid, one.container, one.pod) for one in self.claims if one.wants == size]
        ungranted = [
            ContainerRef(one.uid, one.container, one.pod) for one in self.ungranted if one.size == size
        ]
        return (*claims, *ungranted)


class _Granted(msgspec.Struct, frozen=True):
    """A container's grant: which units, and which it holds if it holds any."""

    pod: NodePod
    container: str
    units: frozenset[str]
    held: frozenset[str]


def waiting(
    resource: str,
    node: NodeGpus,
    units: Units,
    pods: NodePods,
    holders: Holders,
    answers: Iterable[AllocateAnswer] = (),
) -> PendingRequests:
    """The containers of this node that may ask for units of this resource, and what containers have already.

    Where another pod holds what was granted to this one, in place of units of its own grant, these are now
    claimed: two pods may be admitted in swapped order, and each still gets as many as it was granted.
    """
    by_pod: dict[tuple[str, str], list[tuple[str, HeldUnits]]] = {}
    mine = tuple(held for held in holders if held.resource == resource)
    for held in mine:
        its = {held.container: frozenset(held.units)}
        by_pod.setdefault((held.namespace, held.pod), []).append((held.pod_uid, its))
    present = [(pod, _held_units(pod, by_pod)) for pod in _by_age(pods)]
    granted = list(_granted(resource, node, units, present))
    # A container with a grant asks for that; others may ask for anything that is free.
    claimed = {(one.pod.uid, one.container) for one in granted}
    ungranted = tuple(
        UngrantedRequest(pod.uid, pod.title, container, size)
        for pod, holding in present
        for container, requests in pod.requests.items()
        if (size := requests.get(resource, 0))
        and container not in holding
        and container not in pod.started
        and (pod.uid, container) not in claimed
    )
    unlisted = tuple(_unlisted(resource, pods, mine))
    claims = (*_open(granted), *(one for one in unlisted if not _runs(one, pods)))
    forgotten = tuple(one for one in unlisted if _runs(one, pods))

    def is_finished(uid: str) -> bool:
        """Of a pod that is not there any more the memory says when it is over."""
        return uid in pods and pods[uid].finished

    open_ones = [one for one in open_answers(answers, mine, is_finished) if one.resource == resource]
    taken_units = (*_taken_by_grant(granted, pods, mine), *_answered(open_ones, pods))
    return PendingRequests(claims, ungranted, taken_units, forgotten)


def _open(granted: list[_Granted]) -> Iterator[OpenClaim]:
    closed = [one for one in granted if one.held]
    for one in granted:
        if not one.held and one.container not in one.pod.started:
            units = _exchanged(one.units, closed)
            yield OpenClaim(one.pod.title, one.container, units, one.pod.first_seen_s, uid=one.pod.uid)


def _runs(claim: OpenClaim, pods: NodePods) -> bool:
    return claim.container in pods[claim.uid].running


def _unlisted(resource: str, pods: NodePods, holders: Iterable[Held]) -> Iterator[OpenClaim]:
    """Containers whose units the kubelet does not list: it asks before they start again."""
    for held in holders:
        pod = pods.get(held.pod_uid)
        if held.listed or not held.units or pod is None or pod.finished:
            continue
        yield OpenClaim(
            pod.title,
            held.container,
            frozenset(held.units),
            pod.first_seen_s,
            returns=True,
            size=pod.requests.get(held.container, {}).get(resource, 0),
            uid=pod.uid,
            ended=held.container in pod.started,
            lends=held.container in pod.lenders,
        )


def _taken_by_grant(
    granted: Iterable[_Granted], pods: NodePods, holders: Iterable[Held]
) -> Iterator[TakenUnits]:
    """What is held by pods that are not known to be finished, and what containers that started must hold."""
    seen = set()
    for held in holders:
        if not held.pod_uid:
            # The kubelet offers nothing of a pod that it alone knows.
            continue
        pod = pods.get(held.pod_uid)
        if pod is None:
            # It went before it was finished, as far as is known: its containers may run on.
            yield TakenUnits(held.pod_uid, held.title, held.container, frozenset(held.units), vanished=True)
            continue
        if pod.finished:
            continue
        seen.add((pod.uid, held.container))
        lends = held.container in pod.lenders and held.container not in pod.running
        yield TakenUnits(pod.uid, pod.title, held.container, frozenset(held.units), lends)
    for one in granted:
        if one.container in one.pod.started and (one.pod.uid, one.container) not in seen:
            lends = one.container in one.pod.lenders and one.container not in one.pod.running
            yield TakenUnits(one.pod.uid, one.pod.title, one.container, one.held or one.units, lends)


def _answered(answers: Iterable[AllocateAnswer], pods: NodePods) -> Iterator[TakenUnits]:
    """What may have been taken up, by each container that may have done so."""
    for answer in answers:
        for place in answer.possible:
            pod = pods.get(place.pod_uid)
            lends = pod is not None and place.container in pod.lenders and place.container not in pod.running
            given = frozenset(answer.units)
            yield TakenUnits(place.pod_uid, place.pod, place.container, given, lends, answered=True)


def _exchanged(units: frozenset[str], closed: Iterable[_Granted]) -> frozenset[str]:
    """The units themselves, or those that their holder has left behind of its own grant."""
    behind = {one.held: one.units for one in closed}
    seen: set[frozenset[str]] = set()
    # Exchanges may go round several pods; each step must free as many units as it takes.
    while units in behind and units not in seen and len(behind[units]) == len(units):
        seen.add(units)
        units = behind[units]
    return units


def _granted(
    resource: str, node: NodeGpus, units: Units, present: Iterable[tuple[NodePod, HeldUnits]]
) -> Iterator[_Granted]:
    index = UnitIndex(node, units, resource)
    # Gone through twice: what is held has to be known before free units are chosen.
    present = list(present)
    taken = {unit for _, holding in present for its in holding.values() for unit in its}
    for pod, holding in present:
        for part in pod.grant.containers if pod.grant is not None else ():
            held = holding.get(part.container, frozenset())
            found: set[str] = set()
            for device in part.devices:
                fitting = index.fitting(device)
                if fitting:
                    found.add(_one_of(fitting, held - found, taken | found))
            if found:
                # A replica that a grant does not name is chosen once, so that two containers do not share it.
                taken |= found
                yield _Granted(pod, part.container, frozenset(found), held)


def _one_of(fitting: list[GpuUnit], held: Collection[str], taken: Collection[str]) -> str:
    """The unit of a GPU or instance; where a grant names no replica, any free one will do."""
    if len(fitting) == 1:
        return fitting[0].id
    names = [unit.id for unit in fitting]
    own = [name for name in names if name in held]
    free = [name for name in names if name not in taken]
    # What the container holds already first; if all are taken, one that another pod must give up.
    return (own or free or names)[0]


def _held_units(pod: NodePod, by_pod: dict[tuple[str, str], list[tuple[str, HeldUnits]]]) -> HeldUnits:
    """What a pod holds; one of its name that is gone is another pod."""
    found: HeldUnits = {}
    for uid, its in by_pod.get((pod.namespace, pod.name), ()):
        if uid in {"", pod.uid}:
            found |= its
    return found


def _by_age(pods: NodePods) -> list[NodePod]:
    """The pods that may still be served, or hold something."""
    unfinished = (pod for pod in pods.values() if not pod.finished)
    return sorted(unfinished, key=lambda pod: (pod.first_seen_s, pod.title))
