"""Plays a scenario through the real engine, and keeps what it decided.

Binds are confirmed at once, evicted pods end at once and come back as a controller would bring them
back, and time passes from one thing that is due to the next.
"""

import heapq

import msgspec

from gpufleet.engine import event
from gpufleet.engine.errors import BrokenInvariantError
from gpufleet.engine.instruction import AnyInstruction, Bind, Evict, Learn, Rejected, RequeueAfter
from gpufleet.engine.policy import find_policy
from gpufleet.engine.scheduler import Engine
from gpufleet.model.device import WHOLE_GPU_MILLI
from gpufleet.model.identifiers import DeviceId, GangName, NodeName, PodUid, QueueName
from gpufleet.model.node import Node
from gpufleet.model.pod import Pod
from gpufleet.scenario.work import Work

ROUNDS_MAX = 10_000
"""Rounds of decisions at one moment; more than any scenario needs unless decisions go in circles."""


class Place(msgspec.Struct, frozen=True):
    """Where a pod runs."""

    node: NodeName
    devices: tuple[DeviceId, ...] = ()


class Decision(msgspec.Struct, frozen=True, omit_defaults=True):
    """One decision of the engine: ``started``, ``evicted`` or ``rejected`` names the pod that it is about."""

    at_s: float
    started: str = ""
    evicted: str = ""
    rejected: str = ""
    node: str = ""
    devices: tuple[str, ...] = ()
    beneficiary: str = ""
    reason: str = ""


class Stage:
    """One engine with the work of a scenario on it."""

    def __init__(self, policy: str, seed: int, *, evicted_return: bool, eviction_takes_us: int) -> None:
        self.engine = Engine(find_policy(policy), seed=seed)
        self.evicted_return = evicted_return
        self.eviction_takes_us = eviction_takes_us
        self.at_us = 0
        self.due_us: int | None = None
        self.work: dict[str, Work] = {}
        self.name_by_uid: dict[PodUid, str] = {}
        self.pods: dict[PodUid, Pod] = {}
        self.places: dict[PodUid, Place] = {}
        self.nodes: dict[NodeName, Node] = {}
        self.decisions: list[Decision] = []
        self._returns: dict[str, int] = {}
        self._ending: list[tuple[int, int, PodUid]] = []

    def wait_until(self, at_us: int) -> None:
        """Time passes; whatever is due meanwhile is done when it is due."""
        while (due_us := self._next_due_us()) is not None and due_us <= at_us:
            self.at_us = max(self.at_us, due_us)
            if self.due_us is not None and self.due_us <= self.at_us:
                self.due_us = None
            self.happen(*self._ended())
        self.at_us = max(self.at_us, at_us)

    def _next_due_us(self) -> int | None:
        dues = [due_us for due_us, _, _ in self._ending[:1]]
        return min([*dues, *([] if self.due_us is None else [self.due_us])], default=None)

    def _ended(self) -> list[event.Event]:
        """The events of the pods that are due to end."""
        events: list[event.Event] = []
        while self._ending and self._ending[0][0] <= self.at_us:
            events += self._gone(heapq.heappop(self._ending)[2])
        return events

    def happen(self, *events: event.Event) -> None:
        """These events, now, and all that follows from them at this moment."""
        waiting = list(events)
        for _ in range(ROUNDS_MAX):
            said = self.engine.step(self.at_us, waiting)
            waiting = [follows for one in said for follows in self._carry_out(one)] + self._ended()
            if not waiting:
                return
        raise BrokenInvariantError(f"decisions at {self.at_us} microseconds come to no end")

    def submit(self, work: Work) -> list[event.Event]:
        """The events by which the engine hears of work."""
        self.work[work.name] = work
        events: list[event.Event] = [] if work.gang is None else [event.GangSet(work.gang)]
        for pod in work.pods:
            self.pods[pod.uid] = pod
            self.name_by_uid[pod.uid] = work.name
        if work.runs_on:
            for pod, node in zip(work.pods, work.runs_on, strict=True):
                place = self.places[pod.uid] = Place(node, self._devices_for(pod, node))
                events.append(event.PodBound(pod, node, place.devices, work.started_at_us))
                if work.checkpointed_at_us is not None:
                    events.append(event.PodCheckpointed(pod.uid, work.checkpointed_at_us))
        else:
            events += [event.PodAdded(pod) for pod in work.pods]
        return events

    def _devices_for(self, pod: Pod, node: NodeName) -> tuple[DeviceId, ...]:
        """Devices for a pod that runs already: the first of its node that have enough left."""
        gpu = pod.shape.gpu
        left = {device.id: WHOLE_GPU_MILLI for device in self.nodes[node].devices}
        for uid, place in self.places.items():
            for device in place.devices:
                if device in left:
                    left[device] -= max(1, self.pods[uid].shape.gpu.gpu_milli)
        needed = max(1, gpu.gpu_milli)
        return tuple(device for device, milli in left.items() if milli >= needed)[: gpu.count]

    def end(self, name: str) -> list[event.Event]:
        """The events by which work, or one pod of it, ends."""
        uids = self.uids_of(name)
        for uid in uids:
            self._forget(uid)
        work = self.work.get(name)
        events: list[event.Event] = [event.PodRemoved(uid) for uid in uids]
        if work is not None and work.gang is not None:
            events.append(event.GangRemoved(GangName(name)))
        return events

    def _forget(self, uid: PodUid) -> None:
        self.places.pop(uid, None)
        self.name_by_uid.pop(uid)
        self.pods.pop(uid)

    def _carry_out(self, said: AnyInstruction) -> list[event.Event]:
        """What comes of an instruction."""
        at_s = self.at_us / 1e6
        match said:
            case Bind(uid, node, devices):
                pod = self.pods[uid]
                self.places[uid] = Place(node, devices)
                self.decisions.append(Decision(at_s, started=pod.name, node=node, devices=devices))
                return [event.PodBound(pod, node, devices)]
            case Evict(uid, beneficiary, reason):
                return self._evict(uid, str(beneficiary or ""), reason)
            case Rejected(subject, problem):
                self.decisions.append(Decision(at_s, rejected=subject, reason=problem))
            case Learn():
                return [self.engine.study()]
            case RequeueAfter(due_us):
                self.due_us = due_us
        return []

    def _evict(self, uid: PodUid, beneficiary: str, reason: str) -> list[event.Event]:
        pod = self.pods[uid]
        known = self.pods.get(PodUid(beneficiary))
        by_name = known.name if known is not None else beneficiary
        self.decisions.append(
            Decision(self.at_us / 1e6, evicted=pod.name, beneficiary=by_name, reason=reason)
        )
        due_us = self.at_us + self.eviction_takes_us
        heapq.heappush(self._ending, (due_us, len(self.decisions), uid))
        if not self.eviction_takes_us:
            return []
        place = self.places[uid]
        leaving = msgspec.structs.replace(pod, leaving=True)
        return [event.PodBound(leaving, place.node, place.devices)]

    def _gone(self, uid: PodUid) -> list[event.Event]:
        """An evicted pod has ended; its controller may bring another in its place."""
        if uid not in self.pods:
            return []
        pod, work = self.pods[uid], self.name_by_uid[uid]
        self._forget(uid)
        events: list[event.Event] = [event.PodRemoved(uid)]
        if self.evicted_return:
            again = self._returns[pod.name] = self._returns.get(pod.name, 0) + 1
            new = msgspec.structs.replace(pod, uid=PodUid(f"{pod.name}~{again}"))
            self.pods[new.uid] = new
            self.name_by_uid[new.uid] = work
            events.append(event.PodAdded(new))
        return events

    def uids_of(self, name: str) -> list[PodUid]:
        """The pods of work, or the one pod, of this name."""
        return [uid for uid, of in self.name_by_uid.items() if name in {of, self.pods[uid].name}]

    def remove_queue(self, name: str) -> event.Event:
        """The event by which a queue is gone."""
        return event.QueueRemoved(QueueName(name))
