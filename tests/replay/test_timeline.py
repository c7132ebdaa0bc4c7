"""The trace in its own time: stories whose every moment was worked out by hand, and what must hold always."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpufleet.engine.preempt.by_name import BY_PRIORITY, BY_QUEUES
from gpufleet.replay.data_files import shipped_node_list, shipped_task_list
from gpufleet.replay.timeline import StepSeries, TimelineRun, nearest_rank, waits_of
from gpufleet.replay.trace import Trace, read_trace
from gpufleet.replay.trace_tasks import TaskRecord
from tests.replay.small_traces import set_up, shape, trace_of_rows

ONE_GPU = ("n,64000,1024,1,T4",)
TWO_GPUS = ("n,64000,1024,2,T4",)
SECOND = 1_000_000


def played(trace: Trace, victims: str = BY_QUEUES) -> TimelineRun:
    measured, _ = set_up(trace, victims=victims)
    play = TimelineRun(measured, trace, sum(len(node.devices) for node in trace.nodes))
    play.run()
    return play


def story(
    folder: Path, nodes: tuple[str, ...], *rows: str, columns: str = "creation_time,duration_s"
) -> TimelineRun:
    return played(trace_of_rows(folder, nodes, columns, *rows))


def waits_s(play: TimelineRun) -> dict[str, float]:
    return {name: wait_us / SECOND for name, wait_us in play.wait_us_by_task.items()}


def test_three_tasks_on_one_gpu(tmp_path: Path) -> None:
    """a runs 0-10; b, there since 4, 10-15; c, there since the moment a leaves, 15-17."""
    rows = ("c,1,1,1,1000,10,2", "a,1,1,1,1000,0,10", "b,1,1,1,1000,4,5")
    play = story(tmp_path, ONE_GPU, *rows)
    assert waits_s(play) == {"a": 0, "b": 6, "c": 5}
    assert [(one.pod, one.at_us / SECOND) for one in play.placements] == [("a", 0), ("b", 10), ("c", 15)]
    result = play.result()
    assert result.makespan_s == 17
    assert result.time_s == [second + 0.5 for second in range(17)]
    assert result.queue_length == [0] * 4 + [1] * 11 + [0] * 2
    assert result.gpu_alloc_pct == [100] * 17
    assert result.mean_gpu_alloc_pct == 100
    waits = result.waits_by_class["1"]
    assert (waits.started, waits.never_started) == (3, 0)
    assert (waits.mean_s, waits.p50_s, waits.p90_s, waits.p99_s, waits.max_s) == (3.666667, 5, 6, 6, 6)
    assert result.waits_by_class["all"] == waits
    assert result.waits_by_class["share"].mean_s is None


def test_time_starts_with_the_first_arrival(tmp_path: Path) -> None:
    result = story(tmp_path, TWO_GPUS, "a,1,1,1,1000,100,4", "b,1,1,1,500,102,2").result()
    assert result.time_s == [100.5, 101.5, 102.5, 103.5]
    assert result.gpu_alloc_pct == [50, 50, 75, 75]
    assert (result.makespan_s, result.mean_gpu_alloc_pct) == (4, 62.5)


def test_what_leaves_makes_room_for_what_arrives_at_that_moment(tmp_path: Path) -> None:
    play = story(tmp_path, ONE_GPU, "a,1,1,1,1000,0,10", "b,1,1,1,1000,10,1")
    assert waits_s(play)["b"] == 0


def test_a_smaller_task_may_start_before_one_that_waits(tmp_path: Path) -> None:
    rows = ("a,1,1,1,1000,0,10", "big,1,1,2,1000,1,1", "small,1,1,1,1000,2,3")
    assert waits_s(story(tmp_path, TWO_GPUS, *rows)) == {"a": 0, "small": 0, "big": 9}


def test_higher_priority_goes_first_when_room_appears(tmp_path: Path) -> None:
    rows = ("a,1,1,1,1000,0,10,0", "early,1,1,1,1000,1,1,0", "urgent,1,1,1,1000,2,1,5")
    play = story(tmp_path, ONE_GPU, *rows, columns="creation_time,duration_s,priority")
    assert waits_s(play) == {"a": 0, "urgent": 8, "early": 10}


PRIORITIES = "creation_time,duration_s,priority"


def with_evictions(
    folder: Path, nodes: tuple[str, ...], *rows: str, columns: str = PRIORITIES
) -> TimelineRun:
    return played(trace_of_rows(folder, nodes, columns, *rows), BY_PRIORITY)


def test_an_evicted_task_waits_again_and_runs_from_its_beginning(tmp_path: Path) -> None:
    """low runs 0 to 4, is evicted for high, which runs 4 to 7, and runs once more from 7 to 17."""
    play = with_evictions(tmp_path, ONE_GPU, "low,1,1,1,1000,0,10,0", "high,1,1,1,1000,4,3,5")
    assert waits_s(play) == {"low": 3, "high": 0}
    assert [(one.pod, one.at_us / SECOND) for one in play.placements] == [("low", 0), ("high", 4), ("low", 7)]
    result = play.result()
    assert (result.evictions, result.makespan_s) == (1, 17)
    assert result.queue_length == [0] * 4 + [1] * 3 + [0] * 10
    assert result.gpu_alloc_pct == [100] * 17


def test_a_task_that_is_evicted_twice_has_waited_twice(tmp_path: Path) -> None:
    """low starts at 0, 5 and 8, and another task bears the name that its second pod would have."""
    rows = ("low,1,1,1,1000,0,4,0", "low~1,1,1,1,1000,3,2,5", "high,1,1,1,1000,6,2,5")
    play = with_evictions(tmp_path, ONE_GPU, *rows)
    assert waits_s(play) == {"low": 4, "low~1": 0, "high": 0}
    assert (play.evictions, play.result().makespan_s) == (2, 12)


def test_a_task_that_is_evicted_and_never_starts_again_says_so(tmp_path: Path) -> None:
    rows = ("low,1,1,1,1000,0,5,0", "high,1,1,1,1000,1,,5")
    play = with_evictions(tmp_path, ONE_GPU, *rows)
    assert [task.name for task in play.never_started()] == ["low"]
    assert play.placements[-1].reason == "gpu"
    assert play.result().waits_by_class["all"].never_started == 1


def test_a_task_that_is_evicted_before_its_withdrawal_leaves_then(tmp_path: Path) -> None:
    rows = ("w,1,1,1,1000,0,,5,0", "high,1,1,1,1000,2,2,11,5", "last,1,1,1,1000,9,9,10,0")
    play = with_evictions(tmp_path, ONE_GPU, *rows, columns=f"{RECORDED},priority")
    assert play.why_not_started(play.never_started()[0]) == "withdrawn"
    assert waits_s(play) == {"high": 0, "last": 2}
    assert play.queue_length.now == play.used_milli.now == 0


def test_a_gang_is_evicted_and_starts_again_as_a_whole(tmp_path: Path) -> None:
    rows = ("g0,1,1,1,1000,0,6,g,0", "g1,1,1,1,1000,0,6,g,0", "high,1,1,1,1000,1,2,,5")
    columns = "creation_time,duration_s,gang,priority"
    play = with_evictions(tmp_path, TWO_GPUS, *rows, columns=columns)
    assert waits_s(play) == {"high": 0, "g0": 2, "g1": 2}
    assert (play.evictions, play.result().makespan_s) == (2, 9)


def test_tasks_of_no_length_come_and_go_in_one_moment(tmp_path: Path) -> None:
    rows = [f"t{number},1,1,1,1000,5,0" for number in range(3)]
    play = story(tmp_path, ONE_GPU, *rows)
    assert waits_s(play) == {"t0": 0, "t1": 0, "t2": 0}
    assert play.used_milli.now == play.queue_length.now == 0
    assert play.result().mean_gpu_alloc_pct == 0


def test_a_task_of_unknown_length_stays(tmp_path: Path) -> None:
    play = story(tmp_path, ONE_GPU, "a,1,1,1,1000,0,", "b,1,1,1,1000,1,5", "c,1,1,0,0,9,1")
    assert waits_s(play) == {"a": 0, "c": 0}
    assert [task.name for task in play.never_started()] == ["b"]
    assert play.placements[-1].reason == "gpu"
    assert play.result().waits_by_class["1"].never_started == 1
    assert play.result().mean_gpu_alloc_pct == 100


RECORDED = "creation_time,scheduled_time,deletion_time"


def test_duration_is_counted_from_the_start_in_the_record(tmp_path: Path) -> None:
    """a waited 3 in the record and ran 4; here it starts at once and still runs 4."""
    play = story(tmp_path, ONE_GPU, "a,1,1,1,1000,0,3,7", "b,1,1,1,1000,1,1,2", columns=RECORDED)
    assert waits_s(play) == {"a": 0, "b": 3}


def test_a_task_that_was_withdrawn_before_it_started_leaves_then(tmp_path: Path) -> None:
    """w1 finds room at 2 and holds it until its withdrawal at 6; w2 is withdrawn at 5, still waiting."""
    rows = ("w1,1,1,1,1000,2,,6", "w2,1,1,1,1000,3,,5", "last,1,1,1,1000,4,4,9")
    play = story(tmp_path, ONE_GPU, *rows, columns=RECORDED)
    assert waits_s(play) == {"w1": 0, "last": 2}
    assert [(one.pod, one.reason) for one in play.placements if one.node is None] == [("w2", "withdrawn")]
    result = play.result()
    # from 2 to 11, a second a point
    assert result.queue_length == [0, 1, 2, 1, 0, 0, 0, 0, 0]
    assert result.waits_by_class["all"].never_started == 1


def test_withdrawn_in_the_moment_of_its_creation(tmp_path: Path) -> None:
    rows = ("a,1,1,1,1000,0,0,9", "w,1,1,1,1000,3,,3")
    play = story(tmp_path, ONE_GPU, *rows, columns=RECORDED)
    assert play.why_not_started(play.never_started()[0]) == "withdrawn"
    assert play.queue_length.now == 0


def test_a_gang_starts_together_when_there_is_room_for_all(tmp_path: Path) -> None:
    rows = ("a,1,1,1,1000,0,5,", "g0,1,1,1,1000,1,3,g", "g1,1,1,1,1000,2,4,g", "b,1,1,1,1000,3,1,")
    play = story(tmp_path, TWO_GPUS, *rows, columns="creation_time,duration_s,gang")
    assert waits_s(play) == {"a": 0, "b": 0, "g0": 4, "g1": 3}


def test_a_gang_that_never_fits_says_so(tmp_path: Path) -> None:
    rows = [f"g{number},1,1,1,1000,0,1,g" for number in range(3)]
    play = story(tmp_path, TWO_GPUS, *rows, columns="creation_time,duration_s,gang")
    assert {play.why_not_started(task) for task in play.never_started()} == {"its gang"}


def test_progress_is_told_as_tasks_arrive(tmp_path: Path) -> None:
    rows = [f"t{number},1,1,0,0,{number // 700},1" for number in range(2100)]
    trace = trace_of_rows(tmp_path, ONE_GPU, "creation_time,duration_s", *rows)
    told: list[int] = []
    TimelineRun(set_up(trace)[0], trace, 1).run(told.append)
    assert told == [1400, 2100]


tasks = st.lists(
    st.builds(
        lambda milli, created_s, duration_s: (milli, created_s, duration_s),
        st.sampled_from([0, 250, 400, 1000, 2000]),
        st.integers(0, 30),
        st.integers(0, 12),
    ),
    min_size=1,
    max_size=40,
)


@settings(max_examples=40)
@given(rows=tasks)
def test_what_was_asked_for_is_served_and_no_gpu_twice(
    rows: list[tuple[int, int, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """GPU-seconds served are durations times GPUs; at no moment is a GPU given to more than it has."""
    fleet = trace_of_rows(
        tmp_path_factory.mktemp("fleet"), ("n1,64000,9,2,T4", "n2,64000,9,2,T4"), "", "x,1,1,0,0"
    )
    listed = [
        TaskRecord(
            f"t{number}",
            shape(min(milli, 1000), 0 if milli == 0 else max(1, milli // 1000)),
            created_s * SECOND,
            duration_s * SECOND,
        )
        for number, (milli, created_s, duration_s) in enumerate(rows)
    ]
    play = played(Trace(fleet.nodes, tuple(listed), timed=True))
    asked = sum(one.shape.gpu.total_milli * (one.duration_us or 0) for one in listed)
    result = play.result()
    served = result.mean_gpu_alloc_pct / 100 * result.makespan_s * 4 * 1000 * SECOND
    assert served == pytest.approx(asked, rel=1e-4, abs=0.0001 * result.makespan_s * 4000 * SECOND)
    assert play.queue_length.now == play.used_milli.now == 0
    ends = {one.name: one.duration_us or 0 for one in listed}
    for now in play.placements:
        assert now.at_us >= next(one.created_at_us for one in listed if one.name == now.pod)
        for device in now.devices:
            held = sum(
                other.gpu_milli
                for other in play.placements
                if device in other.devices and other.at_us <= now.at_us < other.at_us + ends[other.pod]
            )
            assert held <= 1000


@given(
    jumps=st.lists(st.tuples(st.integers(0, 60), st.integers(-5, 5))),
    start=st.integers(0, 30),
    length=st.integers(1, 60),
    points=st.integers(1, 12),
)
def test_means_over_intervals_are_those_of_a_sum_over_every_moment(
    jumps: list[tuple[int, int]], start: int, length: int, points: int
) -> None:
    """Compared with adding up every microsecond, in as many parts as make whole microseconds."""
    series = StepSeries()
    for at_us, change in sorted(jumps):
        series.add(at_us, change)
    value_at = [
        sum(change for at_us, change in jumps if at_us <= moment) for moment in range(start, start + length)
    ]
    slow = [
        sum(value_at[part // points] for part in range(point * length, (point + 1) * length)) / length
        for point in range(points)
    ]
    end = max(start + length, max((at_us for at_us, _ in jumps), default=0))
    if end == start + length:
        assert series.means(start, end, points) == pytest.approx(slow)


@pytest.mark.parametrize(
    ("percent", "expected"), [(50, 20.0), (90, 40.0), (99, 40.0), (25, 10.0), (26, 20.0)]
)
def test_percentiles_are_by_nearest_rank(percent: int, expected: float) -> None:
    assert nearest_rank([10.0, 20.0, 30.0, 40.0], percent) == expected


def test_waits_of_nobody_are_unknown() -> None:
    waits = waits_of([], 3)
    assert (waits.started, waits.never_started, waits.mean_s, waits.max_s) == (0, 3, None, None)


def test_default_list_withdraws_what_it_never_started() -> None:
    tasks = read_trace(shipped_node_list(), shipped_task_list()).tasks
    assert sum(task.withdrawn_at_us is not None for task in tasks) == 897
    assert all((task.withdrawn_at_us is None) != (task.duration_us is None) for task in tasks)
