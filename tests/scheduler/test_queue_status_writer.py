"""Statuses of queues follow the engine's report through lost answers, refusals, late watches and others'
writes.
"""

import itertools
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from random import Random
from typing import Any

import msgspec
import pytest

from gpufleet.cluster.queues.queue_figures import QueueFigures
from gpufleet.cluster.queues.queue_tracker import QueueTracker
from gpufleet.kube.client import Client
from gpufleet.kube.objects.fleet_queues import NominationStatus
from gpufleet.kube.replica import Identity
from gpufleet.kube.transport import Request
from gpufleet.model.identifiers import QueueName
from gpufleet.scheduler.queue_status_writer import (
    TURN_EVERY_S,
    URGENT_EVERY_S,
    WRITES_A_TURN,
    QueueStatusWriter,
)
from gpufleet.scheduler.queue_statuses import QueueStatuses
from gpufleet.simulation.admission_policies import SCHEDULER_USER
from gpufleet.simulation.api_server import ApiServer
from gpufleet.simulation.network import SimulatedTransport
from gpufleet.simulation.virtual_loop import VirtualClock, VirtualLoop, run
from tests.at_work import at_work
from tests.engine.effort import seeds
from tests.scheduler.test_write_ahead import Seen
from tests.simulation.spoilt_way import Lost, Spoilt, SpoiltWay, refused, too_many

QUEUES = "/apis/gpufleet.io/v1alpha1/fleetqueues"
ADMIN = "system:masters"
MERGE = "application/merge-patch+json"
SPOILT: tuple[Spoilt, ...] = (
    Lost.REQUEST,
    Lost.ANSWER,
    refused(409, "newer"),
    refused(500, "etcd"),
    refused(403, "no"),
    too_many(1),
)


class Case:
    """Queues on the simulated server, a report of waiting pods, and what was written of it."""

    def __init__(self, loop: VirtualLoop, seed: int, queues: int) -> None:
        self.clock = VirtualClock(loop)
        self.server = ApiServer(self.clock, Random(seed))
        self.names = [f"q{number:03}" for number in range(queues)]
        for name in self.names:
            kind = {"apiVersion": "gpufleet.io/v1alpha1", "kind": "FleetQueue"}
            self.server.add({**kind, "metadata": {"name": name}, "spec": {}})
        self.seen = Seen(self.server)
        self.seen.catch_up()
        self.pending = dict.fromkeys(self.names, 0)
        self.records: dict[str, tuple[NominationStatus, ...]] = {}
        self.immune: dict[str, tuple[str, ...]] = {}
        self.reported_s: list[float] = []
        self.is_busy = False
        self.leads = True
        self.way = SpoiltWay(
            SimulatedTransport(self.server, SCHEDULER_USER, Random(seed + 1)), self.clock, "/status"
        )
        client = Client(self.way, self.clock, Random(seed + 2))
        book = QueueTracker(self.seen)
        for name in self.names:
            book.update(QueueName(name))
        unreadable: Mapping[tuple[str, str], Identity] = {}
        self.writer = QueueStatusWriter(
            client,
            self.seen,
            book,
            self.report,
            lambda: unreadable,
            statuses=QueueStatuses(client, self.seen, lambda: unreadable),
            busy=lambda: self.is_busy,
            may_write=lambda: self.leads,
        )

    def report(self) -> list[QueueFigures]:
        """What the engine says: so many pods wait in each queue, with these places kept, and these pods are
        not evicted for it.
        """
        self.reported_s.append(self.clock.monotonic_s())
        return [
            QueueFigures(
                QueueName(name),
                pending={"gpu-busy": pods} if pods else {},
                nominations=self.records.get(name, ()),
                immune_pods=self.immune.get(name, ()),
            )
            for name, pods in self.pending.items()
        ]

    def status(self, name: str) -> dict[str, Any]:
        """The status that the server has."""
        answer = self.server.answer(Request("GET", f"{QUEUES}/{name}"), ADMIN)
        found: dict[str, Any] = msgspec.json.decode(answer.body).get("status", {})
        return found

    def is_told_immune(self, pod: str, queue: str) -> bool:
        """Whether some status says that a pod is not evicted for a queue."""
        records = [one for name in self.names for one in self.status(name).get("nominations", [])]
        by_record = any(one["holder"] == pod and queue in one.get("immuneTo", ()) for one in records)
        return by_record or pod in self.status(queue).get("immunePods", [])

    def told(self) -> dict[str, int]:
        """How many pods wait, as the statuses say."""
        return {name: self.status(name).get("pending", {}).get("pods", -1) for name in self.names}

    def another_writes(self, name: str) -> None:
        """Another program adds a condition of its own, and a word among ours."""
        own = {"type": "Theirs", "status": "True", "reason": "R", "message": "m"}
        conditions = [one for one in self.status(name).get("conditions", []) if one["type"] != "Theirs"]
        body = {"status": {"conditions": [*conditions, own], "share": "7"}}
        request = Request("PATCH", f"{QUEUES}/{name}/status", msgspec.json.encode(body), MERGE)
        assert self.server.answer(request, ADMIN).status == 200

    def asked(self) -> list[tuple[float, str]]:
        """When a status was written or tried to be, and whose."""
        return [(at_s, target.partition("?")[0].split("/")[-2]) for at_s, target in self.way.asked]


def in_case(
    story: Callable[[Case], Awaitable[None]], *, seed: int = 1, queues: int = 3, watches: bool = True
) -> None:
    """Run a story in virtual time; a watch that ``watches`` is a tenth of a second late."""

    async def watch(case: Case) -> None:
        while True:
            await case.clock.sleep(0.1)
            case.seen.catch_up()

    async def work(loop: VirtualLoop) -> None:
        case = Case(loop, seed, queues)
        watching = (watch(case),) if watches else ()
        async with at_work(case.writer.run(), *watching):
            await story(case)

    run(work)


@pytest.mark.parametrize("seed", seeds(40))
def test_in_the_end_each_status_says_what_is_so_and_is_written_no_more(seed: int) -> None:
    """Whatever was refused, lost or overwritten: two turns after the last of it all is told. Words of others
    in conditions of their own stay, and their words among ours do not.
    """
    chance = Random(seed)

    async def story(case: Case) -> None:
        touched: set[str] = set()
        for _ in range(30):
            case.pending[chance.choice(case.names)] = chance.randint(0, 9)
            if chance.random() < 0.4:
                case.way.spoilt.append(chance.choice(SPOILT))
            if chance.random() < 0.3:
                name = chance.choice(case.names)
                case.another_writes(name)
                touched.add(name)
            if chance.random() < 0.5:
                case.seen.catch_up()
            case.is_busy = chance.random() < 0.3
            await case.clock.sleep(chance.choice((0.1, 1.0, 4.0)))
        case.way.spoilt.clear()
        case.is_busy = False
        for _ in range(30):
            case.seen.catch_up()
            await case.clock.sleep(0.5)
        assert case.told() == case.pending
        for name in touched:
            assert "Theirs" in [one["type"] for one in case.status(name)["conditions"]]
            assert "share" not in case.status(name)
        writes = len(case.way.asked)
        await case.clock.sleep(60)
        assert len(case.way.asked) == writes, "nothing is new, so nothing is written"

    in_case(story, seed=seed, watches=False)


def test_a_queue_is_written_at_most_once_a_turn_however_often_its_figures_change() -> None:
    async def story(case: Case) -> None:
        for number in range(300):
            case.pending["q000"] = number
            await case.clock.sleep(0.1)
        times = [at_s for at_s, name in case.asked() if name == "q000"]
        assert len(times) >= 30 / TURN_EVERY_S - 2
        assert all(after_s - before_s >= URGENT_EVERY_S for before_s, after_s in itertools.pairwise(times))

    in_case(story)


def test_a_watch_that_is_late_costs_neither_a_conflict_nor_a_second_write() -> None:
    """The answer to a write is the next version: it is known before the watch tells of it."""

    async def story(case: Case) -> None:
        for number in (1, 2, 3):
            case.pending["q000"] = number
            await case.clock.sleep(2 * TURN_EVERY_S)
            assert case.told()["q000"] == number
        assert Counter(name for _, name in case.asked())["q000"] == 3

    in_case(story, watches=False)


def test_of_very_many_queues_each_has_its_turn() -> None:
    async def story(case: Case) -> None:
        case.pending = dict.fromkeys(case.names, 5)
        await case.clock.sleep(20 * TURN_EVERY_S)
        assert case.told() == case.pending
        asked = case.asked()
        first_s = min(at_s for at_s, _ in asked)
        in_first_turn = [name for at_s, name in asked if at_s < first_s + URGENT_EVERY_S]
        assert len(in_first_turn) == WRITES_A_TURN
        assert set(Counter(name for _, name in asked).values()) == {1}

    in_case(story, queues=250)


def test_without_the_lease_nothing_is_written() -> None:
    async def story(case: Case) -> None:
        case.leads = False
        case.pending["q000"] = 4
        await case.clock.sleep(30)
        assert case.way.asked == []
        case.leads = True
        await case.clock.sleep(2 * TURN_EVERY_S)
        assert case.told() == case.pending

    in_case(story)


def test_while_binds_are_under_way_statuses_wait_for_at_most_six_turns() -> None:
    """Five turns are left out in a row, so a busy scheduler still writes within half a minute. What
    autoscalers read is reported all the same, with at most the pause and a second in between.
    """

    async def story(case: Case) -> None:
        case.is_busy = True
        case.pending["q000"] = 4
        await case.clock.sleep(5 * TURN_EVERY_S)
        assert case.way.asked == []
        pauses_s = [later - earlier for earlier, later in itertools.pairwise(case.reported_s)]
        assert max(pauses_s) <= TURN_EVERY_S + 1
        assert case.reported_s[-1] >= case.clock.monotonic_s() - TURN_EVERY_S - 1
        await case.clock.sleep(3 * TURN_EVERY_S)
        assert case.told() == case.pending

    in_case(story)


@pytest.mark.parametrize("seed", seeds(20))
def test_a_record_of_a_place_stays_until_the_queues_that_lose_by_it_have_the_pod(seed: int) -> None:
    """Two queues get places at each other's cost, and a third at the cost of both, while writes are refused
    and answers lost. A leader that dies at any moment leaves word of each of these pods.
    """
    pairs = {"p": ("q000", "q001"), "q": ("q001", "q000"), "r": ("q002", "q001"), "s": ("q002", "q000")}

    async def story(case: Case) -> None:
        chance = Random(seed)
        case.records = {
            gains: tuple(
                NominationStatus(pod, number, immune_to=(loses,))
                for number, (pod, (other, loses)) in enumerate(pairs.items())
                if other == gains
            )
            for gains in case.names
        }
        await case.clock.sleep(3 * TURN_EVERY_S)
        case.records = {}
        case.immune = {
            queue: tuple(pod for pod, (_, loses) in pairs.items() if loses == queue) for queue in case.names
        }
        case.way.lasts_s = 0.2
        case.way.spoilt = [chance.choice(SPOILT) for _ in range(chance.randint(0, 6))]
        for _ in range(600):
            await case.clock.sleep(0.1)
            assert all(case.is_told_immune(pod, loses) for pod, (_, loses) in pairs.items())
        assert [case.status(name).get("nominations", []) for name in case.names] == [[], [], []]

    in_case(story, seed=seed)
