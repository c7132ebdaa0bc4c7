"""The published protocol of arrivals, on lists that are small enough to be checked by hand.

``test_published_arrivals`` compares whole orders with those of the published runs.
"""

from pathlib import Path

import pytest

from gpufleet.replay.arrivals import ArrivalUnit, gpu_capacity_milli, saturating, source_of, units_of
from tests.replay.small_traces import FLEET, task, trace_of_rows

LISTED = [
    ArrivalUnit((task("b", 1000),)),
    ArrivalUnit((task("a", 300),)),
    ArrivalUnit((task("d", 1000, 4),)),
    ArrivalUnit((task("c", 0, 0),)),
]
ASKED_MILLI = 5300


def names(units: list[ArrivalUnit]) -> list[str]:
    return [one.name for unit in units for one in unit.tasks]


def test_every_task_arrives_once_before_the_first_clone() -> None:
    arrivals = saturating(LISTED, 10_000, 1.3, source_of(42))
    assert sorted(names(arrivals)[:4]) == ["a", "b", "c", "d"]
    assert all("+" in name for name in names(arrivals)[4:])


def test_the_same_seed_gives_the_same_order_and_another_gives_another() -> None:
    listed = [ArrivalUnit((task(f"t{number}"),)) for number in range(50)]
    first, again, other = (saturating(listed, 65_000, 1.0, source_of(seed)) for seed in (7, 7, 8))
    assert names(first) == names(again)
    assert names(first) != names(other)


def test_the_order_of_the_file_plays_no_part_in_a_shuffle() -> None:
    upside_down = list(reversed(LISTED))
    assert names(saturating(upside_down, 10_000, 1.3, source_of(1))) == names(
        saturating(LISTED, 10_000, 1.3, source_of(1))
    )


def test_submitted_order_is_the_files_with_clones_behind() -> None:
    arrivals = saturating(LISTED, 10_000, 1.0, source_of(42), shuffled=False)
    assert names(arrivals)[:4] == ["b", "a", "d", "c"]
    assert len(arrivals) > 4


@pytest.mark.parametrize("seed", range(30))
def test_clones_end_at_the_first_draw_whose_part_of_one_gpu_would_pass_the_target(seed: int) -> None:
    """A draw of 4 whole GPUs counts as 1,000 milli there, so the sum may pass the target by 3,000."""
    target_milli = 10_000
    arrivals = saturating(LISTED, target_milli, 1.0, source_of(seed))
    asked_milli = sum(unit.gpu_milli for unit in arrivals)
    assert target_milli - 1000 < asked_milli <= target_milli + 3000
    before_last = asked_milli - arrivals[-1].gpu_milli
    assert before_last + arrivals[-1].largest_device_milli <= target_milli


def test_a_target_that_is_met_exactly_is_not_passed() -> None:
    one = [ArrivalUnit((task("a", 500),))]
    assert names(saturating(one, 1000, 2.0, source_of(3))) == ["a", "a+1", "a+2", "a+3"]


@pytest.mark.parametrize("seed", range(10))
def test_a_list_that_asks_for_more_loses_tasks_and_gains_no_clones(seed: int) -> None:
    arrivals = saturating(LISTED, 4300, 1.0, source_of(seed))
    assert sum(unit.gpu_milli for unit in arrivals) <= 4300
    assert len(arrivals) < len(LISTED)
    assert not [name for name in names(arrivals) if "+" in name]


def test_so_small_a_load_leaves_nothing() -> None:
    assert saturating([ArrivalUnit((task("a"),))], 1000, 0.5, source_of(1)) == []


def test_a_list_without_gpus_is_not_cloned_for_ever() -> None:
    assert names(saturating([ArrivalUnit((task("c", 0, 0),))], 1000, 1.3, source_of(1))) == ["c"]


def test_clones_have_names_that_no_task_has() -> None:
    units = [ArrivalUnit((task("a"),)), ArrivalUnit((task("a+1"),)), ArrivalUnit((task("a+2"),))]
    arrivals = saturating(units, 20_000, 1.0, source_of(5))
    assert len(arrivals) == 20
    assert len(set(names(arrivals))) == 20


def test_a_gang_arrives_at_once_and_is_cloned_whole(tmp_path: Path) -> None:
    rows = ("g0,1,1,1,1000,g", "solo,1,1,1,1000,", "g1,1,1,1,1000,g")
    units = units_of(trace_of_rows(tmp_path, FLEET, "gang", *rows))
    assert [names([unit]) for unit in units] == [["g0", "g1"], ["solo"]]
    arrivals = saturating(units, 30_000, 1.0, source_of(1))
    gangs = [unit.gang for unit in arrivals if unit.gang is not None]
    assert len({gang.name for gang in gangs}) == len(gangs) > 1
    for unit in arrivals:
        assert all(one.gang == (unit.gang and unit.gang.name) for one in unit.tasks)
        assert unit.gang is None or unit.gang.min_members == len(unit.tasks) == 2


def test_capacity_counts_gpus_only(tmp_path: Path) -> None:
    trace = trace_of_rows(tmp_path, (*FLEET, "cpu,1,1,0,"), "", "a,1,1,0,0")
    assert gpu_capacity_milli(trace.nodes) == 15_000
