"""Judges a node at rest: whether all who know who has what say the same (I4).

    grants in the API     what each living pod was granted
    NodeDevices           what the agent reports that it holds
    PodResources, record  what the kubelet gave to whom
    the agent's disk      the CDI files of shares, and the calls that no container has started with yet

``fault_scene`` looks at all of them. A container's own words are held against its grant by ``churn_judge``.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator

import msgspec

from gpufleet.agent.device_plugin.open_call_record import OpenCall
from gpufleet.agent.device_plugin.share_files import ShareGiven
from gpufleet.agent.kubelet.kubelet_checkpoint import CheckpointEntry
from gpufleet.agent.state.node_state import Held
from gpufleet.kube.keys import GPU_SHARE
from gpufleet.kube.objects.node_devices import Holder
from gpufleet.model.grant import GrantedDevice, GrantKind
from tests.agent.churn_judge import WHOLE_MILLI

CONTAINER = "main"


class Granted(msgspec.Struct, frozen=True):
    """A living pod of the node. ``started`` is whether its container has ever run."""

    name: str
    devices: tuple[GrantedDevice, ...]
    started: bool = True

    @property
    def shares(self) -> bool:
        """Whether it was granted parts of GPUs."""
        return any(device.kind is GrantKind.SHARE for device in self.devices)


class Rest(msgspec.Struct, frozen=True):
    """What everybody knows. ``pods`` are by UID; ``damage`` is why the agent's checkpoint is no good."""

    pods: dict[str, Granted]
    reported: tuple[Holder, ...]
    held: tuple[Held, ...]
    record: tuple[CheckpointEntry, ...]
    files: dict[str, ShareGiven]
    calls: tuple[OpenCall, ...]
    damage: str = ""


def disagreements(rest: Rest) -> list[str]:
    """Everything about which two of them differ."""
    return [
        *_reported(rest),
        *_kubelet(rest),
        *_disk(rest),
        *_beyond_capacity(rest),
        *([f"the checkpoint is no good: {rest.damage}"] if rest.damage else []),
    ]


Parts = frozenset[tuple[str, int]]


def _parts(devices: tuple[GrantedDevice, ...]) -> Parts:
    return frozenset((device.id, device.gpu_milli) for device in devices)


def _reported(rest: Rest) -> Iterator[str]:
    """NodeDevices against grants. Twins that ask for whole GPUs may have each other's: both are full."""
    facts: dict[str, set[tuple[str, int]]] = defaultdict(set)
    for holder in rest.reported:
        facts[holder.pod_uid].add((holder.device, holder.gpu_milli))
    for uid in facts.keys() - rest.pods.keys():
        yield f"NodeDevices names {uid or 'a stranger'}, who is no living pod: {facts[uid]}"
    whole = {uid for uid, pod in rest.pods.items() if not pod.shares}
    meant = Counter(_parts(rest.pods[uid].devices) for uid in whole)
    had = Counter(frozenset(facts.get(uid, set())) for uid in whole)
    if meant != had:
        yield f"whole GPUs were granted as {dict(meant)} and are reported as {dict(had)}"
    for uid in rest.pods.keys() - whole:
        pod = rest.pods[uid]
        if frozenset(facts.get(uid, set())) != _parts(pod.devices):
            yield f"{pod.name} was granted {set(_parts(pod.devices))} and is reported with {facts.get(uid)}"


def _kubelet(rest: Rest) -> Iterator[str]:
    """PodResources and record against each other, against grants, and against NodeDevices."""
    listed = {one.pod: frozenset(one.units) for one in rest.held if one.container == CONTAINER}
    recorded = {one.pod_uid: one.units for one in rest.record if one.container == CONTAINER}
    for stranger in listed.keys() - {pod.name for pod in rest.pods.values()}:
        yield f"PodResources names {stranger}, which is no living pod of ours"
    for uid, pod in rest.pods.items():
        units = listed.get(pod.name)
        if units is None or recorded.get(uid) != units:
            yield f"{pod.name} has {units} by PodResources and {recorded.get(uid)} by the kubelet's record"
        elif pod.shares and len(units) != len(pod.devices):
            yield f"{pod.name} was granted {len(pod.devices)} shares and has the slots {set(units)}"
        elif not pod.shares:
            facts = frozenset(one.device for one in rest.reported if one.pod_uid == uid)
            if units != facts:
                yield f"{pod.name} has {set(units)} by PodResources and {set(facts)} by NodeDevices"


def _disk(rest: Rest) -> Iterator[str]:
    """The agent's files: one for each share that started, and no call of who has started already.

    A call that is missing is no lie: the kubelet's record has the name that was answered, too.
    """
    recorded = {one.pod_uid: one for one in rest.record if one.resource == GPU_SHARE}
    for given in rest.files.values():
        pod = rest.pods.get(given.pod_uid)
        if pod is None or given.parts != pod.devices:
            yield f"a CDI file gives {given.parts} to {given.pod}, which was granted {pod and pod.devices}"
    filed = Counter(given.pod_uid for given in rest.files.values())
    open_units = {frozenset(call.units) for call in rest.calls}
    for uid, pod in rest.pods.items():
        if not pod.shares:
            continue
        if filed[uid] != int(pod.started):
            yield f"{pod.name}, started: {pod.started}, has {filed[uid]} CDI files"
        its = recorded.get(uid)
        if pod.started and its is not None and its.units in open_units:
            yield f"{pod.name} has started and its call is open"
        if its is not None and len(its.cdi_devices) != 1:
            yield f"{pod.name} was answered {its.cdi_devices} by the kubelet's record"
    if len(open_units) > sum(pod.shares and not pod.started for pod in rest.pods.values()):
        yield f"there are calls of nobody among {rest.calls}"


def _beyond_capacity(rest: Rest) -> Iterator[str]:
    taken: Counter[str] = Counter()
    for holder in rest.reported:
        taken[holder.device] += holder.gpu_milli
    for device, milli in taken.items():
        if milli > WHOLE_MILLI:
            yield f"{milli} milli of {device} are in hands"
