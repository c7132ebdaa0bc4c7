"""Evictions wait until the status of a queue says for which work they are, whatever becomes of its writes."""

import itertools
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from random import Random
from typing import Any

import msgspec
import pytest

from gpufleet.cluster.pods.nominated_pods import recalled
from gpufleet.cluster.pods.pod_entry import Entry, PodStage
from gpufleet.cluster.queues.nomination_records import BYTES_MAX
from gpufleet.engine.event import KeptPlaces
from gpufleet.engine.instruction import ReservedPlace
from gpufleet.eviction.evictions import Evictions
from gpufleet.eviction.plan import Cause, EvictionPlan, EvictionRefusal, Victim
from gpufleet.kube import resources
from gpufleet.kube.client import Client
from gpufleet.kube.codec.nomination_parts import read_nomination
from gpufleet.kube.objects.fleet_queues import FleetQueue
from gpufleet.kube.objects.pod import Pod
from gpufleet.kube.replica import Identity
from gpufleet.kube.resources import Kind
from gpufleet.kube.transport import Request
from gpufleet.model.identifiers import DeviceId, GangName, NodeName, PodUid, QueueName
from gpufleet.model.pod_name import PodName
from gpufleet.scheduler.metrics import Metrics
from gpufleet.scheduler.pod_nominations import PodNominations
from gpufleet.scheduler.queue_statuses import QueueStatuses
from gpufleet.scheduler.write_ahead import PAUSE_MOST_S, RECORD_WITHIN_S, WriteAhead
from gpufleet.simulation.admission_policies import SCHEDULER_USER
from gpufleet.simulation.api_server import ApiServer
from gpufleet.simulation.network import SimulatedTransport
from gpufleet.simulation.virtual_loop import VirtualClock, VirtualLoop, run
from tests.at_work import at_work
from tests.engine.effort import seeds
from tests.simulation.spoilt_way import Lost, Spoilt, SpoiltWay, refused, too_many

QUEUES = "/apis/gpufleet.io/v1alpha1/fleetqueues"
PODS = "/api/v1/namespaces/default/pods"
ADMIN = "system:masters"
TEAM = QueueName("team")
NO_QUEUE = QueueName("default")
Object = dict[str, Any]


def victim(name: str) -> Victim:
    return Victim(PodName("default", name, PodUid(name)), "preempted")


def nomination(
    number: int, *waits_for: str, queue: QueueName = TEAM, node: str = "n", places: int = 1
) -> KeptPlaces:
    """Work that waits for these pods to leave a node."""
    kept = tuple(
        ReservedPlace(PodUid(f"w{number}"), NodeName(node), (DeviceId(f"GPU-{number}-{index}"),))
        for index in range(places)
    )
    return KeptPlaces(PodUid(f"w{number}"), queue, number, kept, tuple(map(PodUid, waits_for)))


class Seen:
    """What a watch has told of queues and pods by now; nothing new until ``catch_up``."""

    def __init__(self, server: ApiServer) -> None:
        self.server = server
        self.queues: dict[str, FleetQueue] = {}
        self.pods: dict[str, Pod] = {}

    def catch_up(self) -> None:
        """The watch tells of everything."""
        listed = msgspec.json.decode(self.server.answer(Request("GET", QUEUES), ADMIN).body)["items"]
        found = [msgspec.json.decode(msgspec.json.encode(one), type=FleetQueue) for one in listed]
        self.queues = {one.metadata.name: one for one in found}
        listed = msgspec.json.decode(self.server.answer(Request("GET", PODS), ADMIN).body)["items"]
        pods = [msgspec.json.decode(msgspec.json.encode(one), type=Pod) for one in listed]
        self.pods = {one.metadata.name: one for one in pods}

    def find(self, kind: Kind, name: str, _namespace: str = "") -> FleetQueue | Pod | None:
        """One queue, or one pod."""
        return self.queues.get(name) if kind == resources.FLEET_QUEUES else self.pods.get(name)

    def waiting(self, uid: PodUid) -> Entry | None:
        """A pod that waits."""
        pod = next((one for one in self.pods.values() if one.metadata.uid == uid), None)
        if pod is None:
            return None
        return Entry(PodName("default", pod.metadata.name, uid), pod, PodStage.WAITING)

    def all(self, _kind: Kind) -> Iterable[FleetQueue]:
        """All queues."""
        return self.queues.values()


class Released(Evictions):
    """Notes what is to be evicted, and what the API server says of it at that moment."""

    case: "Case"

    def submit(self, plan: EvictionPlan) -> None:
        """Pods are to end."""
        self.case.ended += [one.pod.name for one in plan.victims]
        recorded = self.case.recorded() if self.case.compares else []
        for one in plan.victims:
            is_recorded = one.pod.uid in self.case.also_recorded()
            if not is_recorded and not any(
                one.pod.uid in eviction_granted["waitsFor"] for eviction_granted in recorded
            ):
                self.case.unrecorded.append(one.pod.name)


class Case:
    """A queue on the simulated server, nominations, and what comes of their evictions."""

    def __init__(self, loop: VirtualLoop, seed: int) -> None:
        self.clock = VirtualClock(loop)
        self.server = ApiServer(self.clock, Random(seed))
        for name in (TEAM, "other"):
            kind = {"apiVersion": "gpufleet.io/v1alpha1", "kind": "FleetQueue"}
            self.server.add({**kind, "metadata": {"name": name}, "spec": {}})
        self.seen = Seen(self.server)
        self.seen.catch_up()
        self.way = SpoiltWay(
            SimulatedTransport(self.server, SCHEDULER_USER, Random(seed + 1)), self.clock, "/status"
        )
        self.client = Client(self.way, self.clock, Random(seed + 2))
        self.leads = True
        self.compares = True
        self.kept: list[KeptPlaces] = []
        self.before: list[PodUid] = []
        self.also_recorded: Callable[[], Collection[str]] = tuple
        self.ended: list[str] = []
        self.unrecorded: list[str] = []
        self.refusals: list[EvictionRefusal] = []
        released = Released(
            self.client, Metrics(), epoch=1, at_once=4, may_write=lambda: self.leads, ends=lambda _: False
        )
        released.case = self
        unreadable: Mapping[tuple[str, str], Identity] = {}
        statuses = QueueStatuses(self.client, self.seen, lambda: unreadable)
        self.pods = PodNominations(
            self.client, self.seen, self.seen.waiting, lambda: self.before, may_write=lambda: self.leads
        )
        self.write_ahead = WriteAhead(
            self.client, statuses, self.pods, released, lambda: self.kept, may_write=lambda: self.leads
        )

    def eviction_granted(self, _victim: Victim) -> None:
        """Of no interest here."""

    def refused(self, refusal: EvictionRefusal) -> None:
        """A pod stays."""
        self.refusals.append(refusal)

    def stay(self, cause: Cause) -> list[str]:
        """The pods that stay for a cause."""
        return [one.victim.pod.name for one in self.refusals if one.cause is cause]

    def decided(self) -> set[str]:
        """The pods that end or stay."""
        return {*self.ended, *(one.victim.pod.name for one in self.refusals)}

    def recorded(self, queue: str = TEAM) -> list[Object]:
        """The nominations that the server has."""
        answer = self.server.answer(Request("GET", f"{QUEUES}/{queue}"), ADMIN)
        found: list[Object] = msgspec.json.decode(answer.body).get("status", {}).get("nominations", [])
        return found

    def nominate(self, one: KeptPlaces, *victims: str) -> None:
        """Work has a nomination, and these pods are to end for it."""
        self.kept.append(one)
        self.write_ahead.hold(EvictionPlan(tuple(map(victim, victims)), self, together=True), one.holder)
        self.write_ahead.changed()
        self.write_ahead.after_round()

    def ends(self, *holders: str) -> None:
        """These nominations are over."""
        self.kept = [one for one in self.kept if one.holder not in holders]
        self.write_ahead.changed()
        self.write_ahead.after_round()

    def add_pods(self, *names: str) -> list[PodUid]:
        """Pods of no queue that wait; their uids."""
        container = {"name": "main", "image": "x"}
        for name in names:
            metadata = {"name": name, "namespace": "default"}
            self.server.add(
                {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}
            )
        self.seen.catch_up()
        return [PodUid(self.seen.pods[name].metadata.uid) for name in names]

    def status_of(self, name: str) -> Object:
        """The status of a pod on the server."""
        found: Object = msgspec.json.decode(self.server.answer(Request("GET", f"{PODS}/{name}"), ADMIN).body)
        return dict(found["status"])

    def written(self, holder: PodUid | GangName, *names: str) -> list[KeptPlaces]:
        """What a new leader would read of a workload."""
        before = self.seen.pods
        self.seen.catch_up()
        pods, self.seen.pods = [self.seen.pods[name] for name in names], before
        parts = ((PodUid(one.metadata.uid), read_nomination(one)) for one in pods)
        return recalled((holder, NO_QUEUE, uid, part) for uid, part in parts if part is not None)

    def another_writes(self) -> None:
        """Another program writes into the status, so that the version is another one."""
        body = msgspec.json.encode({"status": {"share": str(self.clock.monotonic_s())}})
        request = Request("PATCH", f"{QUEUES}/{TEAM}/status", body, "application/merge-patch+json")
        assert self.server.answer(request, ADMIN).status == 200


def in_case(story: Callable[[Case], Awaitable[None]], seed: int = 1) -> None:
    """Run a story in virtual time."""

    async def work(loop: VirtualLoop) -> None:
        case = Case(loop, seed)
        async with at_work(case.write_ahead.run(), case.pods.run()):
            await story(case)

    run(work)


def test_a_pod_ends_once_the_status_says_for_which_work() -> None:
    async def story(case: Case) -> None:
        case.nominate(nomination(1, "a", "b"), "a", "b")
        await case.clock.sleep(1)
        assert case.ended == ["a", "b"]
        assert case.unrecorded == []
        (eviction_granted,) = case.recorded()
        assert (eviction_granted["holder"], eviction_granted["waitsFor"]) == ("w1", ["a", "b"])

    in_case(story)


def test_all_that_is_decided_together_is_one_write_a_queue() -> None:
    async def story(case: Case) -> None:
        case.compares = False
        for number in range(4000):
            queue = QueueName("other") if number % 2 else TEAM
            case.nominate(nomination(number, f"v{number}", queue=queue), f"v{number}")
        await case.clock.sleep(1)
        assert len(case.ended) == 4000
        assert sorted(target.split("/")[-2] for _, target in case.way.asked) == ["other", "team"]

    in_case(story)


def test_what_a_status_has_no_room_for_waits_until_there_is() -> None:
    async def story(case: Case) -> None:
        node, places = "n" * 200, BYTES_MAX * 2 // 3 // 240
        for number in range(3):
            case.nominate(nomination(number, f"v{number}", node=node, places=places), f"v{number}")
        await case.clock.sleep(10)
        assert case.ended == ["v0"]
        for number in range(2):
            del case.kept[0]
            await case.clock.sleep(10)
            assert case.ended == [f"v{one}" for one in range(number + 2)]
        assert case.refusals == []

    in_case(story)


def test_a_status_that_takes_long_to_write_is_written_in_a_quarter_of_the_time() -> None:
    """What comes during a write or the pause after it is one write, and no eviction waits for the pause."""

    async def story(case: Case) -> None:
        case.way.lasts_s = 1.0
        case.nominate(nomination(0, "v0"), "v0")
        await case.clock.sleep(1.2)
        assert case.ended == ["v0"]
        for number in range(1, 80):
            case.nominate(nomination(number, f"v{number}"), f"v{number}")
            await case.clock.sleep(0.1)
        await case.clock.sleep(10)
        assert len(case.ended) == 80
        assert case.unrecorded == []
        times = [at_s for at_s, _ in case.way.asked]
        assert all(after_s - before_s >= 4.0 for before_s, after_s in itertools.pairwise(times))
        assert 3 <= len(times) <= 4

    in_case(story)


def test_the_longest_write_is_followed_by_a_pause_of_seconds() -> None:
    async def story(case: Case) -> None:
        case.way.lasts_s = 20.0
        case.nominate(nomination(1, "a"), "a")
        await case.clock.sleep(20.5)
        case.nominate(nomination(2, "b"), "b")
        await case.clock.sleep(PAUSE_MOST_S + 20.5)
        assert case.ended == ["a", "b"]

    in_case(story)


def test_work_with_more_places_than_any_status_takes_has_no_pod_evicted_and_says_why() -> None:
    async def story(case: Case) -> None:
        case.nominate(nomination(1, "a", places=20_000), "a")
        await case.clock.sleep(1)
        assert case.stay(Cause.NOT_RECORDED) == ["a"]
        assert "has no room for so many places" in case.refusals[0].words

    in_case(story)


def test_a_nomination_that_the_status_names_already_costs_no_write() -> None:
    """As after a change of leaders: the nomination has another number, and fewer pods to wait for."""

    async def story(case: Case) -> None:
        case.nominate(nomination(1, "a", "b"), "a")
        await case.clock.sleep(1)
        case.kept = []
        again = msgspec.structs.replace(nomination(1, "b"), number=7)
        case.nominate(again, "b")
        await case.clock.sleep(1)
        assert case.ended == ["a", "b"]
        assert len(case.way.asked) == 1

    in_case(story)


def test_a_place_elsewhere_is_written_down_anew() -> None:
    async def story(case: Case) -> None:
        case.nominate(nomination(1, "a"), "a")
        await case.clock.sleep(1)
        case.kept = []
        case.nominate(nomination(1, "b", node="m"), "b")
        await case.clock.sleep(1)
        assert case.ended == ["a", "b"]
        assert [one["places"][0]["node"] for one in case.recorded()] == ["m"]

    in_case(story)


@pytest.mark.parametrize(
    "spoilt",
    [Lost.REQUEST, Lost.ANSWER, refused(500, "etcd"), refused(409, "newer"), too_many(1)],
    ids=["request-lost", "answer-lost", "500", "409", "429"],
)
def test_a_write_that_fails_is_tried_again(spoilt: Spoilt) -> None:
    async def story(case: Case) -> None:
        case.way.spoilt = [spoilt]
        case.nominate(nomination(1, "a"), "a")
        await case.clock.sleep(5)
        assert case.ended == ["a"]
        assert case.unrecorded == []

    in_case(story)


def test_a_write_that_fails_for_a_minute_refuses_its_evictions_with_the_words_of_the_server() -> None:
    async def story(case: Case) -> None:
        case.way.spoilt = [refused(403, "no rights")] * 1000
        case.nominate(nomination(1, "a"), "a")
        await case.clock.sleep(RECORD_WITHIN_S - 1)
        assert case.refusals == []
        await case.clock.sleep(PAUSE_MOST_S * 1.5 + 1)
        assert case.stay(Cause.NOT_RECORDED) == ["a"]
        assert "FleetQueue team" in case.refusals[0].words
        assert "no rights" in case.refusals[0].words
        assert case.refusals[0].for_s > 0
        assert case.ended == []

    in_case(story)


def test_a_definition_that_is_too_old_to_hold_nominations_refuses_them() -> None:
    async def story(case: Case) -> None:
        answer = {"metadata": {"name": "team", "resourceVersion": "x"}, "status": {}}
        case.way.spoilt = [msgspec.structs.replace(refused(200, ""), body=msgspec.json.encode(answer))] * 99
        case.nominate(nomination(2, "b"), "b")
        await case.clock.sleep(RECORD_WITHIN_S + 2 * PAUSE_MOST_S)
        assert "the definition of FleetQueue" in case.refusals[0].words
        assert case.ended == []

    in_case(story)


def test_without_the_lease_nothing_is_written_and_no_pod_ends() -> None:
    async def story(case: Case) -> None:
        case.leads = False
        case.nominate(nomination(1, "a"), "a")
        await case.clock.sleep(20)
        assert (case.way.asked, case.ended) == ([], [])

    in_case(story)


def test_pods_of_a_nomination_that_ended_stay_unless_another_waits_for_them() -> None:
    async def story(case: Case) -> None:
        case.way.spoilt = [Lost.REQUEST]
        case.nominate(nomination(1, "a", "b"), "a", "b")
        await case.clock.sleep(0.01)
        case.kept = [nomination(2, "b")]
        await case.clock.sleep(20)
        assert case.stay(Cause.NOT_NEEDED) == ["a"]
        assert case.ended == ["b"]
        assert [one["holder"] for one in case.recorded()] == ["w2"]

    in_case(story)


SPOILT: tuple[Spoilt, ...] = (
    Lost.REQUEST,
    Lost.ANSWER,
    refused(409, "newer"),
    refused(503, "busy"),
    refused(500, "etcd"),
    refused(403, "no"),
    too_many(1),
)


@pytest.mark.parametrize("seed", seeds(60))
def test_at_any_moment_what_was_evicted_is_written_down(seed: int) -> None:
    """Nominations come and end, writes fail, others write, and the watch is late, at random.

    No pod ends before the server has a nomination that waits for it. Each pod ends or stays, once. What ends
    without a failure to write has work that waits for it, and in the end everything wanted has ended.
    """
    chance = Random(seed)

    async def story(case: Case) -> None:
        wanted: set[str] = set()
        for number in range(40):
            victims = [f"v{number}-{index}" for index in range(chance.randint(1, 3))]
            undecided = sorted(wanted - case.decided())
            shared = chance.sample(undecided, 1) if undecided and chance.random() < 0.2 else []
            case.nominate(nomination(number, *victims, *shared), *victims)
            wanted |= set(victims)
            if chance.random() < 0.5:
                case.way.spoilt.append(chance.choice(SPOILT))
            if chance.random() < 0.3:
                case.another_writes()
            if chance.random() < 0.5:
                case.seen.catch_up()
            if chance.random() < 0.3:
                case.kept.pop(chance.randrange(len(case.kept)))
            await case.clock.sleep(chance.choice((0.0, 0.001, 0.05, 1.0)))
        case.way.spoilt.clear()
        await case.clock.sleep(RECORD_WITHIN_S)
        assert case.unrecorded == []
        outcomes = [*case.ended, *(one.victim.pod.name for one in case.refusals)]
        assert sorted(outcomes) == sorted(wanted)
        awaited_now = {uid for one in case.kept for uid in one.waits_for}
        assert awaited_now <= set(case.ended)
        assert not awaited_now & {one.victim.pod.uid for one in case.refusals}

    in_case(story, seed)
