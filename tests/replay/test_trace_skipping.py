"""Bad rows: shown together, or left out up to a stated share and reported."""

from pathlib import Path

import pytest

from gpufleet.model.model_errors import InputError
from gpufleet.replay.replay_errors import BadRowsError, TraceError
from gpufleet.replay.results import SkippedRow
from gpufleet.replay.trace import read_trace
from gpufleet.replay.trace_nodes import read_nodes
from gpufleet.replay.trace_tasks import TaskList, read_tasks
from tests.replay.trace_files import MODELS, NODE_HEADER, TASK_HEADER, table

GANG_HEADER = TASK_HEADER + ",gang,gang_min_members"
GOOD = [f"good-{number},4000,8192,1,500" for number in range(8)]
BAD = ["bad-1,4000,8192,1,1001", "bad-2,1e3,8192,1,500"]


def read(path: Path, skip_bad_rows_pct: float) -> TaskList:
    return read_tasks(path, MODELS, skip_bad_rows_pct=skip_bad_rows_pct)


def test_share_of_bad_rows_is_left_out_and_each_reported(tmp_path: Path) -> None:
    path = table(tmp_path, BAD[0], *GOOD, BAD[1])
    tasks = read(path, 20)
    assert [task.name for task in tasks.tasks] == [row.split(",")[0] for row in GOOD]
    milli, cpu = "a whole number from 0 to 1,000", "a whole number from 0 to 1,000,000,000"
    assert tasks.skipped == (
        SkippedRow(str(path), 2, f"gpu_milli: too large, found '1001'; expected {milli}"),
        SkippedRow(str(path), 11, f"cpu_milli: a number with an exponent, found '1e3'; expected {cpu}"),
    )


def test_more_than_the_share_is_an_error_with_count_and_share(tmp_path: Path) -> None:
    with pytest.raises(BadRowsError) as caught:
        read(table(tmp_path, *BAD, *GOOD), 19.9)
    assert "2 rows are bad (20%), more than the 19.9% that may be skipped" in str(caught.value)
    assert [row for row, _ in caught.value.shown] == [2, 3]


def test_long_list_of_bad_rows_shows_the_first_ten_and_the_count(tmp_path: Path) -> None:
    rows = [f"bad-{number},1e3,8192,1,500" for number in range(400)]
    with pytest.raises(BadRowsError) as caught:
        read(table(tmp_path, *GOOD, *rows), 50)
    assert "400 rows are bad (98%)" in str(caught.value)
    assert [row for row, _ in caught.value.shown] == list(range(10, 20))
    assert len(str(caught.value).splitlines()) == 11


def test_a_row_counts_with_all_lines_it_runs_over(tmp_path: Path) -> None:
    swallowed = '"' + "\n".join(GOOD) + '",4000,8192,1,500'
    path = table(tmp_path, swallowed, *(f"other-{number},1,1,0,0" for number in range(8)))
    with pytest.raises(TraceError, match=r"\(50%\)"):
        read(path, 25)


def test_wrong_number_of_cells_may_be_skipped(tmp_path: Path) -> None:
    tasks = read(table(tmp_path, "a,1", *GOOD), 20)
    assert tasks.skipped[0].row == 2
    assert "has 2 cells" in tasks.skipped[0].problem


def test_what_is_not_csv_is_never_skipped(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="not valid CSV"):
        read(table(tmp_path, '"a"b,1,1,0,0', *GOOD), 100)


def test_nothing_left_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="every row is bad"):
        read(table(tmp_path, *BAD), 100)
    with pytest.raises(TraceError, match="every row is bad"):
        read_nodes(table(tmp_path, "n1,1,1,1e3,T4", header=NODE_HEADER), skip_bad_rows_pct=100)


@pytest.mark.parametrize("share", [-1, 100.5, float("nan"), float("inf")])
def test_share_is_a_percentage(tmp_path: Path, share: float) -> None:
    with pytest.raises(InputError, match="skip_bad_rows_pct"):
        read(table(tmp_path, *GOOD), share)


def test_gang_that_lost_a_member_is_left_out_whole(tmp_path: Path) -> None:
    rows = ["a,1,1,0,0,g,", "b,1,1,0,5,g,", "c,1,1,0,0,g,", "d,1,1,0,0,,", "e,1,1,0,0,h,2", "f,1,1,0,0,h,2"]
    tasks = read(table(tmp_path, *rows, header=GANG_HEADER), 50)
    assert [task.name for task in tasks.tasks] == ["d", "e", "f"]
    assert [(gang.name, gang.min_members) for gang in tasks.gangs] == [("h", 2)]
    assert [skipped.row for skipped in tasks.skipped] == [2, 3, 4]
    assert "with its gang, of which row 3 is bad" in tasks.skipped[0].problem


def test_gang_that_is_too_small_is_left_out_whole(tmp_path: Path) -> None:
    rows = ["a,1,1,0,0,g,3", "b,1,1,0,0,g,3", "c,1,1,0,0,,"]
    tasks = read(table(tmp_path, *rows, header=GANG_HEADER), 70)
    assert [task.name for task in tasks.tasks] == ["c"]
    assert "only 2 members" in tasks.skipped[0].problem
    assert not tasks.gangs


def test_gang_takes_all_members_and_the_earliest_time_by_default(tmp_path: Path) -> None:
    header = TASK_HEADER + ",creation_time,gang,priority,queue"
    rows = ["a,1,1,0,0,7,g,3,red", "b,1,1,0,0,5,g,3,red", "c,1,1,0,0,9,g,3,red"]
    gang = read(table(tmp_path, *rows, header=header), 0).gangs[0]
    assert (gang.name, gang.min_members, gang.queue, gang.priority) == ("g", 3, "red", 3)
    assert gang.created_at_us == 5_000_000


def test_trace_joins_both_lists_and_their_notes(tmp_path: Path) -> None:
    nodes = table(
        tmp_path, "n1,1,1,1,T4,x", "n2,1,1,-1,T4,x", header=NODE_HEADER + ",colour", name="nodes.csv"
    )
    tasks = table(tmp_path, *GOOD, BAD[0], header=TASK_HEADER, name="tasks.csv")
    trace = read_trace(nodes, tasks, skip_bad_rows_pct=50)
    assert [(Path(skipped.file).name, skipped.row) for skipped in trace.skipped] == [
        ("nodes.csv", 3),
        ("tasks.csv", 10),
    ]
    assert trace.notes == (f"{nodes}: column 'colour' is not known and was left out",)
    assert not trace.timed
