"""Whatever the server refuses or loses, pods are in the end told the newest word, and only while they wait.

Words, nominations, Bindings and other writers come in any order, and what the reporter knows of the pods is
late. The model is what was said last of each pod, and the Events that this makes.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import msgspec
import pytest

from gpufleet.cluster.waiting_reasons import UNSCHEDULABLE
from gpufleet.cluster.watching.mirrors import WaitingPod
from gpufleet.engine.explanations.causes import NOMINATED
from gpufleet.kube.client import Client
from gpufleet.kube.objects.pod import POD_SCHEDULED, Pod
from gpufleet.kube.transport import Request, Response
from gpufleet.model.identifiers import NodeName, PodUid
from gpufleet.model.pod_name import PodName
from gpufleet.scheduler import reporting
from gpufleet.scheduler.metrics import Metrics
from gpufleet.scheduler.reporting import CAUSE_PAUSE_S, EVENT_PAUSE_S, EVENT_WAIT_S, QUIET_S, Reporter
from gpufleet.simulation.admission_policies import SCHEDULER_USER
from gpufleet.simulation.api_server import ApiServer
from gpufleet.simulation.network import SimulatedTransport
from gpufleet.simulation.virtual_loop import VirtualClock, VirtualLoop, run
from tests.engine.effort import seeds
from tests.simulation.spoilt_way import Lost, Spoilt, SpoiltWay, refused, too_many

ADMIN = "system:masters"
PODS = ("p0", "p1", "p2")
WORDS = ("no node has room", "its quota is used up", "no node has room for it by now")
CAUSES = {WORDS[0]: "room", WORDS[1]: "quota", WORDS[2]: "room"}
KEPT, NOT_KEPT = "a node is kept for it", "no place is kept for it any more"
NODE = NodeName("n")


class Play:
    """Some waiting pods, a reporter, and what was said last of each."""

    def __init__(self, loop: VirtualLoop, seed: int, *, spoils: bool) -> None:
        self.chance = Random(seed)
        self.spoils = spoils
        self.clock = VirtualClock(loop)
        self.server = ApiServer(self.clock, Random(seed))
        self.server.policies.fence = False
        self.way = SpoiltWay(SimulatedTransport(self.server, SCHEDULER_USER, Random(2)), self.clock, "")
        self.names = {name: self.make(name) for name in PODS}
        self.said: dict[str, str] = {}
        self.nominated: dict[str, str] = {}
        self.bound: set[str] = set()
        self.event_at_s: dict[str, float] = {}
        self.event_cause: dict[str, str] = {}
        self.events: Counter[tuple[str, str, str]] = Counter()
        self.news = 0
        self.seen: dict[str, WaitingPod | None] = {}
        self.catch_up()
        self.reporter = Reporter(
            Client(self.way, self.clock, Random(3)),
            Metrics(),
            instance="test",
            at_once=2,
            writes_under_way=lambda: 0,
            waiting_pod=lambda pod: self.seen[pod.name],
        )

    def make(self, name: str) -> PodName:
        """A pod waits."""
        spec = {"schedulerName": "gpufleet", "containers": [{"name": "main", "image": "x"}]}
        made = self.server.add({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})
        return PodName("default", name, PodUid(made["metadata"]["uid"]))

    def pod(self, name: str) -> Pod:
        """A pod as the server has it."""
        return msgspec.convert(self.server.store.get(("", "pods"), ("default", name)), Pod, strict=False)

    def catch_up(self) -> None:
        """The watch has brought every change."""
        for name in PODS:
            pod = self.pod(name)
            told = pod.condition(POD_SCHEDULED)
            waits = told if told is not None and told.status == "False" else None
            kept = NodeName(pod.status.nominated_node_name)
            version = pod.metadata.resource_version
            self.seen[name] = None if pod.spec.node_name else WaitingPod(version, waits, nominated=kept)

    def request(self, method: str, path: str, body: dict[str, Any], content: str) -> int:
        """A request of another than the reporter."""
        target = f"/api/v1/namespaces/default/pods/{path}"
        encoded = msgspec.json.encode(body)
        return self.server.answer(Request(method, target, encoded, content_type=content), ADMIN).status

    def hear(self, name: str, words: str, reason: str, cause: str) -> str:
        """News of a pod make an Event of a reason, unless one came lately; sooner where the cause changed."""
        if self.said.get(name) != words:
            self.news += 1
            pause_s = EVENT_PAUSE_S if self.event_cause.get(name) == cause else CAUSE_PAUSE_S
            if name not in self.event_at_s or self.since_event_s(name) >= pause_s:
                self.note_event(name, words, reason, cause)
        self.said[name] = words
        return words

    def hear_again(self, name: str, words: str) -> None:
        """The answer is looked at again: an Event comes only where the last one told another cause."""
        cause = CAUSES.get(words, "")
        if name not in self.event_at_s:
            self.event_at_s[name], self.event_cause[name] = self.clock.monotonic_s(), cause
        if self.event_cause[name] != cause and self.since_event_s(name) >= CAUSE_PAUSE_S:
            self.note_event(name, words, "FailedScheduling", cause)
        self.news += self.said.get(name) != words
        self.said[name] = words
        self.reporter.still_waits(self.names[name], UNSCHEDULABLE, words, cause)

    def since_event_s(self, name: str) -> float:
        """How long the last Event of a pod is ago."""
        return self.clock.monotonic_s() - self.event_at_s[name]

    def note_event(self, name: str, words: str, reason: str, cause: str) -> None:
        """An Event is due."""
        self.events[name, reason, words] += 1
        self.event_at_s[name], self.event_cause[name] = self.clock.monotonic_s(), cause

    # What may happen.

    def waits(self, name: str) -> None:
        """The engine says why a pod waits."""
        words = self.chance.choice(WORDS)
        self.hear(name, words, "FailedScheduling", CAUSES[words])
        self.reporter.waits(self.names[name], UNSCHEDULABLE, words, CAUSES[words])

    def still_waits(self, name: str) -> None:
        """The answer is looked at again."""
        self.hear_again(name, self.chance.choice((self.said.get(name, WORDS[0]), *WORDS)))

    def nominate(self, name: str) -> None:
        """A node is kept for a pod."""
        self.nominated[name] = NODE
        self.reporter.nominated(self.names[name], NODE, self.hear(name, KEPT, "Nominated", NOMINATED))

    def withdraw_nomination(self, name: str) -> None:
        """No node is kept any more."""
        if self.nominated.pop(name, None) is not None:
            self.reporter.not_nominated(self.names[name], self.hear(name, NOT_KEPT, "NominationEnded", ""))

    def bind(self, name: str) -> None:
        """The engine decides on a pod, and the server binds it."""
        self.reporter.withdraw(self.names[name].uid)
        binding = {"metadata": {"name": name}, "target": {"kind": "Node", "name": NODE}}
        assert self.request("POST", f"{name}/binding", binding, "application/json") == 201
        self.bound.add(name)
        self.events[name, "Scheduled", "assigned"] += 1
        self.reporter.bound(self.names[name], "assigned")

    def another_writes(self, name: str) -> None:
        """Another writer says something in the condition."""
        told = {"type": POD_SCHEDULED, "status": "False", "reason": "Other", "message": "not ours"}
        body = {"status": {"conditions": [told]}}
        content = "application/strategic-merge-patch+json"
        assert self.request("PATCH", f"{name}/status", body, content) == 200

    def spoil(self, _name: str) -> None:
        """The next requests come to nothing."""
        answers: tuple[Spoilt, ...] = (
            Lost.REQUEST,
            Lost.ANSWER,
            too_many(1),
            refused(409, "the object has been modified"),
            refused(500, "not now"),
        )
        self.way.spoilt += self.chance.choices(answers, k=self.chance.choice((1, 3, 8)))

    def step(self) -> None:
        """One of these, of a pod that waits."""
        waiting = [name for name in PODS if name not in self.bound]
        if not waiting:
            return
        kinds = {
            self.waits: 6,
            self.still_waits: 3,
            self.nominate: 2,
            self.withdraw_nomination: 2,
            self.another_writes: 1 if self.spoils else 0,
            self.spoil: 2 if self.spoils else 0,
            self.bind: 0.5,
        }
        (happens,) = self.chance.choices(list(kinds), list(kinds.values()))
        happens(self.chance.choice(waiting))

    # What must hold.

    def check_bound(self) -> None:
        """No pod that has a node says that it waits."""
        for name in self.bound:
            told = self.pod(name).condition(POD_SCHEDULED)
            assert told is None or told.status == "True", f"{name} is bound: {told}"

    def check_newest(self) -> None:
        """Every pod that waits says what was said of it last, and which node is kept for it."""
        for name in self.said.keys() - self.bound:
            pod = self.pod(name)
            told = pod.condition(POD_SCHEDULED)
            assert told is not None
            assert (told.status, told.reason, told.message) == ("False", UNSCHEDULABLE, self.said[name])
            assert pod.status.nominated_node_name == self.nominated.get(name, "")

    def written_events(self) -> list[tuple[str, str, str]]:
        """The pod, the reason and the note of each Event."""
        answer = self.server.answer(Request("GET", "/apis/events.k8s.io/v1/events"), ADMIN)
        events = msgspec.json.decode(answer.body)["items"]
        return [(one["regarding"]["name"], one["reason"], one["note"]) for one in events]

    def told(self, name: str) -> list[str]:
        """The reasons of the Events about a pod."""
        return [reason for pod, reason, _ in self.written_events() if pod == name]

    def check_events(self) -> None:
        """Each piece of news is one Event, and what says nothing new is not written."""
        found = Counter(self.written_events())
        if self.spoils:
            # Words that did not arrive are news again when they are said again, at the same pace.
            most = self.clock.monotonic_s() / CAUSE_PAUSE_S + 1
            told = Counter(name for name, reason, _ in found.elements() if reason != "Scheduled")
            assert all(count <= most for count in told.values())
            return
        # What was not written when a pod got its place need not be.
        assert found <= self.events
        assert all(
            found[event] == count
            for event, count in self.events.items()
            if event[0] not in self.bound or event[1] == "Scheduled"
        )
        written = sum(target.endswith("/status") for _, target in self.way.asked)
        assert written <= self.news


@pytest.mark.parametrize("spoils", [False, True])
@pytest.mark.parametrize("seed", seeds(40))
def test_the_newest_word_arrives_and_none_reaches_a_bound_pod(seed: int, spoils: bool) -> None:
    async def work(loop: VirtualLoop) -> None:
        play = Play(loop, seed, spoils=spoils)
        life = asyncio.create_task(play.reporter.run())
        for _ in range(10 + seed % 30):
            play.step()
            if play.chance.random() < 0.5 or not spoils:
                # Words about a kept place are written after a pause, and the watch brings that too.
                await play.clock.sleep(0.05 if spoils else QUIET_S + 0.05)
                play.catch_up()
            await play.clock.sleep(play.chance.choice((0.0, 0.0, 0.05, 1.0, 15.0)))
            play.check_bound()
        play.way.spoilt.clear()
        for _ in range(3):
            # The round of `refreshing`: all pods that wait are told again what holds.
            play.catch_up()
            for name in play.said.keys() - play.bound:
                play.hear_again(name, play.said[name])
            await play.clock.sleep(10.0)
        play.check_bound()
        play.check_newest()
        play.check_events()
        assert play.reporter.backlog == 0
        life.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await life

    run(work, seed)


def test_what_waits_to_be_written_is_bounded_and_what_is_dropped_is_counted_and_can_be_said_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reporting, "CONDITIONS_KEPT_MAX", 2)
    monkeypatch.setattr(reporting, "EVENTS_KEPT_MAX", 1)

    async def work(loop: VirtualLoop) -> None:
        play = Play(loop, 0, spoils=False)
        for name in PODS:
            play.waits(name)
        assert play.reporter.backlog == 2 + 1
        # The oldest condition and the two oldest Events.
        assert play.reporter.metrics.reports_dropped._value.get() == 1 + 2
        life = asyncio.create_task(play.reporter.run())
        await play.clock.sleep(1.0)
        told = {name: play.pod(name).condition(POD_SCHEDULED) for name in PODS}
        assert [name for name, one in told.items() if one is not None] == ["p1", "p2"]
        play.catch_up()
        assert play.reporter.still_waits(play.names["p0"], UNSCHEDULABLE, play.said["p0"], "room")
        assert not play.reporter.still_waits(play.names["p1"], UNSCHEDULABLE, play.said["p1"], "room")
        await play.clock.sleep(1.0)
        play.check_newest()
        life.cancel()

    run(work, 0)


@pytest.mark.parametrize(("others", "most"), [(0, 3), (5, 1)])
def test_while_pods_are_bound_or_evicted_one_report_is_written_at_a_time(others: int, most: int) -> None:
    async def work(loop: VirtualLoop) -> None:
        play = Play(loop, 0, spoils=False)
        play.reporter.at_once = 3
        play.reporter.writes_under_way = lambda: others
        under_way = [0, 0]
        inner = play.way.call

        async def counted(request: Request, *, timeout_s: float) -> Response:
            under_way[0] += 1
            under_way[1] = max(under_way)
            try:
                await play.clock.sleep(1.0)
                return await inner(request, timeout_s=timeout_s)
            finally:
                under_way[0] -= 1

        monkey = pytest.MonkeyPatch()
        monkey.setattr(play.way, "call", counted)
        life = asyncio.create_task(play.reporter.run())
        for name in PODS:
            play.waits(name)
        await play.clock.sleep(60.0)
        assert under_way == [0, most]
        assert play.reporter.backlog == 0
        life.cancel()
        monkey.undo()

    run(work, 0)


def test_while_pods_are_bound_or_evicted_conditions_come_and_events_wait() -> None:
    async def work(loop: VirtualLoop) -> None:
        play = Play(loop, 0, spoils=False)
        play.reporter.writes_under_way = lambda: 1
        life = asyncio.create_task(play.reporter.run())
        play.waits("p0")
        await play.clock.sleep(EVENT_WAIT_S - 1)
        play.check_newest()
        assert play.reporter.backlog == 1
        await play.clock.sleep(2.0)
        play.check_events()
        assert play.reporter.backlog == 0
        life.cancel()

    run(work, 0)


def test_while_pods_are_bound_or_evicted_one_that_says_nothing_yet_hears_later_of_its_place() -> None:
    """p0 says nothing yet, p1 says that it waits: what p1 says is wrong once a node is kept for it."""

    async def work(loop: VirtualLoop) -> None:
        play = Play(loop, 0, spoils=False)
        play.reporter.writes_under_way = lambda: 1
        life = asyncio.create_task(play.reporter.run())
        play.waits("p1")
        await play.clock.sleep(1.0)
        play.catch_up()
        for name in ("p0", "p1", "p2"):
            play.nominate(name)
        await play.clock.sleep(EVENT_WAIT_S - 2)
        assert [play.pod(name).status.nominated_node_name for name in ("p0", "p1", "p2")] == ["", NODE, ""]
        # A pod that is bound meanwhile costs no write of its condition.
        asked = len(play.way.asked)
        play.bind("p2")
        play.catch_up()
        assert len(play.way.asked) == asked
        await play.clock.sleep(5.0)
        play.check_newest()
        play.check_bound()
        await play.clock.sleep(EVENT_WAIT_S)
        play.check_events()
        assert play.reporter.backlog == 0
        life.cancel()

    run(work, 0)


def test_no_event_says_any_more_why_a_pod_waited_that_has_its_place() -> None:
    async def work(loop: VirtualLoop) -> None:
        play = Play(loop, 0, spoils=False)
        under_way = [1]
        play.reporter.writes_under_way = lambda: under_way[0]
        life = asyncio.create_task(play.reporter.run())
        play.waits("p0")
        play.waits("p1")
        await play.clock.sleep(1.0)
        play.bind("p0")
        under_way[0] = 0
        await play.clock.sleep(1.0)
        assert play.told("p0") == ["Scheduled"]
        assert play.told("p1") == ["FailedScheduling"]
        life.cancel()

    run(work, 0)


def in_play(story: Callable[[Play], Awaitable[None]]) -> None:
    """Run a story with a server that is well."""

    async def work(loop: VirtualLoop) -> None:
        play = Play(loop, 0, spoils=False)
        life = asyncio.create_task(play.reporter.run())
        await story(play)
        life.cancel()

    run(work, 0)


def test_what_is_not_written_when_a_pod_gets_its_place_stays_unsaid_and_is_news_if_the_place_is_lost() -> (
    None
):
    async def story(play: Play) -> None:
        pod = play.names["p0"]
        play.reporter.waits(pod, UNSCHEDULABLE, WORDS[0], "room")
        play.reporter.withdraw(pod.uid)
        await play.clock.sleep(1.0)
        assert play.pod("p0").condition(POD_SCHEDULED) is None
        play.reporter.waits(pod, UNSCHEDULABLE, WORDS[0], "room")
        await play.clock.sleep(1.0)
        told = play.pod("p0").condition(POD_SCHEDULED)
        assert told is not None
        assert told.message == WORDS[0]

    in_play(story)


def test_a_node_that_was_kept_is_kept_no_more_for_a_pod_that_has_its_place() -> None:
    async def story(play: Play) -> None:
        pod = play.names["p0"]
        play.nominate("p0")
        play.reporter.withdraw(pod.uid)
        play.reporter.waits(pod, UNSCHEDULABLE, WORDS[0], "room")
        await play.clock.sleep(1.0)
        assert play.pod("p0").status.nominated_node_name == ""

    in_play(story)


def test_what_was_said_of_pods_that_wait_no_more_is_forgotten() -> None:
    async def story(play: Play) -> None:
        for name in PODS:
            play.reporter.waits(play.names[name], UNSCHEDULABLE, WORDS[0], "room")
        await play.clock.sleep(EVENT_PAUSE_S + 1)
        play.catch_up()
        play.reporter.forget_others(lambda uid: uid != play.names["p0"].uid)
        asked = len(play.way.asked)
        for name in PODS:
            play.reporter.waits(play.names[name], UNSCHEDULABLE, WORDS[0], "room")
        await play.clock.sleep(1.0)
        # Of p0 it is news, and an Event; its condition says so already.
        assert len(play.way.asked) == asked + 1

    in_play(story)


def test_words_of_another_writer_are_replaced_once_the_pod_can_be_read() -> None:
    async def story(play: Play) -> None:
        pod = play.names["p0"]
        play.reporter.waits(pod, UNSCHEDULABLE, WORDS[0], "room")
        assert not play.reporter.still_waits(pod, UNSCHEDULABLE, WORDS[0], "room"), (
            "it is about to be written"
        )
        await play.clock.sleep(1.0)
        play.another_writes("p0")
        play.seen["p0"] = WaitingPod("7", readable=False)
        assert not play.reporter.still_waits(pod, UNSCHEDULABLE, WORDS[0], "room")
        play.seen["p0"] = None
        assert not play.reporter.still_waits(pod, UNSCHEDULABLE, WORDS[0], "room")
        play.catch_up()
        assert play.reporter.still_waits(pod, UNSCHEDULABLE, WORDS[0], "room")
        await play.clock.sleep(1.0)
        told = play.pod("p0").condition(POD_SCHEDULED)
        assert told is not None
        assert told.message == WORDS[0]

    in_play(story)
