"""What a pod that asks for GPUs says of itself: how many, where it stands, in which queue.

A share that is asked for by memory counts as that part of its card, whose memory the report of the node
tells.

Read once for each version of a pod, since a fleet has tens of thousands and a frame is drawn every second.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from gpufleet.explain.answer import State
from gpufleet.kube import keys
from gpufleet.kube.codec.grant import granted_devices, read_grant
from gpufleet.kube.codec.pod import read_shape
from gpufleet.kube.kube_errors import ObjectError
from gpufleet.kube.meanings.queue_names import named_queue
from gpufleet.kube.objects.node_devices import NodeDevices
from gpufleet.kube.objects.pod import Pod
from gpufleet.model.grant import Grant
from gpufleet.model.model_errors import InputError

MILLI = 1000
"""Thousandths of a GPU in a GPU."""


class PodFact(NamedTuple):
    """``gpus_milli`` is None where what the pod asks for cannot be read; ``state`` leaves the engine out."""

    pod: Pod
    gpus_milli: int | None
    state: State
    queue: str


class PodFacts:
    """Facts by the pods' uids; what is gone is forgotten."""

    def __init__(self, scheduler_name: str) -> None:
        self._scheduler_name = scheduler_name
        self._known: dict[str, PodFact | tuple[Pod]] = {}

    def of(self, pods: Iterable[Pod], devices: Mapping[tuple[str, str], NodeDevices]) -> list[PodFact]:
        """The pods that ask for GPUs and have not ended."""
        known: dict[str, PodFact | tuple[Pod]] = {}
        found = []
        for pod in pods:
            if pod.terminal:
                continue
            uid = pod.metadata.uid
            fact = self._known.get(uid)
            # What was not known may be told by a report that came since.
            if fact is None or fact[0] is not pod or (isinstance(fact, PodFact) and fact.gpus_milli is None):
                fact = self._read(pod, devices)
            known[uid] = fact
            if isinstance(fact, PodFact):
                found.append(fact)
        self._known = known
        return found

    def read(self, pod: Pod, devices: Mapping[tuple[str, str], NodeDevices]) -> PodFact | None:
        """The fact of one pod, read anew; None for one that asks for no GPU, or has ended."""
        found = None if pod.terminal else self._read(pod, devices)
        return found if isinstance(found, PodFact) else None

    def _read(self, pod: Pod, devices: Mapping[tuple[str, str], NodeDevices]) -> PodFact | tuple[Pod]:
        """The fact, or the pod alone if it asks for no GPU."""
        try:
            gpu = read_shape(pod).gpu
        except (InputError, ObjectError):
            # Whether a pod that cannot be understood asks for GPUs is not known: only ours is shown.
            if pod.spec.scheduler_name != self._scheduler_name:
                return (pod,)
            return PodFact(pod, None, self._state(pod), "")
        if not gpu.count:
            return (pod,)
        named = named_queue(pod.metadata.labels, pod.metadata.annotations)
        grant = None if gpu.gpu_milli and named is not None else _grant(pod)
        milli: int | None = gpu.total_milli
        # A share by memory has thousandths only through its grant: they follow from the GPU that it got.
        if not gpu.gpu_milli:
            milli = None if grant is None else _milli_by_memory(grant, devices.get(("", pod.spec.node_name)))
        queue = named[1] if named is not None else ""
        if not queue and grant is not None and grant.terms is not None:
            queue = str(grant.terms.queue)
        return PodFact(pod, milli, self._state(pod), queue)

    def _state(self, pod: Pod) -> State:
        """Where the pod stands, as ``explain`` says it."""
        if pod.spec.node_name:
            return State.RUNS if pod.status.phase == "Running" else State.PLACED
        if pod.spec.scheduler_name != self._scheduler_name:
            return State.FOREIGN
        if pod.metadata.deletion_timestamp is not None:
            return State.LEAVES
        return State.GATED if pod.gated else State.WAITS


def _milli_by_memory(grant: Grant, report: NodeDevices | None) -> int | None:
    """The parts of cards that the granted memory is; None where a card's memory is not known."""
    of_card = {} if report is None else {one.id: one.memory_mib for one in report.spec.devices}
    total = 0
    for one in granted_devices(grant):
        whole_mib = of_card.get(str(one.device))
        if one.memory_mib is None or not whole_mib:
            return None
        total += one.memory_mib * MILLI // whole_mib
    return total or None


def _grant(pod: Pod) -> Grant | None:
    text = pod.metadata.annotations.get(keys.GRANT)
    if text is None:
        return None
    try:
        return read_grant(text)
    except (InputError, ObjectError):
        return None
