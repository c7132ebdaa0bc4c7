"""A step that is cut into slices decides what it would decide as a whole."""

from collections.abc import Iterable

import msgspec
import pytest

from gpufleet.engine import event
from gpufleet.engine.engine_errors import BrokenInvariantError, LogError
from gpufleet.engine.event_log import ends_step, header_line, read_step, rerun, step_line
from gpufleet.engine.instruction import AnyInstruction, Bind, Evict, Nominated
from gpufleet.engine.policy import POLICIES
from gpufleet.engine.preempt.by_name import BY_QUEUES
from gpufleet.engine.preempt.victim_search import PreemptionSearch
from gpufleet.engine.scheduler import Engine
from gpufleet.engine.work_slices import SEARCH_WORK, WorkSlice
from gpufleet.model.identifiers import PodUid
from tests.engine.effort import seeds
from tests.engine.fleet_builder import Story, node, pod, shape
from tests.engine.preempt.treadmill import random_treadmill
from tests.engine.test_determinism import tell

Told = list[tuple[int, tuple[event.Event, ...]]]


def ask_everything(engine: Engine, uids: Iterable[PodUid]) -> None:
    """What a shell may ask of an engine between two slices."""
    for uid in uids:
        engine.explain(uid)
    engine.queue_report()
    engine.fair_shares()
    engine.line_up()
    engine.kept_places()
    engine.reservations()
    engine.past_use()


def in_slices(engine: Engine, told: Told, work_max: int) -> tuple[list[AnyInstruction], int]:
    """What an engine says of a story a slice at a time, asked between the slices; and how many there were."""
    said: list[AnyInstruction] = []
    count = 0
    uids: dict[PodUid, None] = {}
    for at_us, events in told:
        uids |= {one.pod.uid: None for one in events if isinstance(one, event.PodAdded)}
        for part in engine.slices(at_us, events, work_max):
            said += part
            count += 1
            if count % 10 == 0:
                ask_everything(engine, list(uids)[-3:])
    return said, count


@pytest.mark.parametrize(("policy", "work_max"), [("best-fit", 1), ("gpufleet", SEARCH_WORK)])
def test_slices_say_together_what_the_step_says(policy: str, work_max: int) -> None:
    told = tell(policy, 3)
    said, count = in_slices(Engine(POLICIES[policy], seed=3), told.told, work_max)
    assert msgspec.json.encode(said) == msgspec.json.encode(told.said)
    assert count > len(told.told)


@pytest.mark.parametrize("seed", seeds(10))
def test_slices_of_queues_that_take_back_say_what_the_step_says(seed: int) -> None:
    story = random_treadmill(seed).story
    said, _ = in_slices(again(story), story.told, 1)
    assert msgspec.json.encode(said) == msgspec.json.encode(story.said)


@pytest.mark.parametrize("seed", seeds(10))
def test_victims_of_a_workload_are_told_in_one_slice_with_the_place_that_is_kept(seed: int) -> None:
    story = random_treadmill(seed).story
    engine = again(story)
    for at_us, events in story.told:
        seen: set[str] = set()
        for part in engine.slices(at_us, events, 1):
            named = {one.beneficiary for one in part if isinstance(one, Evict) and one.beneficiary}
            assert not named & seen, "victims of one workload are told in two slices"
            assert not named or any(isinstance(one, Nominated) for one in part)
            seen |= named


def again(story: Story) -> Engine:
    """Another engine that has heard nothing yet, with the policy of a story of queues."""
    return Engine(story.engine.state.policy.policy, victims=PreemptionSearch())


def flood(count: int) -> tuple[event.Event, ...]:
    """A node with room for all, and many pods."""
    pods = [pod(f"p{number}", shape(cpu_milli=1)) for number in range(count)]
    return (event.NodeSet(node("n", 0)), *(event.PodAdded(one) for one in pods))


def test_a_slice_has_so_much_work_and_no_more() -> None:
    engine = Engine(POLICIES["best-fit"])
    binds = [sum(isinstance(one, Bind) for one in part) for part in engine.slices(0, flood(100), work_max=10)]
    assert sum(binds) == 100
    assert max(binds) <= 10


def test_a_step_cannot_begin_before_the_last_slice_of_another_was_taken() -> None:
    engine = Engine(POLICIES["best-fit"])
    parts = engine.slices(0, flood(100), work_max=10)
    next(parts)
    assert engine.goes_on
    with pytest.raises(BrokenInvariantError, match="began before the one at 0 was over"):
        engine.step(1)
    list(parts)
    assert engine.step(1) == []


def test_a_log_of_slices_runs_again_to_the_same_bytes_whatever_bound_they_had() -> None:
    story = random_treadmill(4).story
    engine = again(story)
    lines = [header_line("0", engine.state.policy.policy.name, 0, BY_QUEUES)]
    for number, (at_us, events) in enumerate(story.told):
        left = events
        for part in engine.slices(at_us, events, 1 + number % 5):
            lines.append(step_line(at_us, left, part, goes_on=engine.goes_on))
            left = ()
    assert any(read_step(line, 2).goes_on for line in lines[1:])
    assert sum(map(ends_step, lines[1:])) == len(story.told)
    assert all(said == now for _, said, now in rerun(lines))


def test_a_changed_slice_of_a_log_is_found() -> None:
    engine, lines = Engine(POLICIES["best-fit"]), [header_line("0", "best-fit", 0, BY_QUEUES)]
    left = flood(20)
    for part in engine.slices(0, left, 5):
        lines.append(step_line(0, left, part, goes_on=engine.goes_on))
        left = ()
    lines[-1] = lines[-1].replace(b'"uid":"p19"', b'"uid":"p18"')
    assert [number for number, said, now in rerun(lines) if said != now] == [len(lines)]


def test_a_slice_with_events_of_its_own_is_refused() -> None:
    lines = [header_line("0", "best-fit", 0, BY_QUEUES), step_line(0, (), [], goes_on=True)]
    with pytest.raises(LogError, match="a slice of a step that began before has events"):
        list(rerun([*lines, step_line(0, flood(1), [])]))


def test_without_a_bound_nothing_is_cut() -> None:
    work = WorkSlice(None)
    work.spend(1_000_000)
    assert not work.ends()
    assert len(list(Story().engine.slices(0, flood(30), None))) == 1
