"""The page about trace files says what the reader does: columns, defaults, limits and its own example."""

import re
from pathlib import Path

import pytest

from gpufleet.replay.replay_errors import BadRowsError
from gpufleet.replay.table_bytes import TableLimits
from gpufleet.replay.trace import Trace, read_trace
from gpufleet.replay.trace_nodes import DEFAULT_MAX_PODS, NODE_COLUMNS, NODE_LIMITS
from gpufleet.replay.trace_tasks import TASK_COLUMNS, read_tasks
from tests.replay.trace_files import MODELS, ROOT, TASK_HEADER, table

PAGE = (ROOT / "docs" / "trace-files.md").read_text(encoding="utf-8")
NODE_PART, TASK_PART = PAGE.split("## Task columns")[0], PAGE.split("## Task columns")[1]


def documented(part: str) -> set[str]:
    first_cells = re.findall(r"^\| (`.*?) \|", part, flags=re.MULTILINE)
    return {name for cell in first_cells for name in re.findall(r"`(\w+)`", cell)}


def example(folder: Path) -> Trace:
    nodes, tasks = re.findall(r"^```csv\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)
    (folder / "nodes.csv").write_text(nodes, encoding="utf-8")
    (folder / "tasks.csv").write_text(tasks, encoding="utf-8")
    return read_trace(folder / "nodes.csv", folder / "tasks.csv")


def test_every_column_is_documented_and_no_other() -> None:
    assert documented(NODE_PART) == {column.name for column in NODE_COLUMNS}
    assert documented(TASK_PART) == {column.name for column in TASK_COLUMNS}


def test_required_columns_are_said_to_be_required() -> None:
    for part, columns in ((NODE_PART, NODE_COLUMNS), (TASK_PART, TASK_COLUMNS)):
        required = re.findall(r"^\| `(\w+)` \|[^\n]*\| required \|", part, flags=re.MULTILINE)
        assert required == [column.name for column in columns if column.required]


def test_limits_and_defaults_are_the_real_ones() -> None:
    limits = TableLimits()
    for number in (limits.cell_characters, limits.columns, limits.rows, NODE_LIMITS.rows):
        assert f"{number:,}" in PAGE
    assert f"`{DEFAULT_MAX_PODS}`" in PAGE
    assert f"{limits.inflation} times" in PAGE
    assert (limits.row_bytes, limits.total_bytes) == (2**20, 16 * 2**30)


def test_the_example_is_read_as_the_page_says(tmp_path: Path) -> None:
    trace = example(tmp_path)
    assert [len(node.devices) for node in trace.nodes] == [2, 4]
    assert [device.link_group for device in trace.nodes[1].devices] == [0, 0, 1, 1]
    assert [(gang.name, gang.min_members) for gang in trace.gangs] == [("train", 2)]
    assert [task.duration_us for task in trace.tasks] == [3_600_000_000, None, None, 120_250_000]
    assert trace.tasks[1].shape is trace.tasks[2].shape
    assert trace.timed
    assert not trace.notes


def test_the_error_shown_is_the_real_one(tmp_path: Path) -> None:
    good = [f"t{number},1,1,0,0" for number in range(5)]
    path = table(tmp_path, good[0], "a,1,1,2,500", *good[1:4], "b,1e3,1,0,0", header=TASK_HEADER)
    with pytest.raises(BadRowsError) as caught:
        read_tasks(path, MODELS)
    message = str(caught.value).replace(str(path), "tasks.csv")
    assert f"```text\n{message}\n```" in PAGE
