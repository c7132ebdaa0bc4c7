"""Evictions for work of no queue wait until conditions of its pods say for which work they are."""

from collections.abc import Iterable
from random import Random

import msgspec
import pytest

from gpufleet.engine.event import KeptPlaces
from gpufleet.engine.instruction import ReservedPlace
from gpufleet.eviction.plan import Cause, EvictionPlan
from gpufleet.kube.transport import Request
from gpufleet.model.identifiers import DeviceId, GangName, NodeName, PodUid
from gpufleet.scheduler.pod_nominations import ANSWER_COUNTS_S, PodNominations
from gpufleet.scheduler.write_ahead import PAUSE_MOST_S, RECORD_WITHIN_S
from tests.at_work import at_work
from tests.engine.effort import seeds
from tests.scheduler.test_write_ahead import ADMIN, NO_QUEUE, PODS, SPOILT, Case, in_case, victim
from tests.simulation.spoilt_way import Lost, refused


def outside(number: int, *uids: PodUid, node: str = "n", waits_for: Iterable[str] = ()) -> KeptPlaces:
    """Work of no queue: one pod, or the gang ``g`` of several."""
    places = tuple(
        ReservedPlace(uid, NodeName(node), (DeviceId(f"GPU-{node}-{index}"),))
        for index, uid in enumerate(uids)
    )
    holder = uids[0] if len(uids) == 1 else GangName("default/g")
    return KeptPlaces(holder, NO_QUEUE, number, places, tuple(map(PodUid, waits_for)))


def test_a_pod_ends_for_work_of_no_queue_once_the_condition_of_that_says_so() -> None:
    async def story(case: Case) -> None:
        case.compares = False
        (uid,) = case.add_pods("p")
        one = outside(3, uid, waits_for=("a", "b"))
        case.way.spoilt = [refused(503, "busy"), Lost.REQUEST]
        case.nominate(one, "a", "b")
        await case.clock.sleep(0.01)
        assert case.ended == []
        await case.clock.sleep(3)
        assert case.ended == ["a", "b"]
        assert case.status_of("p")["nominatedNodeName"] == "n"
        assert case.written(uid, "p") == [one]

    in_case(story)


def test_a_gang_of_no_queue_has_pods_evicted_once_all_its_members_say_so() -> None:
    async def story(case: Case) -> None:
        case.compares = False
        uids = case.add_pods("p", "q", "r")
        gang = outside(1, *uids, waits_for=("a", "b", "c", "d"))
        case.way.spoilt = [refused(500, "etcd")]
        case.nominate(gang, "a", "b", "c", "d")
        await case.clock.sleep(0.05)
        assert case.written(gang.holder, "p", "q", "r") == []
        assert case.ended == []
        await case.clock.sleep(2)
        assert case.written(gang.holder, "p", "q", "r") == [gang]
        assert case.ended == ["a", "b", "c", "d"]

    in_case(story)


def test_a_place_that_is_kept_no_more_is_taken_back_from_the_condition() -> None:
    async def story(case: Case) -> None:
        case.compares = False
        (uid,) = case.add_pods("p")
        case.nominate(outside(1, uid, waits_for=("a",)), "a")
        await case.clock.sleep(1)
        case.ends(uid)
        await case.clock.sleep(1)
        (condition,) = case.status_of("p")["conditions"]
        assert (condition["type"], condition["status"]) == ("gpufleet.io/Nominated", "False")
        assert case.written(uid, "p") == []

    in_case(story)


def test_what_an_earlier_leader_wrote_is_taken_back_where_it_holds_no_more_and_else_costs_no_write() -> None:
    async def story(case: Case) -> None:
        case.compares = False
        kept, lost = case.add_pods("p", "q")
        for number, uid in enumerate((kept, lost)):
            case.nominate(outside(number, uid, node=f"n{number}", waits_for=("a", "b")), "a")
        await case.clock.sleep(1)
        case.seen.catch_up()
        again = PodNominations(
            case.client, case.seen, case.seen.waiting, lambda: [kept, lost], may_write=lambda: True
        )
        case.way.asked.clear()
        async with at_work(again.run()):
            again.update([outside(0, kept, node="n0", waits_for=("b",))])
            await case.clock.sleep(1)
        assert [target.split("/")[-2] for _, target in case.way.asked] == ["q"]
        assert case.written(lost, "q") == []
        assert again.stands(outside(0, kept, node="n0", waits_for=("b",)))

    in_case(story)


def test_a_condition_that_cannot_be_written_for_a_minute_refuses_its_evictions() -> None:
    async def story(case: Case) -> None:
        (uid,) = case.add_pods("p")
        case.way.spoilt = [refused(403, "no rights")] * 1000
        case.nominate(outside(1, uid, waits_for=("a",)), "a")
        await case.clock.sleep(RECORD_WITHIN_S - 1)
        assert case.refusals == []
        await case.clock.sleep(PAUSE_MOST_S * 1.5 + 1)
        assert case.stay(Cause.NOT_RECORDED) == ["a"]
        assert "no rights" in case.refusals[0].words
        assert case.ended == []

    in_case(story)


def test_a_pod_that_would_wait_for_more_than_a_condition_holds_has_none_evicted() -> None:
    async def story(case: Case) -> None:
        (uid,) = case.add_pods("p")
        others = (f"{number:036}" for number in range(1000))
        case.nominate(outside(1, uid, waits_for=("a", *others)), "a")
        await case.clock.sleep(1)
        assert "has no room for so many places" in case.refusals[0].words
        assert (case.ended, case.way.asked) == ([], [])

    in_case(story)


def deleted(case: Case, name: str) -> None:
    """Somebody who may deletes the conditions of a pod; the watch does not tell of it yet."""
    body = msgspec.json.encode({"status": {"conditions": None}})
    request = Request("PATCH", f"{PODS}/{name}/status", body, "application/merge-patch+json")
    assert case.server.answer(request, ADMIN).status == 200


def note_records(case: Case, names: dict[PodUid, str], holder: PodUid | GangName) -> None:
    """From now on it is noted which pods are evicted although no condition names them."""
    case.compares = False
    case.also_recorded = lambda: {
        uid for one in case.written(holder, *names.values()) for uid in one.waits_for
    }


def test_a_condition_that_was_deleted_is_written_again_before_more_pods_end() -> None:
    async def story(case: Case) -> None:
        (uid,) = case.add_pods("p")
        note_records(case, {uid: "p"}, uid)
        one = outside(1, uid, waits_for=("a", "b"))
        case.nominate(one, "a")
        await case.clock.sleep(1)
        assert case.ended == ["a"]
        deleted(case, "p")
        case.seen.catch_up()
        await case.clock.sleep(ANSWER_COUNTS_S)
        case.way.spoilt = [refused(503, "busy")] * 2
        case.write_ahead.hold(EvictionPlan((victim("b"),), case, together=True), one.holder)
        await case.clock.sleep(0.01)
        assert case.ended == ["a"]
        await case.clock.sleep(5)
        assert (case.ended, case.unrecorded) == (["a", "b"], [])
        assert case.written(uid, "p") == [one]

    in_case(story)


@pytest.mark.parametrize("seed", seeds(20))
def test_a_part_that_is_deleted_while_another_cannot_be_written_is_written_again(seed: int) -> None:
    """The watch never tells of the first write, as it comes back only after the deletion."""

    async def story(case: Case) -> None:
        names = ("p", "q")
        uids = case.add_pods(*names)
        gang = outside(1, *uids, waits_for=("a", "b"))
        note_records(case, dict(zip(uids, names, strict=True)), gang.holder)
        # The second of the two requests, and its first repetitions, fail for longer than an answer counts.
        case.way.spoilt = [lambda: None, *[refused(503, "busy")] * 8]
        case.nominate(gang, "a", "b")
        await case.clock.sleep(0.1)
        (first,) = [name for name in names if "conditions" in case.status_of(name)]
        deleted(case, first)
        await case.clock.sleep(1)
        case.seen.catch_up()
        await case.clock.sleep(RECORD_WITHIN_S)
        assert (case.ended, case.unrecorded) == (["a", "b"], [])
        assert case.written(gang.holder, *names) == [gang]

    in_case(story, seed)


@pytest.mark.parametrize("seed", seeds(60))
def test_at_any_moment_what_was_evicted_for_work_of_no_queue_is_written_down(seed: int) -> None:
    """Nominations of pods and of a gang come, move and end, writes fail, and the watch is late, at random.

    At each moment each pod that was told to end is one that a nomination was waiting for that stood in the
    conditions at the server then. In the end these say what the nominations are.
    """
    chance = Random(seed)

    async def story(case: Case) -> None:
        names = ("p", "q", "r", "s")
        uids = case.add_pods(*names)
        works: dict[PodUid | GangName, list[PodUid]] = {
            uids[0]: uids[:1],
            uids[1]: uids[1:2],
            GangName("default/g"): uids[2:],
        }
        named = dict(zip(uids, names, strict=True))

        def found(holder: PodUid | GangName) -> list[KeptPlaces]:
            return case.written(holder, *(named[uid] for uid in works[holder]))

        case.also_recorded = lambda: {
            uid for holder in works for one in found(holder) for uid in one.waits_for
        }
        for number in range(25):
            holder = chance.choice(list(works))
            case.ends(holder)
            if chance.random() < 0.8:
                victims = [f"v{number}-{index}" for index in range(chance.randint(1, 3))]
                node = chance.choice(("n", "m"))
                case.nominate(outside(number, *works[holder], node=node, waits_for=victims), *victims)
            if chance.random() < 0.5:
                case.way.spoilt.append(chance.choice(SPOILT))
            if chance.random() < 0.5:
                case.seen.catch_up()
            await case.clock.sleep(chance.choice((0.0, 0.001, 0.05, 1.0)))
        case.way.spoilt.clear()
        await case.clock.sleep(RECORD_WITHIN_S)
        assert case.unrecorded == []
        for holder in works:
            assert found(holder) == [one for one in case.kept if one.holder == holder]
        assert {uid for one in case.kept for uid in one.waits_for} <= set(case.ended)

    in_case(story, seed)
