"""Small fleets and task lists, and runs of them, for the tests of the replay."""

import random
from pathlib import Path

from gpufleet.engine.policy import find_policy
from gpufleet.engine.preempt.by_name import BY_QUEUES
from gpufleet.model.identifiers import GpuModelName
from gpufleet.model.resources import MEBIBYTE, Resources
from gpufleet.model.shape import GpuRequest, Shape
from gpufleet.replay.fragmentation_meter import FragmentationMeter
from gpufleet.replay.measured_engine import MeasuredEngine
from gpufleet.replay.trace import Trace, read_trace
from gpufleet.replay.trace_tasks import TaskRecord
from gpufleet.replay.typical import typical_workload
from tests.replay.trace_files import NODE_HEADER, TASK_HEADER, table

FLEET = ("n0,96000,393216,8,G2", "n1,64000,262144,2,T4", "n2,32000,131072,1,P100", "n3,64000,262144,4,T4")
REQUESTS = ((4000, 1, 1000), (4000, 1, 500), (8000, 1, 330), (16000, 2, 1000), (2000, 0, 0))


def shape(
    milli: int, count: int = 1, *, cpu_milli: int = 1000, memory_mib: int = 1, models: tuple[str, ...] = ()
) -> Shape:
    """What a task asks for; no GPU if count is 0."""
    names = tuple(GpuModelName(name) for name in models)
    return Shape(Resources(cpu_milli, memory_mib * MEBIBYTE), GpuRequest(count, milli, None, names))


def task(name: str, milli: int = 1000, count: int = 1, *, cpu_milli: int = 1000) -> TaskRecord:
    """A task without times."""
    return TaskRecord(name, shape(milli, count, cpu_milli=cpu_milli))


def small_files(folder: Path, tasks: int = 18) -> tuple[Path, Path]:
    """A node list with 15 GPUs, and tasks with times that ask for about as many."""
    source = random.Random("small")
    rows = []
    for number in range(tasks):
        cpu_milli, count, milli = source.choice(REQUESTS)
        created_s = source.randrange(600)
        rows.append(f"t{number},{cpu_milli},4096,{count},{milli},{created_s},{source.randrange(300)}")
    nodes = table(folder, *FLEET, header=NODE_HEADER, name="nodes.csv")
    return nodes, table(folder, *rows, header=f"{TASK_HEADER},creation_time,duration_s", name="tasks.csv")


def trace_of_rows(folder: Path, nodes: tuple[str, ...], columns: str, *rows: str) -> Trace:
    """A trace of these rows; ``columns`` go beyond the five that are required."""
    header = f"{TASK_HEADER},{columns}" if columns else TASK_HEADER
    return read_trace(
        table(folder, *nodes, header=NODE_HEADER, name="nodes.csv"),
        table(folder, *rows, header=header, name="tasks.csv"),
    )


def set_up(
    trace: Trace, policy: str = "best-fit", seed: int = 0, victims: str = BY_QUEUES
) -> tuple[MeasuredEngine, FragmentationMeter]:
    """An engine with the trace's fleet, nodes ranked as listed, and its meter."""
    workload = typical_workload(trace.tasks)
    measured = MeasuredEngine(find_policy(policy), seed, victims=victims)
    measured.set_up(list(trace.nodes), workload)
    return measured, FragmentationMeter(measured.engine, workload)
