"""An independent account of one engine: what it was told, what it decided, and what must then hold.

The ledger hears every event and every instruction and keeps its own state of plain values. After
each step it checks the decisions one by one as they were made, and then that the engine's arrays
say the same. A check's name says the rule; its message names the pod.
"""

import msgspec

from gpufleet.engine import event
from gpufleet.engine.arrays.layout import PodState
from gpufleet.engine.instruction import (
    AnyInstruction,
    Bind,
    Evict,
    Nominated,
    NominationWithdrawn,
    Rejected,
    Unschedulable,
)
from gpufleet.engine.node_reasons.pod_affinity import BIT as POD_AFFINITY
from gpufleet.engine.scheduler import Engine
from gpufleet.model.gang import Gang
from gpufleet.model.identifiers import DeviceId, GangName, NodeName, PodUid, QueueName
from gpufleet.model.node import Node
from gpufleet.model.pod import Pod
from gpufleet.model.queue import Queue
from gpufleet.model.relations import NO_RELATIONS
from gpufleet.model.topology import Topology
from tests.engine.bad_events import is_bad_event
from tests.engine.devices_without_ids import check_amounts_kept, devices_of, held
from tests.engine.distrust_ledger import DistrustLedger
from tests.engine.evictions_check import check_eviction, is_stand_in
from tests.engine.plain_fleet import PlainNode, places_on
from tests.engine.plain_neighbours import Placed, PlainNeighbours, came_before
from tests.engine.pod_life import PodLives
from tests.engine.queueing.plain_quota import PlainQuota
from tests.engine.queueing.quota_ledger import QuotaLedger, allows, check_usage
from tests.engine.reserve.reservation_ledger import ReservationLedger
from tests.engine.state_check import check_asks_to_be_woken, check_books
from tests.engine.unknown_gangs_check import check_told_unknown

FIRST_PAUSE_US = 1_000_000
LONGEST_PAUSE_US = 60_000_000
WHAT_DECIDES = ("shape", "namespace", "labels", "preemptible")
Place = tuple[NodeName, tuple[DeviceId | None, ...]]
Turn = tuple[int, int, int, int]


class Ledger:
    """What is known outside of the engine."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.ends = engine.state.departures.is_departing
        self.at_us = 0
        self.nodes: dict[NodeName, Node] = {}
        self.pods: dict[PodUid, Pod] = {}
        self.place: dict[PodUid, Place] = {}
        self.confirmed: set[PodUid] = set()
        self.pause_end_us: dict[PodUid, int] = {}
        self.refusals: dict[PodUid, int] = {}
        self.gangs: dict[GangName, Gang] = {}
        self.quota = QuotaLedger()
        self.topology = Topology()
        self.namespaces: dict[str, dict[str, str]] = {}
        self.volumes: dict[PodUid, tuple[tuple[str, str], ...]] = {}
        self.started: set[GangName] = set()
        self.told_unknown: set[GangName] = set()
        self.arrival: dict[PodUid, int] = {}
        self.told: set[PodUid] = set()
        self.nominated: dict[PodUid, NodeName] = {}
        self.reservations = ReservationLedger(engine)
        self.reserved: dict[PodUid, NodeName] = {}
        self.kept: dict[PodUid, NodeName] = {}
        self.changed: set[NodeName] = set()
        self.refused_until_us: dict[PodUid, int] = {}
        self.distrust = DistrustLedger()
        self.lives = PodLives(engine)

    def step(self, at_us: int, *events: event.Event) -> list[AnyInstruction]:
        """Let the engine take a step, and check everything."""
        self.at_us = at_us
        self.changed.clear()
        bad = []
        for happened in events:
            if is_bad_event(happened, self.nodes):
                bad.append(type(happened).__name__)
                continue
            self._apply(happened)
            self._follow_charges()
        self.lives.follow(events, said := self.engine.step(at_us, events))
        self.quota.was_active = self.quota.is_active
        assert [one.subject for one in said if isinstance(one, Rejected)] == bad
        self.pause_end_us = {uid: us for uid, us in self.pause_end_us.items() if us > at_us}
        plain = self._recount()
        self._drop_places_not_kept(said)
        ran_before, self.reserved = set(self.place), {}
        bound, kept = self._check_decisions(said, plain)
        self._follow_charges()
        self._check_reservations(said, ran_before)
        self._follow_stand_ins()
        self._add_kept_places(plain)
        self.told |= {one.uid for one in said if isinstance(one, Unschedulable)}
        self._check_states()
        check_books(self.engine.state, plain)
        check_usage(self.engine.state, self._usage())
        self._check_gangs(bound, plain)
        # Work that ends soon may run where others start later.
        self._check_turns([pod for pod in bound if pod.uid not in kept and pod.run_time_us is None])
        self._check_neighbours()
        self._check_no_room_is_left_unused(plain)
        self._check_everyone_knows_why(said)
        return said

    def _follow_stand_ins(self) -> None:
        """Places kept for pods that controllers are to make, like those of pods that are there."""
        state = self.engine.state
        for uid in [uid for uid in self.pods if is_stand_in(uid)]:
            del self.pods[uid], self.arrival[uid]
        for row in state.replacements:
            pod, node = state.pods.pod_at(row), state.pods.node_row(row)
            assert node is not None, f"{pod.uid} stands in for nobody"
            self.pods[pod.uid] = pod
            self.arrival[pod.uid] = 0
            self.reserved[pod.uid] = state.fleet.node_at(node).name

    # What events mean.

    def _apply(self, happened: event.Event) -> None:
        match happened:
            case event.NodeSet(node):
                known = self.nodes.get(node.name)
                if known is None or known.devices != node.devices:
                    self.changed.add(node.name)
                self.nodes[node.name] = node
            case event.NodeRemoved(name):
                self.nodes.pop(name, None)
            case event.DeviceSet(name, device):
                node = self.nodes[name]
                devices = tuple(device if one.id == device.id else one for one in node.devices)
                self._apply(event.NodeSet(msgspec.structs.replace(node, devices=devices)))
            case event.PodAdded(pod):
                self._know(pod)
            case event.PodBound(pod, name, devices):
                self._know(pod)
                self._turns_out_to_run(pod.uid, name, devices)
            case event.BindRefused(uid):
                self._refuse(uid)
            case event.EvictionRefused(uid, until_us):
                self.refused_until_us[uid] = until_us
            case event.PodRemoved(uid):
                self._forget(uid)
            case event.GangSet(gang):
                self.gangs[gang.name] = gang
                self.started.discard(gang.name)
                self.told_unknown.discard(gang.name)
            case event.GangRemoved(name):
                if self.gangs.pop(name, None) is not None:
                    self.told_unknown.discard(name)
            case event.NamespaceSet(name, labels):
                self.namespaces[name] = labels
            case event.NamespaceRemoved(name):
                self.namespaces.pop(name, None)
            case event.QueueSet() | event.QueueRemoved() | event.PricesSet():
                self.quota.apply(happened, len(self.arrival))
            case event.TopologySet(topology):
                self.topology = topology

    def _know(self, pod: Pod) -> None:
        if pod.uid not in self.pods:
            self.arrival[pod.uid] = len(self.arrival)
        self.pods[pod.uid] = pod
        if pod.leaving:
            self.refused_until_us.pop(pod.uid, None)

    def _turns_out_to_run(self, uid: PodUid, name: NodeName, devices: tuple[DeviceId | None, ...]) -> None:
        known = self.place.get(uid)
        if known is None or known[0] != name:
            self.volumes.pop(uid, None)
        if known is None or known[0] != name or devices:
            self.place[uid] = (name, devices)
        self.confirmed.add(uid)
        self.pause_end_us.pop(uid, None)

    def _refuse(self, uid: PodUid) -> None:
        if uid not in self.place or uid in self.confirmed:
            return
        del self.place[uid]
        self.volumes.pop(uid, None)
        times = self.refusals.get(uid, 0)
        self.refusals[uid] = times + 1
        self.pause_end_us[uid] = self.at_us + min(LONGEST_PAUSE_US, FIRST_PAUSE_US * 2**times)
        self.told.discard(uid)

    def _forget(self, uid: PodUid) -> None:
        for known in (self.place, self.volumes, self.nominated):
            known.pop(uid, None)
        for times in (self.pods, self.pause_end_us, self.refusals, self.refused_until_us):
            times.pop(uid, None)
        self.confirmed.discard(uid)
        self.told.discard(uid)

    # The state that follows.

    def waiting(self) -> list[Pod]:
        """Pods whose turn may come now."""
        elsewhere = set().union(self.place, self.pause_end_us, self.nominated, self.reserved)
        return [pod for uid, pod in self.pods.items() if uid not in elsewhere and not pod.leaving]

    def neighbours(self, coming: dict[PodUid, NodeName] | None = None) -> PlainNeighbours:
        """Who is where as of now, the plain way, and who will be where others still run."""
        places, state = self.place.items(), self.engine.state
        placed = [Placed(self.pods[uid], name, self.volumes.get(uid, ())) for uid, (name, _) in places]
        kept = [
            Placed(self.pods[uid], name, state.neighbours.volumes_of(state.pods.row_by_uid[uid]))
            for uid, name in (self.nominated | self.reserved if coming is None else coming).items()
            if uid in self.pods and uid not in self.place
        ]
        return PlainNeighbours(self.nodes, placed, self.namespaces, kept)

    def _held(self, uid: PodUid) -> tuple[DeviceId, ...]:
        """Devices that a pod is booked on."""
        name, ids = self.place[uid]
        confirmed = uid in self.confirmed
        return held(self.engine.state, self.pods[uid], self.nodes.get(name), ids, confirmed=confirmed)

    def _recount(self) -> dict[NodeName, PlainNode]:
        """The fleet before this step's binds."""
        plain = {name: PlainNode(self.distrust.seen(one, self.at_us)) for name, one in self.nodes.items()}
        for uid, (name, _) in self.place.items():
            if name in plain:
                plain[name].take(self.pods[uid].shape, self._held(uid))
        for changed in self.changed & set(plain):
            coming = [
                uid for uid in self.place if uid not in self.confirmed and self.place[uid][0] == changed
            ]
            check_amounts_kept(plain[changed], ((self.pods[uid], self._held(uid)) for uid in coming))
        return plain

    def _turn(self, pod: Pod) -> Turn:
        queue = self.quota.queues.get(pod.queue) or Queue(pod.queue)
        return (-queue.priority, -pod.priority, pod.created_at_us, self.arrival[pod.uid])

    def _is_strict(self, name: QueueName) -> bool:
        return name in self.quota.queues and self.quota.queues[name].strict

    def _queue_of(self, pod: Pod) -> QueueName:
        gang = None if pod.gang is None else self.gangs.get(pod.gang)
        return pod.queue if gang is None else gang.queue

    def _follow_charges(self) -> None:
        """Each pod that has a place is charged somewhere."""
        self.quota.follow(
            {uid: (self._queue_of(self.pods[uid]), at[0] in self.nodes) for uid, at in self.place.items()}
        )

    def _usage(self, *, with_kept: bool = True) -> PlainQuota:
        """What every pod on a known node is charged, those too for which a place is kept."""
        here = {uid: (name, self._held(uid)) for uid, (name, _) in self.place.items() if name in self.nodes}
        if with_kept:
            here |= {uid: (name, self._kept(uid)) for uid, name in (self.nominated | self.reserved).items()}
        queues = {uid: self._queue_of(self.pods[uid]) for uid in here} | self.quota.charged
        return self.quota.plain(
            self.quota.entry(queues[uid], self.pods[uid], self.nodes[name], devices)
            for uid, (name, devices) in here.items()
        )

    def _kept(self, uid: PodUid) -> tuple[DeviceId, ...]:
        """The devices kept for a nominated pod."""
        return tuple(devices_of(self.engine.state, uid))

    def _is_open(self, pod: Pod) -> bool:
        """True if the queue of a pod lets it start; when a gang came to a draining one is not known here."""
        arrival = self.arrival[pod.uid] if pod.gang is None else None
        return self.quota.is_open(self._queue_of(pod), arrival)

    def _allows(self, alike: list[Pod]) -> bool:
        """True if the queue lets all these members of a gang start, whatever devices they get."""
        queue = self._queue_of(alike[0])
        every = self.quota.allows_all(alike, queue, self._usage(), self.nodes.values())
        return every and self._is_open(alike[0])

    def _domain(self, gang: Gang, name: NodeName) -> tuple[str, ...] | None:
        depths = {level.name: depth for depth, level in enumerate(self.topology.levels)}
        if gang.required_level not in depths or name not in self.nodes:
            return None
        return self.topology.domain_path(self.nodes[name].labels, depths[gang.required_level])

    # What must hold.

    def _drop_places_not_kept(self, said: list[AnyInstruction]) -> None:
        """Places that were kept and are not any more, or that are given out or given anew in this step."""
        self.kept = dict(self.nominated)
        for one in said:
            if isinstance(one, NominationWithdrawn):
                assert one.uid in self.nominated, f"{one.uid} loses a place that it did not have"
            if isinstance(one, NominationWithdrawn | Nominated | Bind):
                self.nominated.pop(one.uid, None)
        self.nominated = {uid: name for uid, name in self.nominated.items() if uid not in self.place}

    def _check_reservations(self, said: list[AnyInstruction], ran_before: set[PodUid]) -> None:
        """Who waits holds only what can come true, and what its queue lets it hold."""
        self.reserved = self.reservations.hear(said)
        held = {uid: (name, self._held(uid)) for uid, (name, _) in self.place.items() if name in self.nodes}
        self.reservations.check(self.at_us, self.nodes, self.pods, held, ran_before)

    def _add_kept_places(self, plain: dict[NodeName, PlainNode]) -> None:
        """Book the nominated pods in addition to those who still run."""
        for uid, name in (self.nominated | self.reserved).items():
            plain[name].take(self.pods[uid].shape, self._kept(uid))

    def _check_decisions(
        self, said: list[AnyInstruction], plain: dict[NodeName, PlainNode]
    ) -> tuple[list[Pod], set[PodUid]]:
        """Each bind is of a pod that waits, to a place with room (I1, I7). Who was bound, who had a place."""
        bound: list[Pod] = []
        kept: set[PodUid] = set()
        for one in said:
            if isinstance(one, Evict):
                may_be_asked = self.refused_until_us.get(one.uid, 0) <= self.at_us
                check_eviction(one, self.pods, self.place, may_be_asked=may_be_asked)
            if isinstance(one, Nominated):
                assert one.uid not in self.place, f"{one.uid} is nominated, and has a place"
                assert all(uid in self.place for uid in one.waits_for), one
                self.nominated[one.uid] = one.node
            if not isinstance(one, Bind):
                continue
            was_kept = one.uid in self.kept or one.uid in self.nominated or one.instead_of is not None
            self.nominated.pop(one.uid, None)
            kept |= {one.uid} if was_kept else set()
            assert one.uid in self.pods, f"{one.uid} is bound, and nobody knows it"
            assert one.uid not in self.place, f"{one.uid} is bound twice"
            assert one.uid not in self.pause_end_us, f"{one.uid} is bound during its pause"
            pod, place = self.pods[one.uid], plain[one.node]
            assert place.accepts(pod.shape), f"{one.uid} is not welcome on {one.node}"
            assert place.fits(pod.shape), f"{one.uid} does not fit on {one.node}"
            assert len(set(one.devices)) == len(one.devices) == pod.shape.gpu.count
            assert any(set(one.devices) <= set(group) for group in place.fitting_together(pod.shape)), one
            self._check_domain(pod, one.node)
            before = came_before(one.uid, self.kept, self.nominated)
            neighbours, node = self.neighbours(before | self.reserved), self.nodes[one.node]
            against = neighbours.reasons(pod, node)
            if against == POD_AFFINITY:
                moments = map(before.__or__, self.reservations.moments())
                against = min(self.neighbours(one).reasons(pod, node) for one in moments)
            assert not against, f"{one.uid} is bound to {one.node} against {against}"
            ways = neighbours.assignments(pod, node)
            most = max(sum(bool(volume) for _, volume in way) for way in ways)
            assert one.volumes in ways
            used = sum(bool(volume) for _, volume in one.volumes)
            assert was_kept or used == most, "one that is there is used"
            self.volumes[one.uid] = one.volumes
            self._check_quota(pod, one)
            place.take(pod.shape, one.devices)
            self.place[one.uid] = (one.node, one.devices)
            bound.append(pod)
        return bound, kept

    def _check_quota(self, pod: Pod, said: Bind) -> None:
        """No bind breaks a limit, or comes from a queue that lets nothing start (I5)."""
        assert self._is_open(pod), f"{pod.uid} is bound from the closed queue {self._queue_of(pod)}"
        charge = self.quota.charge(pod, self.nodes[said.node], said.devices)
        assert allows(pod, self._queue_of(pod), self._usage(with_kept=False), charge), f"{pod.uid}: no quota"

    def _check_domain(self, pod: Pod, name: NodeName) -> None:
        """A member joins the domain in which its gang already is."""
        gang = None if pod.gang is None else self.gangs.get(pod.gang)
        if pod.gang is None:
            return
        assert gang is not None, f"{pod.uid} is bound, and nobody described its gang"
        if gang.required_level is None:
            return
        domain = self._domain(gang, name)
        assert domain is not None, f"{pod.uid} is bound outside of every domain"
        others = {
            self._domain(gang, place)
            for uid, (place, _) in self.place.items()
            if self.pods[uid].gang == pod.gang and not self.ends(uid)
        }
        assert not others or domain in others, f"{pod.uid} is bound away from its gang"

    def _check_states(self) -> None:
        """Each pod is in exactly one state, and it is the right one (I2)."""
        pods = self.engine.state.pods
        assert set(pods.row_by_uid) == set(self.pods)
        for uid, row in pods.row_by_uid.items():
            if uid in self.nominated or uid in self.reserved:
                expected = PodState.NOMINATED
            elif uid in self.place:
                expected = PodState.BOUND if uid in self.confirmed else PodState.ASSUMED
            else:
                expected = PodState.BACKOFF if uid in self.pause_end_us else PodState.WAITING
            assert pods.state(row) is expected, uid
            on_node = pods.node_row(row)
            kept = (self.nominated | self.reserved).get(uid)
            if kept is not None:
                assert on_node == self.engine.state.fleet.row_by_name[kept], uid
            elif uid in self.place and self.place[uid][0] in self.nodes:
                assert on_node == self.engine.state.fleet.row_by_name[self.place[uid][0]], uid
            else:
                assert on_node is None, uid
                assert pods.is_on_lost_node(uid) == (uid in self.place), uid

    def _check_gangs(self, bound: list[Pod], plain: dict[NodeName, PlainNode]) -> None:
        """No decision leaves a gang short of its minimum (I3), and none waits that could start."""
        neighbours = self.neighbours()
        for name, gang in self.gangs.items():
            members = [pod for pod in self.pods.values() if pod.gang == name]
            running = [pod for pod in members if pod.uid in self.place and not self.ends(pod.uid)]
            waiting = [pod for pod in self.waiting() if pod.gang == name]
            just_bound = [pod for pod in bound if pod.gang == name]
            if len(running) == len(just_bound):
                self.started.discard(name)
            roles = [pod.role for pod in running]
            lacking = sum(max(0, least - roles.count(role)) for role, least in gang.role_minimums)
            lacking = max(0, gang.min_members - len(running), lacking)
            if just_bound:
                # A place that was kept for a gang that runs is given out whoever else waits by now.
                alone = not waiting or any(pod.uid in self.kept for pod in just_bound)
                enough = lacking == 0 or (name in self.started and alone)
                assert enough, f"{name} runs with {len(running)} members and lacks {lacking}"
            if lacking == 0:
                self.started.add(name)
            nominated = [pod for pod in members if pod.uid in self.nominated or pod.uid in self.reserved]
            if just_bound or gang.role_minimums or nominated:
                continue
            missing = max(1, min(lacking, len(waiting)) if name in self.started else lacking)
            anywhere = gang.required_level is None and not self._is_strict(gang.queue)
            alike = len({pod.shape for pod in waiting}) == 1 and waiting[0].shape.relations == NO_RELATIONS
            if anywhere and alike and len(waiting) >= missing and self._allows(waiting[:missing]):
                room = sum(
                    places_on(place, waiting[0], missing)
                    for place in plain.values()
                    if not any(neighbours.reasons(pod, place.node) for pod in waiting)
                )
                assert room < missing, f"{name} waits, and {room} of {missing} members would fit"

    def _check_turns(self, bound: list[Pod]) -> None:
        """Nobody is passed over by a pod of the same needs whose turn comes later."""
        alone = [pod for pod in bound if pod.gang is None]
        for waiting in self.waiting():
            if waiting.gang is not None or not self._is_open(waiting):
                continue
            strict = self._is_strict(waiting.queue)
            for pod in alone:
                later = self._turn(waiting) < self._turn(pod)
                if strict:
                    passed = later and pod.queue == waiting.queue
                else:
                    if self.quota.is_active and waiting.queue != pod.queue:
                        continue
                    alike = all(getattr(pod, name) == getattr(waiting, name) for name in WHAT_DECIDES)
                    passed = later and alike
                assert not passed, f"{pod.uid} has passed over {waiting.uid}"

    def _check_no_room_is_left_unused(self, plain: dict[NodeName, PlainNode]) -> None:
        """A pod waits only if it fits nowhere, or stands behind the head of a strict queue."""
        neighbours, usage = self.neighbours(), self._usage()
        for pod in self.waiting():
            if pod.gang is None and not self._is_behind(pod) and self._is_open(pod):
                fits = self.quota.could_start(pod, pod.queue, usage, plain)
                fits = [name for name in fits if not neighbours.reasons(pod, self.nodes[name])]
                assert not fits, f"{pod.uid} waits and fits on {fits}"

    def _check_neighbours(self) -> None:
        """What the engine has against each waiting pod on each node is what the plain rules say."""
        state = self.engine.state
        neighbours = self.neighbours()
        for pod in self.waiting():
            found = state.neighbours.reasons(state.pods.row_by_uid[pod.uid])
            for name, row in state.fleet.row_by_name.items():
                expected = neighbours.reasons(pod, self.nodes[name])
                assert int(found[row]) == expected, f"{pod.uid} on {name}"
            for uid, chosen in self.volumes.items():
                assert state.neighbours.volumes_of(state.pods.row_by_uid[uid]) == chosen

    def _is_behind(self, pod: Pod) -> bool:
        """True if others of a strict queue may be the reason that a pod waits; of gangs any may."""
        if not self._is_strict(pod.queue):
            return False
        others = [*self.waiting(), *(self.pods[uid] for uid in self.reserved)]  # they wait too
        ahead = (
            other.gang is None and other.queue == pod.queue and self._turn(other) < self._turn(pod)
            for other in others
        )
        return any(ahead) or any(gang.queue == pod.queue for gang in self.gangs.values())

    def _check_everyone_knows_why(self, said: list[AnyInstruction]) -> None:
        """Who waits in vain has been told, and the engine asks to be woken when a pause ends."""
        for pod in self.waiting():
            if pod.gang is None and not self._is_strict(pod.queue):
                assert pod.uid in self.told, f"{pod.uid} does not know why it waits"
        paused = self.pause_end_us
        self.told_unknown &= {one.gang for uid, one in self.pods.items() if one.gang and uid not in paused}
        named = {pod.gang for pod in self.waiting() if pod.gang is not None}
        check_told_unknown(said, self.told_unknown, named, self.gangs.keys())
        self.told -= set(self.place) | set(self.nominated)
        assert self.told >= {u for u in self.reserved if self.pods[u].gang is None and not is_stand_in(u)}
        check_asks_to_be_woken(said, self.pause_end_us.values(), self.at_us)
