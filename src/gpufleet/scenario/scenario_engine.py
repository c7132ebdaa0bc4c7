"""Plays a scenario through the real engine, and keeps what it decided.

Binds are confirmed at once. Evicted pods end at once, or after as long as the scenario says, and come back as
a controller would bring them back. ``virtual_time.player`` lets time pass.
"""

from collections.abc import Iterable, Sequence

import msgspec

from gpufleet.engine import event
from gpufleet.engine.instruction import AnyInstruction, Bind, Evict, Rejected
from gpufleet.engine.policy import find_policy
from gpufleet.engine.preempt.victim_search import PreemptionSearch
from gpufleet.engine.scheduler import Engine
from gpufleet.model.device import WHOLE_GPU_MILLI
from gpufleet.model.identifiers import DeviceId, GangName, NodeName, PodUid, QueueName
from gpufleet.model.node import Node
from gpufleet.model.pod import Pod
from gpufleet.scenario.gang_deadlines import GangDeadlines
from gpufleet.scenario.work import Work
from gpufleet.virtual_time.player import Player


class RunningPlace(msgspec.Struct, frozen=True):
    """The node and the devices on which a pod runs."""

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


class ScenarioEngine:
    """One engine with the work of a scenario on it."""

    def __init__(
        self,
        policy: str,
        seed: int,
        *,
        evicted_return: bool,
        eviction_takes_us: int,
        preempt_by_priority: bool = True,
    ) -> None:
        search = PreemptionSearch(by_priority=preempt_by_priority)
        self.engine = Engine(find_policy(policy), seed=seed, victims=search)
        self.player = Player(self.engine, self)
        self.evicted_return = evicted_return
        self.eviction_takes_us = eviction_takes_us
        self.work: dict[str, Work] = {}
        self.name_by_uid: dict[PodUid, str] = {}
        self.pods: dict[PodUid, Pod] = {}
        self.places: dict[PodUid, RunningPlace] = {}
        self.nodes: dict[NodeName, Node] = {}
        self.decisions: list[Decision] = []
        self._returns: dict[str, int] = {}
        self._gangs = GangDeadlines()

    def submit(self, work: Work) -> list[event.Event]:
        """The events by which the engine hears of work."""
        self.work[work.name] = work
        events: list[event.Event] = [] if work.gang is None else [event.GangSet(work.gang)]
        for pod in work.pods:
            self.pods[pod.uid] = pod
            self.name_by_uid[pod.uid] = work.name
        if work.runs_on:
            for pod, node in zip(work.pods, work.runs_on, strict=True):
                place = self.places[pod.uid] = RunningPlace(node, self._devices_for(pod, node))
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
        # A share that is given as memory has no thousandths; it still takes a part of the device.
        needed = max(1, gpu.gpu_milli)
        return tuple(device for device, milli in left.items() if milli >= needed)[: gpu.count]

    def end(self, name: str) -> list[event.Event]:
        """The events by which work, or one pod of it, ends."""
        uids = self.uids_of(name)
        of = {self.name_by_uid[uid] for uid in uids}
        for uid in uids:
            self._forget(uid)
        work = self.work.get(name)
        events: list[event.Event] = [event.PodRemoved(uid) for uid in uids]
        if work is not None and work.gang is not None:
            events.append(event.GangRemoved(GangName(name)))
        return [*events, *(gang_events for one in sorted(of) for gang_events in self._deadline_events(one))]

    def _deadline_events(self, name: str) -> list[event.Event]:
        """What the engine hears of a gang with a deadline: that it lacks members that run, or no more."""
        running = [uid for uid, of in self.name_by_uid.items() if of == name and uid in self.places]
        return self._gangs.deadline_events(self.work[name], running)

    def _forget(self, uid: PodUid) -> None:
        self.places.pop(uid, None)
        self.name_by_uid.pop(uid)
        self.pods.pop(uid)

    def started(self, bind: Bind) -> Iterable[event.Event]:
        """A pod runs where it was bound."""
        pod = self.pods[bind.uid]
        self.places[bind.uid] = RunningPlace(bind.node, bind.devices)
        decision = Decision(self._at_s(), started=pod.name, node=bind.node, devices=bind.devices)
        self.decisions.append(decision)
        gang_events = self._deadline_events(self.name_by_uid[bind.uid])
        return (event.PodBound(pod, bind.node, bind.devices), *gang_events)

    def evicted(self, evict: Evict) -> Iterable[event.Event]:
        """A pod ends, at once unless the scenario says how long that takes."""
        pod = self.pods[evict.uid]
        beneficiary = str(evict.beneficiary or "")
        known = self.pods.get(PodUid(beneficiary))
        by_name = known.name if known is not None else beneficiary
        decision = Decision(self._at_s(), evicted=pod.name, beneficiary=by_name, reason=evict.reason)
        self.decisions.append(decision)
        takes_us = self.work[self.name_by_uid[evict.uid]].eviction_takes_us
        takes_us = self.eviction_takes_us if takes_us is None else takes_us
        if not takes_us:
            return self._gone(evict.uid)
        # Pods that end at one moment end in the order in which they were evicted.
        self.player.later(self.player.at_us + takes_us, evict.uid, turn=len(self.decisions))
        place = self.places[evict.uid]
        leaving = msgspec.structs.replace(pod, leaving=True)
        return (event.PodBound(leaving, place.node, place.devices),)

    def other_instruction(self, said: AnyInstruction) -> None:
        """An event that the engine refused is a decision of its own."""
        if isinstance(said, Rejected):
            self.decisions.append(Decision(self._at_s(), rejected=said.subject, reason=said.problem))

    def due(self, uids: Sequence[PodUid]) -> Iterable[event.Event]:
        """Evicted pods have ended."""
        return [one for uid in uids for one in self._gone(uid)]

    def _at_s(self) -> float:
        return self.player.at_us / 1e6

    def _gone(self, uid: PodUid) -> list[event.Event]:
        """An evicted pod has ended; its controller may bring another in its place."""
        if uid not in self.pods:
            return []
        pod, work = self.pods[uid], self.name_by_uid[uid]
        self._forget(uid)
        events: list[event.Event] = [event.PodRemoved(uid)]
        if self.evicted_return:
            again = self._returns[pod.name] = self._returns.get(pod.name, 0) + 1
            # A controller makes a pod of another uid, and the engine must not take it for the old one.
            new = msgspec.structs.replace(pod, uid=PodUid(f"{pod.name}~{again}"))
            self.pods[new.uid] = new
            self.name_by_uid[new.uid] = work
            events.append(event.PodAdded(new))
        return [*events, *self._deadline_events(work)]

    def uids_of(self, name: str) -> list[PodUid]:
        """The pods of work, or the one pod, of this name."""
        return [uid for uid, of in self.name_by_uid.items() if name in {of, self.pods[uid].name}]

    def remove_queue(self, name: str) -> event.Event:
        """The event by which a queue is gone."""
        return event.QueueRemoved(QueueName(name))
