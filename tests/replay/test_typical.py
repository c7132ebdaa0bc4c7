"""The typical workload: the requests that make up 95 % of a list (simulation by Weng et al., section 4)."""

from collections import Counter

from gpufleet.replay.data_files import shipped_node_list, shipped_task_list
from gpufleet.replay.trace import read_trace
from gpufleet.replay.trace_tasks import TaskRecord
from gpufleet.replay.typical import typical_workload
from tests.replay.small_traces import shape, task


def test_default_list_has_35_typical_of_91_requests() -> None:
    trace = read_trace(shipped_node_list(), shipped_task_list())
    asked = Counter((one.shape.resources.cpu_milli, one.shape.gpu) for one in trace.tasks)
    typical = typical_workload(trace.tasks)
    assert (len(asked), len(typical)) == (91, 35)
    assert round(100 * sum(count for _, count in typical) / len(trace.tasks), 2) == 95.26


def test_most_frequent_first_until_95_percent_are_covered() -> None:
    tasks = [
        *(task(f"often{number}", 500) for number in range(70)),
        *(task(f"seldom{number}", 1000) for number in range(25)),
        *(task(f"rare{number}", 100) for number in range(5)),
    ]
    assert [(found.gpu.gpu_milli, count) for found, count in typical_workload(tasks)] == [
        (500, 70),
        (1000, 25),
    ]


def test_just_under_95_percent_takes_one_more() -> None:
    tasks = [
        *(task(f"often{number}", 500) for number in range(94)),
        *(task(f"rare{number}", 100) for number in range(6)),
    ]
    assert len(typical_workload(tasks)) == 2


def test_equal_counts_are_ordered_by_cpu_milli_and_gpus_descending() -> None:
    tasks = [
        task("a", 500, cpu_milli=1000),
        task("b", 1000, 1, cpu_milli=1000),
        task("c", 1000, 2, cpu_milli=1000),
        task("d", 100, cpu_milli=2000),
    ]
    found = [
        (one.resources.cpu_milli, one.gpu.gpu_milli, one.gpu.count) for one, _ in typical_workload(tasks)
    ]
    assert found == [(2000, 100, 1), (1000, 1000, 2), (1000, 1000, 1), (1000, 500, 1)]


def test_memory_makes_no_difference_and_models_do() -> None:
    shapes = (
        shape(500, memory_mib=1),
        shape(500, memory_mib=9),
        shape(500, models=("T4",)),
    )
    tasks = [TaskRecord(f"t{number}", one) for number, one in enumerate(shapes)]
    assert [count for _, count in typical_workload(tasks)] == [2, 1]
