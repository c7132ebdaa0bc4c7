"""Pods on the simulated API server around one planner of evictions, and an account of what it must say.

``test_eviction_planner_machine`` lets things happen in it at random.
"""

from collections import Counter
from collections.abc import Callable
from random import Random
from types import SimpleNamespace
from typing import Any, NamedTuple

import msgspec

from gpufleet.cluster.pods.pod_entry import Entry, PodStage
from gpufleet.engine.event import EvictionRefused
from gpufleet.eviction.evictions import Evictions
from gpufleet.eviction.plan import Cause, EvictionPlan, EvictionRefusal, Victim
from gpufleet.kube.client import Client
from gpufleet.kube.objects.pod import Pod
from gpufleet.kube.transport import Request
from gpufleet.model import pod as model
from gpufleet.model.backfill_promise import BackfillPromise
from gpufleet.model.identifiers import GangName, PodUid, QueueName
from gpufleet.model.pod_name import PodName
from gpufleet.model.shape import Shape
from gpufleet.scheduler.eviction_planner import EvictionPlanner
from gpufleet.scheduler.metrics import Metrics
from gpufleet.simulation.api_server import ApiServer
from gpufleet.simulation.network import SimulatedTransport
from gpufleet.simulation.virtual_loop import VirtualClock, VirtualLoop
from tests.simulation.spoilt_way import SpoiltWay

ADMIN = "system:masters"
PODS = "/api/v1/namespaces/default/pods"
BUDGET = "/apis/policy/v1/namespaces/default/poddisruptionbudgets/guard"
GANG, LONG = GangName("default/g"), GangName("default/long")
HOLDERS: dict[PodUid | GangName, str] = {PodUid("w"): "w", PodUid("x"): "x", GANG: "g0"}
"""Work that pods end for, and the pod that is told of it."""

WORDS = {PodUid("w"): "pod default/w", PodUid("x"): "pod default/x", GANG: "gang g"}
EVENTS = {
    "preempted": "Preempted",
    "reclaimed": "Reclaimed",
    "stopped": "QueueStopped",
    "overtime": "RunTimeExceeded",
    "moved": "Moved",
    "interrupted": "Interrupted",
    "overdue": "RunTimePromised",
}
NEVER_KEPT = {"interrupted", "overdue"}
UNSAID = {Cause.IN_VAIN, Cause.NOT_NEEDED, Cause.NOT_BEGUN}
"""The first two say nothing of their own; before the last one, the owner read that the pod ends."""


class Asked(NamedTuple):
    """What the engine wants, and under which plan: pods of one plan end together or not at all.

    ``since`` is how many requests for evictions the server had seen by then.
    """

    reason: str
    holder: PodUid | GangName | None
    plan: int
    together: bool
    since: int


class Held(NamedTuple):
    """A plan that waits for its record."""

    plan: EvictionPlan
    holder: PodUid | GangName


class Crowd:
    """Pods on the simulated server around one planner, and what the planner says to the parts beside it."""

    def __init__(self, kind: type[EvictionPlanner], loop: VirtualLoop, seed: int) -> None:
        self.kind = kind
        self.chance = Random(seed)
        self.clock = VirtualClock(loop)
        self.server = ApiServer(self.clock, Random(seed + 1))
        self.way = SpoiltWay(
            SimulatedTransport(self.server, ADMIN, Random(seed + 2)), self.clock, "/eviction"
        )
        self.entries: dict[PodUid, Entry] = {}
        self.asked: dict[PodUid, Asked] = {}
        self.held: list[Held] = []
        self.answers: dict[PodUid, str] = {}
        self.said: list[tuple[object, ...]] = []
        self.refused_until_us: dict[PodUid, int] = {}
        self.broken: list[AssertionError] = []
        self.metrics = Metrics()
        self.counted: Counter[str] = Counter()
        self.plans = 0
        self.pods_made = 0
        self.budget_lets_go = 0
        self.server.add(
            {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": {"name": "guard"},
                "spec": {"selector": {"matchLabels": {"guarded": "yes"}}},
            }
        )
        for name, gang in (("w", None), ("x", None), ("g0", GANG), ("g1", GANG)):
            self.entries[PodUid(name)] = entry(name, gang, PodStage.WAITING)
        self.set_budget(1)
        self.lead()

    # The cluster.

    def lead(self) -> None:
        """A leader begins that knows nothing of what was asked before."""
        self.held.clear()
        self.asked.clear()
        client = Client(self.way, self.clock, Random(self.chance.random()))
        evictions = Evictions(
            client, Unheard(), epoch=None, at_once=4, may_write=lambda: True, ends=self.is_leaving
        )
        self.evictions = evictions
        parts: Any = SimpleNamespace(
            pods=SimpleNamespace(entries=self.entries, waiting=self.waiting),
            gangs=SimpleNamespace(
                records={GANG: SimpleNamespace(engine_gang=SimpleNamespace(queue="team"))},
                waiting=lambda _: [self.entries[PodUid("g0")], self.entries[PodUid("g1")]],
            ),
            budgets=SimpleNamespace(guards=lambda namespace: namespace == "default"),
            queues=SimpleNamespace(known={"team"}),
            refused=self.engine_hears,
            hold=lambda plan, holder: self.held.append(Held(plan, holder)),
            changed=lambda: self.said.append(("changed",)),
            nominated=lambda pod, node, words: self.said.append(("kept", pod.uid, node, words)),
            not_nominated=lambda pod, _: self.said.append(("not kept", pod.uid)),
            evicted=lambda pod, reason, note: self.said.append(("event", pod.uid, reason, note)),
            warns=lambda pod, _, note: self.said.append(("warning", pod.uid, note)),
            eviction=lambda pod, cause, until_us: self.said.append(("condition", pod.uid, cause, until_us)),
            after_round=int,
            now_us=lambda: int(self.clock.monotonic_s() * 1e6),
            whole_after_us=lambda seconds: int(self.clock.monotonic_s() + seconds + 1) * 1_000_000,
        )
        # Places of moved pods are written down at once here.
        places: Any = SimpleNamespace(
            hold=lambda plan, _nodes, release: release(plan), after_round=int, next_due_s=lambda: None
        )
        heard = Heard(self)
        self.planner = self.kind(parts, evictions, parts, parts, parts, self.metrics, parts, places)
        heard.watch(self.planner)

    def pod(self, gang: GangName | None = None) -> None:
        """A pod that runs and is ready; every second one is guarded by the budget."""
        self.pods_made += 1
        name = f"p{self.pods_made}"
        labels = {"guarded": "yes"} if self.pods_made % 2 else {}
        made = self.server.add(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name, "labels": labels},
                "spec": {"nodeName": "n", "containers": [{"name": "main", "image": "x"}]},
            }
        )
        self.status(f"{PODS}/{name}", phase="Running", conditions=[{"type": "Ready", "status": "True"}])
        uid = PodUid(made["metadata"]["uid"])
        self.entries[uid] = entry(name, gang, PodStage.PLACED, uid)

    def status(self, path: str, **status: object) -> None:
        """As a kubelet or a controller writes it."""
        body = msgspec.json.encode({"status": status})
        request = Request("PATCH", f"{path}/status", body, "application/merge-patch+json")
        assert self.server.answer(request, ADMIN).status == 200

    def set_budget(self, allowed: int) -> None:
        """The budget lets so many pods go."""
        self.budget_lets_go = allowed
        healthy = {"currentHealthy": 1 + allowed, "desiredHealthy": 1, "disruptionsAllowed": allowed}
        self.status(BUDGET, **healthy, observedGeneration=1)

    def allowed(self) -> int:
        """How many pods the budget lets go now."""
        (budget,) = self.server.store.all(("policy", "poddisruptionbudgets")).values()
        found: int = budget["status"]["disruptionsAllowed"]
        return found

    def on_server(self, uid: PodUid) -> dict[str, Any] | None:
        """A pod as the server has it."""
        pods = self.server.store.all(("", "pods")).values()
        return next((one for one in pods if one["metadata"]["uid"] == uid), None)

    def is_leaving(self, uid: PodUid) -> bool:
        """Whether a pod is being deleted, or is gone."""
        pod = self.on_server(uid)
        return pod is None or "deletionTimestamp" in pod["metadata"]

    def waiting(self, uid: PodUid) -> Entry | None:
        """A pod that waits."""
        found = self.entries.get(uid)
        return found if found is not None and found.place is PodStage.WAITING else None

    def gang_of(self, uid: PodUid) -> GangName | None:
        """The gang of a pod."""
        meaning = self.entries[uid].meaning
        return None if meaning is None else meaning.gang

    def running(self) -> list[PodUid]:
        """Pods that have a place."""
        return [uid for uid, one in self.entries.items() if one.place is PodStage.PLACED]

    def end(self, uid: PodUid) -> None:
        """A pod is gone."""
        name = self.entries.pop(uid).name.name
        self.asked.pop(uid, None)
        self.server.answer(Request("DELETE", f"{PODS}/{name}?gracePeriodSeconds=0", b""), ADMIN)

    def free_to_ask(self) -> list[PodUid]:
        """Pods that the engine may want to end: none whose eviction is not answered, or was refused."""
        now_us = int(self.clock.monotonic_s() * 1e6)
        return [
            uid
            for uid in self.running()
            if uid not in self.asked
            and self.refused_until_us.get(uid, 0) <= now_us
            and not self.is_leaving(uid)
        ]

    # What is heard.

    def engine_hears(self, happened: EvictionRefused) -> None:
        """A pod stays."""
        self.said.append(("engine", happened.uid, happened.until_us))
        self.refused_until_us[happened.uid] = happened.until_us

    def answered(self, uid: PodUid, how: str) -> None:
        """A pod that was asked for is answered."""
        assert uid in self.asked, f"{uid} is answered, and was not asked for"
        was_granted = self.answers.get(uid) == "told" and how == Cause.NOT_BEGUN.value
        assert uid not in self.answers or (was_granted and not self.is_leaving(uid)), f"{uid}: twice"
        self.answers[uid] = how

    def heard(self, kind: str, uid: PodUid) -> list[tuple[object, ...]]:
        """What was said of one kind about one pod."""
        return [one for one in self.said if one[:2] == (kind, uid)]


class Unheard:
    """An observer beside the asker."""

    def eviction_granted(self, victim: Victim) -> None:
        """Counted elsewhere."""

    def refused(self, refusal: EvictionRefusal) -> None:
        """Counted elsewhere."""


class Heard:
    """Judges each answer at the moment of it."""

    def __init__(self, crowd: Crowd) -> None:
        self.crowd = crowd

    def watch(self, planner: EvictionPlanner) -> None:
        """See what the planner is told, before and after."""
        eviction_granted, stays = planner.eviction_granted, planner.refused

        def see_told(victim: Victim) -> None:
            self.crowd.said.clear()
            eviction_granted(victim)
            self.note(lambda: self.check_told(victim))

        def see_refused(refusal: EvictionRefusal) -> None:
            self.crowd.said.clear()
            stays(refusal)
            self.note(lambda: self.check_refused(refusal))

        planner.eviction_granted, planner.refused = see_told, see_refused  # type: ignore[method-assign]

    def note(self, check: Callable[[], None]) -> None:
        """Keep what is wrong for the story: here it would only end a task of the evictions."""
        try:
            check()
        except AssertionError as problem:
            self.crowd.broken.append(problem)

    def check_told(self, victim: Victim) -> None:
        """A pod ends: its owner reads why and for which work, and it is counted once."""
        crowd, uid = self.crowd, victim.pod.uid
        crowd.answered(uid, "told")
        asked = crowd.asked[uid]
        if asked.reason not in EVENTS:
            assert not crowd.said, "the engine says itself what is told of these"
            return
        crowd.counted[asked.reason] += 1
        assert [one[:3] for one in crowd.said] == [("event", uid, EVENTS[asked.reason])]
        note = crowd.said[0][-1]
        if asked.holder is not None and asked.reason != "overtime":
            assert WORDS[asked.holder] in str(note)
        if asked.holder is not None and asked.reason in {"preempted", "reclaimed", "overdue", "interrupted"}:
            assert "team" in str(note)

    def check_refused(self, refusal: EvictionRefusal) -> None:
        """A pod stays: the engine hears until when, and the owner of the work reads why."""
        crowd, uid = self.crowd, refusal.victim.pod.uid
        crowd.answered(uid, refusal.cause.value)
        asked, now_us = crowd.asked[uid], int(crowd.clock.monotonic_s() * 1e6)
        heard = crowd.heard("engine", uid)
        assert len(heard) == 1, "the engine hears of it once"
        until_us, lasts = heard[0][2], refusal.for_s > 0
        assert isinstance(until_us, int)
        assert until_us >= now_us + refusal.for_s * 1e6 if lasts else until_us == now_us
        conditions = crowd.heard("condition", uid)
        assert conditions == ([("condition", uid, refusal.cause.value, until_us)] if lasts else [])
        is_read = asked.holder is not None and refusal.cause not in UNSAID
        warnings = [one for one in crowd.said if one[0] == "warning"]
        assert len(warnings) == is_read
        if asked.holder is not None and is_read:
            assert warnings[0][1] == HOLDERS[asked.holder]
            assert refusal.words in str(warnings[0][2])
            assert str(refusal.victim.pod) in str(warnings[0][2])


def entry(name: str, gang: GangName | None, place: PodStage, uid: PodUid | None = None) -> Entry:
    """A pod of queue "team" that said to "w" how long it runs."""
    found = uid or PodUid(name)
    promises = (BackfillPromise("w", 60_000_000),)
    meaning = model.Pod(found, Shape(), queue=QueueName("team"), gang=gang, promises=promises)
    raw = msgspec.convert({"metadata": {"name": name, "uid": found}, "spec": {"containers": []}}, Pod)
    return Entry(PodName("default", name, found), raw, place, meaning)
