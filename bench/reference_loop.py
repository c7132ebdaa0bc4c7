"""The yardstick for the engine's speed: a loop that can do one thing only, FGD on one list.

No events, no explanations, no queues, no departures; arrays in, placements out, scores cached by
(request, node). A general engine is measured as a multiple of it, in the same run on the same
machine.
"""

import math
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import numba
import numpy as np

from gpufleet.model.node import Node
from gpufleet.model.shape import Shape

GPUS_MAX = 8
Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Compile, keeping the signature for the reader."""
    return cast("Function", numba.njit(cache=True)(function))


@compiled
def fragmentation(cpu: float, row: Any, gpus: int, target: Any) -> float:
    """Expected idle milli that a typical task cannot use."""
    total = 0.0
    for gpu in range(gpus):
        total += row[gpu]
    expected = 0.0
    for entry in range(len(target)):
        fitting, scraps = 0, 0.0
        for gpu in range(gpus):
            if row[gpu] >= target[entry, 2]:
                fitting += 1
            else:
                scraps += row[gpu]
        fit = target[entry, 1] > 0 and target[entry, 0] <= cpu and fitting >= target[entry, 1]
        expected += target[entry, 3] * (scraps if fit else total)
    return expected


@compiled
def best_device(cpu: float, memory: float, row: Any, gpus: int, task: Any, target: Any) -> Any:
    """(score, device) of a task on a node; score -1 if it does not fit."""
    if task[0] > cpu or task[1] > memory:
        return -1, -1
    fitting = 0
    for gpu in range(gpus):
        fitting += row[gpu] >= task[3]
    if fitting < task[2]:
        return -1, -1
    before = fragmentation(cpu, row, gpus, target)
    after = row.copy()
    if task[2] == 1 and task[3] < 1000:
        best, device = -1, -1
        for gpu in range(gpus):
            if row[gpu] < task[3]:
                continue
            after[gpu] -= task[3]
            drop = (before - fragmentation(cpu - task[0], after, gpus, target)) / 1000
            after[gpu] = row[gpu]
            score = math.floor(100 / (1 + math.exp(-drop)))
            if score > best:
                best, device = score, gpu
        return best, device
    left = task[2]
    for gpu in range(gpus):
        if left > 0 and row[gpu] == 1000:
            after[gpu] = 0
            left -= 1
    drop = (before - fragmentation(cpu - task[0], after, gpus, target)) / 1000
    return math.floor(100 / (1 + math.exp(-drop))), -1


@compiled
def replay(cpu: Any, memory: Any, free: Any, gpus: Any, tasks: Any, order: Any, target: Any) -> int:
    """Let the tasks arrive in order; returns the milli of GPU allocated."""
    nodes = len(cpu)
    scores = np.zeros((len(tasks), nodes), np.int64)
    seen = np.full((len(tasks), nodes), -1, np.int64)
    version = np.zeros(nodes, np.int64)
    log = np.zeros(len(order) + 1, np.int64)
    position = np.full(len(tasks), -1, np.int64)
    changes = 0
    allocated = 0
    for kind in order:
        task = tasks[kind]
        everything = position[kind] < 0 or changes - position[kind] > nodes
        for step in range(nodes if everything else changes - position[kind]):
            node = step if everything else log[position[kind] + step]
            if seen[kind, node] != version[node]:
                seen[kind, node] = version[node]
                found, _ = best_device(cpu[node], memory[node], free[node], gpus[node], task, target)
                scores[kind, node] = found
        position[kind] = changes
        best = np.argmax(scores[kind])
        if scores[kind, best] < 0:
            continue
        _, device = best_device(cpu[best], memory[best], free[best], gpus[best], task, target)
        left = task[2]
        for gpu in range(gpus[best]):
            if device >= 0:
                free[best, gpu] -= task[3] if gpu == device else 0
            elif left > 0 and free[best, gpu] == 1000:
                free[best, gpu] = 0
                left -= 1
        cpu[best] -= task[0]
        memory[best] -= task[1]
        version[best] += 1
        log[changes] = best
        changes += 1
        allocated += int(task[2] * task[3])
    return allocated


def seconds(nodes: Sequence[Node], arrivals: Sequence[Shape], workload: Sequence[tuple[Shape, int]]) -> Any:
    """(seconds, milli allocated) of the second of two runs; the first one compiles."""
    kinds = list(dict.fromkeys(arrivals))
    number = {shape: place for place, shape in enumerate(kinds)}
    order = np.array([number[shape] for shape in arrivals], np.int64)
    tasks = np.array(
        [
            (shape.resources.cpu_milli, shape.resources.memory_bytes, shape.gpu.count, shape.gpu.gpu_milli)
            for shape in kinds
        ],
        np.float64,
    )
    weight = sum(count for _, count in workload)
    target = np.array(
        [
            (shape.resources.cpu_milli, shape.gpu.count, shape.gpu.gpu_milli, count / weight)
            for shape, count in workload
        ],
        np.float64,
    )
    allocated, took = 0, math.inf
    for _ in range(3):
        cpu = np.array([node.allocatable.cpu_milli for node in nodes], np.float64)
        memory = np.array([node.allocatable.memory_bytes for node in nodes], np.float64)
        gpus = np.array([len(node.devices) for node in nodes], np.int64)
        free = np.zeros((len(nodes), GPUS_MAX))
        for row, count in enumerate(gpus):
            free[row, :count] = 1000
        started = time.perf_counter()
        allocated = replay(cpu, memory, free, gpus, tasks, order, target)
        took = min(took, time.perf_counter() - started)
    return took, allocated
