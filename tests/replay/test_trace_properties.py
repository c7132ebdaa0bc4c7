"""What holds of any list: what is written is read back, and no damage shows as anything but TraceError."""

import contextlib
import csv
import gzip
import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpufleet.replay.csv_export import seconds_text
from gpufleet.replay.replay_errors import TraceError
from gpufleet.replay.trace_nodes import NODE_COLUMNS, read_nodes
from gpufleet.replay.trace_tasks import TASK_COLUMNS, read_tasks
from tests.replay.trace_files import MODELS, flat_node, flat_task

one_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])

names = st.text(min_size=1, max_size=20).filter(lambda text: text.isprintable() and text == text.strip())
label_words = st.from_regex(r"[a-z]([a-z0-9.-]{0,8}[a-z0-9])?", fullmatch=True)
labels = st.dictionaries(label_words, label_words | st.just(""), max_size=3)
effects = st.sampled_from(["NoSchedule", "PreferNoSchedule", "NoExecute"])
times_us = st.integers(0, 10**15)
optional_times_us = st.none() | times_us
memories_mib = st.integers(0, 2**30)


@st.composite
def gpu_requests(draw: st.DrawFn) -> dict[str, Any]:
    count = draw(st.integers(0, 8))
    if count == 0:
        return {"num_gpu": 0, "gpu_milli": 0, "gpu_memory_mib": None, "models": []}
    milli = 1000 if count > 1 else draw(st.integers(0, 1000))
    memory = draw(st.integers(1, 2**20)) if milli == 0 else None
    models = sorted(draw(st.sets(st.sampled_from(MODELS))))
    return {"num_gpu": count, "gpu_milli": milli, "gpu_memory_mib": memory, "models": models}


@st.composite
def tasks(draw: st.DrawFn) -> dict[str, Any]:
    tolerations = [
        [key, "Equal", "", effect] for key, effect in draw(st.dictionaries(label_words, effects)).items()
    ]
    return draw(gpu_requests()) | {
        "name": draw(names),
        "cpu_milli": draw(st.integers(0, 10**9)),
        "memory_mib": draw(memories_mib),
        "node_selector": [list(pair) for pair in sorted(draw(labels).items())],
        "tolerations": tolerations,
        "created_at_us": draw(times_us),
        "duration_us": draw(optional_times_us),
        "priority": draw(st.integers(-(2**31), 2**31 - 1)),
        "queue": draw(names),
    }


@st.composite
def nodes(draw: st.DrawFn) -> dict[str, Any]:
    gpus = draw(st.integers(0, 8))
    numbers = st.lists(st.integers(0, 7), min_size=gpus, max_size=gpus)
    taints = [
        f"{key}={value}:{effect}"
        for key, value, effect in draw(st.lists(st.tuples(label_words, label_words, effects), max_size=3))
    ]
    return {
        "name": draw(names),
        "cpu_milli": draw(st.integers(0, 10**9)),
        "memory_mib": draw(memories_mib),
        "max_pods": draw(st.integers(0, 10**6)),
        "gpus": gpus,
        "model": draw(st.sampled_from(MODELS)) if gpus else None,
        "gpu_memory_mib": draw(st.integers(1, 2**20)) if gpus else None,
        "link_groups": draw(numbers),
        "numa_nodes": draw(numbers),
        "labels": draw(labels),
        "taints": taints,
    }


def task_cells(task: dict[str, Any]) -> dict[str, Any]:
    return {
        column: task[column] for column in ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
    } | {
        "gpu_memory_mib": "" if task["gpu_memory_mib"] is None else task["gpu_memory_mib"],
        "gpu_spec": "|".join(task["models"]),
        "node_selector": pairs_text(task["node_selector"]),
        "tolerations": ";".join(f"{key}=:{effect}" for key, _, _, effect in task["tolerations"]),
        "creation_time": seconds_text(task["created_at_us"]),
        "duration_s": "" if task["duration_us"] is None else seconds_text(task["duration_us"]),
        "priority": task["priority"],
        "queue": task["queue"],
    }


def node_cells(node: dict[str, Any]) -> dict[str, Any]:
    return {column: node[column] for column in ("name", "cpu_milli", "memory_mib", "max_pods")} | {
        "gpu": node["gpus"],
        "model": node["model"] or "",
        "gpu_memory_mib": node["gpu_memory_mib"] or "",
        "link_groups": ";".join(map(str, node["link_groups"])),
        "numa_nodes": ";".join(map(str, node["numa_nodes"])),
        "labels": pairs_text(node["labels"].items()),
        "taints": ";".join(node["taints"]),
    }


def pairs_text(pairs: Any) -> str:
    return ";".join(f"{key}={value}" for key, value in pairs)


def written(path: Path, rows: list[dict[str, Any]], columns: list[str]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(rows)
    return path


@one_folder
@given(rows=st.lists(tasks(), min_size=1, max_size=5, unique_by=lambda task: task["name"]), data=st.data())
def test_tasks_are_read_back_as_written(
    tmp_path: Path, rows: list[dict[str, Any]], data: st.DataObject
) -> None:
    columns = data.draw(st.permutations(list(task_cells(rows[0]))))
    path = written(tmp_path / "tasks.csv", [task_cells(row) for row in rows], columns)
    read = [flat_task(task) for task in read_tasks(path, MODELS).tasks]
    assert read == [row | {"gang": None} for row in rows]


@one_folder
@given(rows=st.lists(nodes(), min_size=1, max_size=5, unique_by=lambda node: node["name"]), data=st.data())
def test_nodes_are_read_back_as_written(
    tmp_path: Path, rows: list[dict[str, Any]], data: st.DataObject
) -> None:
    columns = data.draw(st.permutations(list(node_cells(rows[0]))))
    path = written(tmp_path / "nodes.csv", [node_cells(row) for row in rows], columns)
    assert [flat_node(node) for node in read_nodes(path).nodes] == rows


GOOD_TASKS = (
    b"name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time,duration_s,gang,gang_min_members\n"
    b'a,4000,8192,1,500,T4|P100,0,1.5,,\n"b",8000,16384,2,1000,,7,,g,1\nc,0,0,0,0,,9,,,\n'
)
GOOD_NODES = (
    b"sn,cpu_milli,memory_mib,gpu,model,labels,taints,link_groups\n"
    b"n1,96000,393216,2,T4,zone=a,gpu=true:NoSchedule,0;1\nn2,32000,65536,0,,,,\n"
)
edits = st.lists(
    st.tuples(
        st.integers(0, 2000),
        st.integers(0, 4),
        st.binary(max_size=4)
        | st.sampled_from([b'"', b",", b"\n", b"\r", b"\0", b";", b"\xff", b"99999999"]),
    ),
    min_size=1,
    max_size=5,
)


def edited(content: bytes, changes: list[tuple[int, int, bytes]]) -> bytes:
    for place, removed, added in changes:
        position = place % (len(content) + 1)
        content = content[:position] + added + content[position + removed :]
    return content


def parquet_bytes() -> bytes:
    table = pa.table(
        {
            "name": ["a", "b"],
            "cpu_milli": [1, 2],
            "memory_mib": [1, 2],
            "num_gpu": [0, 1],
            "gpu_milli": [0, 9],
        }
    )
    file = io.BytesIO()
    pq.write_table(table, file)
    return file.getvalue()


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (GOOD_TASKS, "pods"),
        (GOOD_NODES, "nodes"),
        (gzip.compress(GOOD_TASKS, mtime=0), "pods"),
        (parquet_bytes(), "pods"),
    ],
    ids=["tasks", "nodes", "gzip", "parquet"],
)
@one_folder
@given(changes=edits, share=st.sampled_from([0.0, 50.0, 100.0]))
def test_damage_is_refused_or_harmless_and_never_a_crash(
    tmp_path: Path, content: bytes, kind: str, changes: list[tuple[int, int, bytes]], share: float
) -> None:
    path = tmp_path / "damaged"
    path.write_bytes(edited(content, changes))
    # Any other exception fails the test.
    with contextlib.suppress(TraceError):
        if kind == "nodes":
            assert read_nodes(path, skip_bad_rows_pct=share).nodes
        else:
            assert read_tasks(path, MODELS, skip_bad_rows_pct=share).tasks


def test_the_round_trip_covers_every_column() -> None:
    task: dict[str, Any] = {
        "name": "",
        "cpu_milli": 0,
        "memory_mib": 0,
        "num_gpu": 0,
        "gpu_milli": 0,
        "gpu_memory_mib": None,
        "models": [],
        "node_selector": [],
        "tolerations": [],
        "created_at_us": 0,
        "duration_us": None,
        "priority": 0,
        "queue": "",
    }
    elsewhere = {"gang", "gang_min_members", "scheduled_time", "deletion_time"}
    assert set(task_cells(task)) | elsewhere == {column.name for column in TASK_COLUMNS if not column.unused}
    node_columns = {column.alias or column.name for column in NODE_COLUMNS}
    node: dict[str, Any] = dict.fromkeys(
        ("name", "cpu_milli", "memory_mib", "max_pods", "gpus", "model", "gpu_memory_mib")
    )
    node |= {"link_groups": [], "numa_nodes": [], "labels": {}, "taints": []}
    assert set(node_cells(node)) == node_columns
