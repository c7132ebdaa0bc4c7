"""The public openb trace, read and counted: the ground that every published figure stands on."""

from collections import Counter
from itertools import pairwise

import pytest

from gpufleet.model.model_errors import InputError
from gpufleet.model.resources import MEBIBYTE
from gpufleet.model.shape import Shape
from gpufleet.replay import data_files
from gpufleet.replay.data_files import TASK_LIST_NAMES, shipped_node_list, shipped_task_list
from gpufleet.replay.replay_errors import ShippedTraceError
from gpufleet.replay.trace import Trace, read_trace
from gpufleet.replay.trace_nodes import read_nodes

GPUS_BY_MODEL = {"G2": 4392, "T4": 842, "G3": 312, "P100": 265, "V100M32": 204, "V100M16": 195, "A10": 2}
TASKS_BY_CLASS = {"cpu": 1088, "share": 3078, "1": 3911, "2": 16, "4": 15, "8": 44}


@pytest.fixture(scope="module")
def default() -> Trace:
    return read_trace(shipped_node_list(), shipped_task_list())


def task_class(shape: Shape) -> str:
    if shape.gpu.count == 0:
        return "cpu"
    return str(shape.gpu.count) if shape.gpu.whole else "share"


def test_nodes_add_up_to_the_published_cluster(default: Trace) -> None:
    nodes = default.nodes
    assert len(nodes) == 1213
    assert Counter(device.model for node in nodes for device in node.devices) == GPUS_BY_MODEL
    assert sum(node.allocatable.cpu_milli for node in nodes) == 107_018_000
    assert sum(node.allocatable.memory_bytes for node in nodes) == 503_828_480 * MEBIBYTE
    assert {node.allocatable.pods for node in nodes} == {1001}
    assert Counter(len(node.devices) for node in nodes) == {1: 24, 2: 518, 4: 54, 8: 617}


def test_devices_have_names_and_known_memory(default: Trace) -> None:
    memory_mib = {device.model: device.memory_mib for node in default.nodes for device in node.devices}
    expected = {"V100M16": 16384, "V100M32": 32768, "P100": 16384, "T4": 16384, "A10": 24576}
    assert memory_mib == expected | {"G2": None, "G3": None}
    first = default.nodes[0]
    assert [device.id for device in first.devices] == [f"{first.name}/0", f"{first.name}/1"]
    assert len({device.id for node in default.nodes for device in node.devices}) == 6212


def test_tasks_add_up_to_the_published_load(default: Trace) -> None:
    shapes = [task.shape for task in default.tasks]
    assert len(shapes) == 8152
    assert sum(shape.gpu.total_milli for shape in shapes) == 6_086_800
    assert sum(shape.resources.cpu_milli for shape in shapes) // 1000 == 85_436
    assert Counter(map(task_class, shapes)) == TASKS_BY_CLASS
    requests = {(shape.resources.cpu_milli, shape.gpu) for shape in shapes}
    assert len(requests) == 91
    assert not default.skipped
    assert not default.notes
    assert not default.gangs


def test_equal_requests_share_one_shape(default: Trace) -> None:
    shapes = [task.shape for task in default.tasks]
    assert len({id(shape) for shape in shapes}) == len(set(shapes)) == 151


def test_times_are_exact_and_unknown_where_a_task_never_started(default: Trace) -> None:
    assert default.timed
    first, second = default.tasks[:2]
    assert (first.created_at_us, first.duration_us) == (0, 12_537_496_000_000)
    assert (second.created_at_us, second.duration_us) == (427_061_000_000, 12_475_899_000_000)
    assert sum(task.duration_us is None for task in default.tasks) == 897


@pytest.mark.parametrize(
    ("name", "tasks", "gpu_milli", "requests", "timed"),
    [("gpushare40", 8152, 5_641_250, 88, True), ("multigpu20", 8324, 7_086_800, 91, False)],
)
def test_variants_add_up_too(name: str, tasks: int, gpu_milli: int, requests: int, timed: bool) -> None:
    trace = read_trace(shipped_node_list(), shipped_task_list(name))
    assert len(trace.tasks) == tasks
    assert sum(task.shape.gpu.total_milli for task in trace.tasks) == gpu_milli
    shapes = {task.shape for task in trace.tasks}
    assert len({(shape.resources.cpu_milli, shape.gpu) for shape in shapes}) == requests
    assert trace.timed == timed


def test_timeline_is_sorted_by_creation_and_keeps_the_order_of_equals() -> None:
    trace = read_trace(shipped_node_list(), shipped_task_list("gpushare40"))
    ordered = trace.tasks_by_creation()
    times = [task.created_at_us for task in ordered]
    assert times == sorted(times)
    assert times != [task.created_at_us for task in trace.tasks]
    place = {task.name: position for position, task in enumerate(trace.tasks)}
    for earlier, later in pairwise(ordered):
        if earlier.created_at_us == later.created_at_us:
            assert place[earlier.name] < place[later.name]


def test_full_node_list_has_nodes_without_gpus() -> None:
    nodes = read_nodes(shipped_node_list().with_name("openb_node_list_all_node.csv")).nodes
    assert len(nodes) == 1523
    assert sum(not node.devices for node in nodes) == 310
    assert sum(node.allocatable.cpu_milli for node in nodes) == 125_514_000


def test_shipped_lists_are_found_by_name() -> None:
    assert [shipped_task_list(name).is_file() for name in TASK_LIST_NAMES] == [True] * 3
    with pytest.raises(InputError, match="'cpu050'; expected default, gpushare40, multigpu20"):
        shipped_task_list("cpu050")


def test_incomplete_installation_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_files, "FOLDER", "elsewhere")
    with pytest.raises(ShippedTraceError, match=r"gpu_node\.csv is missing .* install it again"):
        shipped_node_list()
