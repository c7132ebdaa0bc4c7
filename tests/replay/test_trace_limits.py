"""Hostile sizes: lines, cells, gzips and row counts made to exhaust a machine (input 59).

They are made here rather than stored, and memory is measured: what is refused must be refused
before it has been read.
"""

import gzip
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpufleet.replay.replay_errors import TraceError
from gpufleet.replay.table_bytes import MEBIBYTE, TableLimits
from gpufleet.replay.trace_nodes import read_nodes
from gpufleet.replay.trace_table import open_table
from gpufleet.replay.trace_tasks import TASK_COLUMNS, read_tasks
from tests.replay.trace_files import MODELS, NODE_HEADER, TASK_HEADER, table

HUNDRED_MEGABYTES = 100_000_000
ROWS_STREAMED = 60_000


def peak_bytes(work: Callable[[], object]) -> int:
    """The most memory that Python held while ``work`` ran, above what it held before."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        work()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


def refusal(path: Path, limits: TableLimits | None = None) -> TraceError:
    with pytest.raises(TraceError) as caught:
        read_tasks(path, MODELS, limits=limits or TableLimits())
    return caught.value


def test_line_of_a_hundred_megabytes_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "long.csv"
    path.write_bytes(TASK_HEADER.encode() + b"\n" + b"a" * HUNDRED_MEGABYTES)
    error: list[TraceError] = []
    assert peak_bytes(lambda: error.append(refusal(path))) < 8 * MEBIBYTE
    assert "a row is longer than 1,048,576 bytes" in str(error[0])
    assert error[0].row == 2


def test_header_of_a_hundred_megabytes_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "long.csv"
    path.write_bytes(b"a," * (HUNDRED_MEGABYTES // 2))
    assert "a row is longer than 1,048,576 bytes" in str(refusal(path))


def test_record_over_many_lines_counts_as_one_row(tmp_path: Path) -> None:
    path = table(tmp_path, *['"', *["x" * 50] * 30_000])
    assert "a cell is longer than 65,536 characters" in str(refusal(path))


@pytest.mark.parametrize("cell", ["a" * 70_000, '"' + "a" * 70_000 + '"', '"' + "a\n" * 70_000 + '"'])
def test_long_cell_is_refused(tmp_path: Path, cell: str) -> None:
    error = refusal(table(tmp_path, "a,1,1,0,0,x", f"b,1,1,0,0,{cell}", header=TASK_HEADER + ",comment"))
    assert "a cell is longer than 65,536 characters" in str(error)
    assert error.row == 3


def test_many_columns_are_refused(tmp_path: Path) -> None:
    path = table(tmp_path, header=",".join(f"c{number}" for number in range(1001)))
    assert "more than 1,000 columns" in str(refusal(path))


def test_many_unknown_columns_give_a_bounded_number_of_notes(tmp_path: Path) -> None:
    extra = [f"x{number}" for number in range(500)]
    path = table(tmp_path, "a,1,1,0,0" + "," * 500, header=",".join([TASK_HEADER, *extra]))
    notes = read_tasks(path, MODELS).notes
    assert len(notes) == 21
    assert "480 more unknown columns" in notes[-1]


@pytest.mark.parametrize("filling", [b"a,1,1,0,0\n", b"0", b"\0"], ids=["rows", "digits", "nul"])
def test_gzip_bomb_is_stopped_early(tmp_path: Path, filling: bytes) -> None:
    path = tmp_path / "bomb.csv.gz"
    packer = zlib.compressobj(9, wbits=31)
    with path.open("wb") as file:
        file.write(packer.compress(TASK_HEADER.encode() + b"\n"))
        for _ in range(64):
            file.write(packer.compress(filling * (MEBIBYTE // len(filling))))
        file.write(packer.flush())
    assert peak_bytes(lambda: refusal(path)) < 16 * MEBIBYTE


def test_gzip_that_unfolds_too_far_names_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "bomb.csv.gz"
    path.write_bytes(gzip.compress(TASK_HEADER.encode() + b"\n" * 4 * MEBIBYTE))
    assert "unfolds to more than 300 times its size" in str(refusal(path))


def test_table_may_be_only_so_large_unpacked(tmp_path: Path) -> None:
    path = table(tmp_path, *(f"task-{number},1,1,0,0" for number in range(20_000)))
    assert "larger than 100,000 bytes" in str(refusal(path, TableLimits(total_bytes=100_000)))


def test_rows_are_limited_blank_lines_too(tmp_path: Path) -> None:
    limits = TableLimits(rows=1000)
    path = table(tmp_path, *(f"task-{number},1,1,0,0" for number in range(1000)))
    assert "has more than 1,000 rows" in str(refusal(path, limits))
    assert "has more than 1,000 rows" in str(refusal(table(tmp_path, *[""] * 1000), limits))


def test_gpus_of_a_node_list_are_limited(tmp_path: Path) -> None:
    rows = [f"n{number},1,1,256,T4" for number in range(3907)]
    with pytest.raises(TraceError, match="has more than 1,000,000 GPUs") as caught:
        read_nodes(table(tmp_path, *rows, header=NODE_HEADER))
    assert caught.value.row == 3908


def test_rows_stream_without_piling_up(tmp_path: Path) -> None:
    path = tmp_path / "many.csv"
    with path.open("w", encoding="utf-8") as file:
        file.write(TASK_HEADER + "\n")
        file.writelines(f"task-{number},4000,8192,1,500\n" for number in range(ROWS_STREAMED))

    def rows() -> Iterator[int]:
        with open_table(path, TASK_COLUMNS, limits=TableLimits()) as opened:
            for row, _, _ in opened.rows:
                yield row

    assert peak_bytes(lambda: sum(rows())) < MEBIBYTE


def test_a_task_takes_a_bounded_amount_of_memory(tmp_path: Path) -> None:
    path = table(tmp_path, *(f"task-{number},4000,8192,1,500" for number in range(ROWS_STREAMED)))
    kept = []
    assert peak_bytes(lambda: kept.append(read_tasks(path, MODELS))) / ROWS_STREAMED < 600
    assert len(kept[0].tasks) == ROWS_STREAMED
