"""Parquet lists: the same rows as CSV, whatever wrote them, and refused where types have no one reading."""

import gzip
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gpufleet.replay.replay_errors import TraceError
from gpufleet.replay.table_bytes import TableLimits
from gpufleet.replay.trace import read_trace
from gpufleet.replay.trace_nodes import read_nodes
from gpufleet.replay.trace_tasks import read_tasks
from tests.replay.trace_files import MODELS, flat_task

TASKS: dict[str, Any] = {
    "name": ["a", "b"],
    "cpu_milli": [4000, 8000],
    "memory_mib": [8192, 16384],
    "num_gpu": [1, 2],
    "gpu_milli": [500, 1000],
    "gpu_spec": ["T4|P100", None],
    "creation_time": [1, 2],
    "duration_s": [1.5, None],
}


def parquet(folder: Path, file: str = "list.parquet", /, **changed: Any) -> Path:
    path = folder / file
    columns = {key: value for key, value in (TASKS | changed).items() if value is not None}
    pq.write_table(pa.table(columns), path)
    return path


def refusal(path: Path, limits: TableLimits | None = None) -> TraceError:
    with pytest.raises(TraceError) as caught:
        read_tasks(path, MODELS, limits=limits or TableLimits())
    return caught.value


def check(path: Path) -> None:
    first, second = (flat_task(task) for task in read_tasks(path, MODELS).tasks)
    assert (first["name"], first["cpu_milli"], first["models"]) == ("a", 4000, ["P100", "T4"])
    assert (first["created_at_us"], first["duration_us"]) == (1_000_000, 1_500_000)
    assert (second["num_gpu"], second["gpu_milli"], second["models"]) == (2, 1000, [])
    assert (second["created_at_us"], second["duration_us"]) == (2_000_000, None)


def test_parquet_gives_the_rows_of_csv(tmp_path: Path) -> None:
    check(parquet(tmp_path))


def test_parquet_called_csv_is_parquet(tmp_path: Path) -> None:
    check(parquet(tmp_path, "list.csv"))


def test_gzipped_parquet_is_unpacked(tmp_path: Path) -> None:
    packed = tmp_path / "list.parquet.gz"
    packed.write_bytes(gzip.compress(parquet(tmp_path).read_bytes()))
    check(packed)


@pytest.mark.parametrize(
    "changed",
    [
        {"cpu_milli": pa.array([4000.0, 8000.0])},
        {"cpu_milli": pa.array(["4000", "8000"])},
        {"cpu_milli": pa.array([4000, 8000], pa.uint16()), "gpu_milli": pa.array([500, 1000], pa.float32())},
        {"name": pa.array(["a", "b"], pa.large_string())},
        {"name": pa.array(["a", "b"], pa.string_view())},
        {"gpu_spec": pa.array(["T4|P100", None]).dictionary_encode()},
        {"gpu_memory_mib": pa.nulls(2)},
        {"colour": pa.array([True, False])},
    ],
    ids=["float", "text", "small", "large", "view", "dictionary", "null", "unknown"],
)
def test_numbers_and_text_may_be_stored_in_any_way(tmp_path: Path, changed: dict[str, Any]) -> None:
    check(parquet(tmp_path, **changed))


@pytest.mark.parametrize(
    ("column", "values", "words"),
    [
        ("cpu_milli", pa.array([True, False]), "the column holds bool"),
        ("creation_time", pa.array([1, 2], pa.timestamp("ms")), "the column holds timestamp[ms]"),
        ("duration_s", pa.array([1, 2], pa.duration("s")), "the column holds duration[s]"),
        ("gpu_spec", pa.array([["T4"], ["P100"]]), "the column holds list"),
        ("name", pa.array([b"a", b"b"]), "the column holds binary"),
    ],
)
def test_types_without_one_reading_are_refused(tmp_path: Path, column: str, values: Any, words: str) -> None:
    error = refusal(parquet(tmp_path, **{column: values}))
    assert words in str(error)
    assert "expected numbers or text" in str(error)
    assert error.column == column


@pytest.mark.parametrize(
    ("column", "values", "words"),
    [
        ("cpu_milli", [4000, None], "is empty"),
        ("cpu_milli", [4000, -1], "below 0"),
        ("cpu_milli", [4000.0, 0.5], "not a whole number"),
        ("cpu_milli", [4000.0, float("nan")], "not a finite number"),
        ("cpu_milli", [4000.0, 1e300], "a number with an exponent"),
        ("name", ["a", "b\nc"], "control or invisible character"),
        ("name", ["a", "b\0"], "control or invisible character"),
        ("name", ["a", "a"], "already in row 1"),
        ("creation_time", [1.0, 0.1 + 0.2], "more than 6 decimals"),
    ],
)
def test_values_are_held_to_the_rules_of_csv(tmp_path: Path, column: str, values: Any, words: str) -> None:
    error = refusal(parquet(tmp_path, **{column: values}))
    assert words in str(error)
    assert (error.row, error.column) == (2, column)


def test_missing_column_is_named(tmp_path: Path) -> None:
    error = refusal(parquet(tmp_path, memory_mib=None))
    assert "column missing: memory_mib" in str(error)
    assert error.row is None


def test_sizes_are_bounded_before_reading(tmp_path: Path) -> None:
    path = parquet(tmp_path)
    assert "more than 1 rows" in str(refusal(path, TableLimits(rows=1)))
    assert "more than 3 columns" in str(refusal(path, TableLimits(columns=3)))
    assert "more than 100 bytes, unpacked" in str(refusal(path, TableLimits(total_bytes=100)))
    long = parquet(tmp_path, gpu_spec=["T4", "b" * 1000])
    assert "a cell is longer than 100 characters" in str(refusal(long, TableLimits(cell_characters=100)))


def test_nodes_may_be_parquet_too(tmp_path: Path) -> None:
    nodes = tmp_path / "nodes.parquet"
    columns = {"sn": ["n1"], "cpu_milli": [1], "memory_mib": [1], "gpu": [2], "model": ["T4"]}
    pq.write_table(pa.table(columns), nodes)
    assert len(read_nodes(nodes).nodes[0].devices) == 2
    tasks = parquet(tmp_path, gpu_spec=["T4", None])
    assert len(read_trace(nodes, tasks).tasks) == 2


def test_empty_parquet_has_no_rows(tmp_path: Path) -> None:
    path = tmp_path / "empty.parquet"
    pq.write_table(pa.table({key: pa.array([], pa.int64()) for key in TASKS}), path)
    assert "a header but no rows" in str(refusal(path))
