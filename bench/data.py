"""What it brings, and what it costs in packing, that pods go where their models are.

openb's tasks under the published protocol (``bench.quality``), at load 1.3: each task with GPUs reads one of
``MODELS`` of three sizes, and each model lies on ``HOLDERS`` nodes, by chance. The same engine plays the same
tasks with and without their words about data. Beside it, on equal empty nodes, how many pods go where their
model is while there is such a node.
"""

import sys
from collections.abc import Iterator
from random import Random
from statistics import fmean

import msgspec

from bench import data_report, data_staging
from bench.figures import Figure, figure, publish
from gpufleet.engine.event import NodeSet, PodAdded
from gpufleet.engine.instruction import Bind
from gpufleet.engine.policy import find_policy
from gpufleet.engine.scheduler import Engine
from gpufleet.engine.state.data_copies import DataCopies
from gpufleet.model.data import DataAsk, DataCopy, DataNeeds
from gpufleet.model.device import Device
from gpufleet.model.identifiers import DeviceId, NodeName
from gpufleet.model.node import Node
from gpufleet.replay.data_files import shipped_node_list, shipped_task_list
from gpufleet.replay.run import Setting, trace_of
from gpufleet.replay.run_request import RunRequest
from gpufleet.replay.saturate import pod_of
from gpufleet.replay.trace import Trace
from gpufleet.replay.trace_tasks import TaskRecord

SEEDS = (42, 43, 44)
MODELS, HOLDERS, GPUS = 24, 60, 8
GB = 10**9
SIZES_GB = (15, 141, 812)
"""Weights in BF16 of 8, 70 and 405 billion parameters."""

LOSS_POINTS, THERE_PCT, SAVED_PCT = 0.5, 95.0, 50.0
"""Limits: allocation lost, placements where the data is at equal score, GPU time in loading saved."""


def model_of(number: int) -> DataCopy:
    """One of the models, complete."""
    return DataCopy(f"model/bench/{number}", SIZES_GB[number % len(SIZES_GB)] * GB, complete=True)


def with_copies(nodes: tuple[Node, ...], random: Random) -> tuple[Node, ...]:
    """Each model on some of the nodes that have GPUs."""
    names = [node.name for node in nodes if node.devices]
    held: dict[NodeName, list[DataCopy]] = {}
    for number in range(MODELS):
        for name in random.sample(names, HOLDERS):
            held.setdefault(name, []).append(model_of(number))
    return tuple(msgspec.structs.replace(node, data=tuple(held.get(node.name, ()))) for node in nodes)


def with_asks(tasks: tuple[TaskRecord, ...], random: Random) -> tuple[TaskRecord, ...]:
    """Each task with GPUs reads a model."""
    return tuple(reading(task, random.randrange(MODELS)) if task.shape.gpu.count else task for task in tasks)


def reading(task: TaskRecord, number: int) -> TaskRecord:
    """The task with a word about its model."""
    needs = DataNeeds((DataAsk(model_of(number).name),))
    relations = msgspec.structs.replace(task.shape.relations, data=needs)
    return msgspec.structs.replace(task, shape=msgspec.structs.replace(task.shape, relations=relations))


class Played(msgspec.Struct, frozen=True):
    """Allocation at load 130 in per cent, what arrived, and the node of each task that was placed."""

    allocated_pct: float
    tasks: tuple[TaskRecord, ...]
    places: dict[str, str]


def played(trace: Trace, seed: int) -> Played:
    """All tasks under the published protocol."""
    request = RunRequest(str(shipped_node_list()), str(shipped_task_list()), "gpufleet", seed)
    setting = Setting(request, trace, None)
    result = setting.saturate(None)
    places = {one.pod: one.node for one in setting.placements if one.node is not None}
    tasks = tuple(task for unit in setting.units for task in unit.tasks)
    return Played(result.alloc_pct["130"], tasks, places)


def loading_gpu_s(nodes: tuple[Node, ...], tasks: tuple[TaskRecord, ...], places: dict[str, str]) -> float:
    """GPU seconds in which the tasks' models are copied to the nodes where they are placed."""
    copies, rows = DataCopies(), {node.name: row for row, node in enumerate(nodes)}
    for row, node in enumerate(nodes):
        copies.replace(row, (), node.data)
    total = 0.0
    ready: dict[DataNeeds, list[int]] = {}
    for task in tasks:
        place = places.get(task.name)
        data = task.shape.relations.data
        if place is None or not data.asks:
            continue
        if data not in ready:
            ready[data] = copies.ready_ms(data.asks, len(rows)).tolist()
        total += ready[data][rows[NodeName(place)]] / 1000 * task.shape.gpu.total_milli / 1000
    return total


def empty_nodes(count: int) -> list[Node]:
    """Equal nodes of eight GPUs, as openb has them."""
    like = next(one for one in trace_of(*lists(), 0.0).nodes if len(one.devices) == GPUS)
    return [
        msgspec.structs.replace(like, name=NodeName(f"n{number}"), devices=renamed(like, number))
        for number in range(count)
    ]


def renamed(like: Node, number: int) -> tuple[Device, ...]:
    """The devices of a node, with names of their own."""
    named = enumerate(like.devices)
    return tuple(msgspec.structs.replace(one, id=DeviceId(f"n{number}/{place}")) for place, one in named)


def at_equal_score() -> float:
    """Per cent of pods that go where their model is, on equal empty nodes while there are such."""
    nodes = empty_nodes(200)
    holders = {node.name for node in Random(1).sample(nodes, 50)}
    engine = Engine(find_policy("gpufleet"), seed=1)
    held = (
        msgspec.structs.replace(one, data=(model_of(1),)) if one.name in holders else one for one in nodes
    )
    engine.step(0, [NodeSet(one) for one in held])
    whole = next(one for one in trace_of(*lists(), 0.0).tasks if one.shape.gpu.count == GPUS)
    there = 0
    for number in range(len(holders)):
        task = reading(msgspec.structs.replace(whole, name=f"t{number}"), 1)
        said = engine.step(number + 1, [PodAdded(pod_of(task))])
        there += sum(isinstance(one, Bind) and one.node in holders for one in said)
    return 100 * there / len(holders)


def lists() -> tuple[str, str]:
    """The lists that ship."""
    return str(shipped_node_list()), str(shipped_task_list())


def figures() -> Iterator[Figure]:
    """All of them."""
    before, after, saved = [], [], []
    for seed in SEEDS:
        random = Random(seed)
        plain = trace_of(*lists(), 0.0)
        nodes, tasks = with_copies(plain.nodes, random), with_asks(plain.tasks, random)
        alone, beside = played(plain, seed), played(Trace(nodes, tasks, plain.gangs), seed)
        before.append(alone.allocated_pct)
        after.append(beside.allocated_pct)
        copied = [loading_gpu_s(nodes, beside.tasks, one.places) for one in (alone, beside)]
        saved.append(100 * (1 - copied[1] / copied[0]))
        line = f"seed {seed}: {before[-1]:.2f} and {after[-1]:.2f} % of GPUs, {saved[-1]:.0f} % saved"
        print(line, file=sys.stderr)
    title = f"allocation at 130 lost to data ({fmean(before):.2f} and {fmean(after):.2f} %)"
    yield figure(title, fmean(before) - fmean(after), "points", "lower", LOSS_POINTS)
    yield figure("GPU time in loading saved", fmean(saved), "%", "higher", SAVED_PCT)
    yield figure("pods where their data is, at equal score", at_equal_score(), "%", "higher", THERE_PCT)
    yield from data_staging.figures()
    yield from data_report.figures()


if __name__ == "__main__":
    publish("data", list(figures()))
