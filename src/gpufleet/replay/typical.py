"""The typical tasks of a list: what fragmentation is measured against.

As in the published experiments: requests (CPU, GPUs, milli, models; memory left out) are counted,
and the most frequent ones that make up 95 % of the tasks are kept. ``fragmentation_meter`` and the
policy ``fgd`` measure with them.
"""

from collections import Counter
from collections.abc import Iterable

from gpufleet.model.identifiers import GpuModelName
from gpufleet.model.resources import Resources
from gpufleet.model.shape import GpuRequest, Shape
from gpufleet.replay.trace_tasks import TaskRecord

# As in the published experiments.
COVERED_PCT = 95

Request = tuple[int, int, int, tuple[GpuModelName, ...]]


def typical_workload(tasks: Iterable[TaskRecord]) -> tuple[tuple[Shape, int], ...]:
    """(shape, count) of the most frequent requests, the most frequent first."""
    counts: Counter[Request] = Counter()
    models: dict[Request, GpuRequest] = {}
    for task in tasks:
        gpu = task.shape.gpu
        request = (task.shape.resources.cpu_milli, gpu.gpu_milli, gpu.count, gpu.models)
        counts[request] += 1
        models[request] = GpuRequest(gpu.count, gpu.gpu_milli, None, gpu.models)
    ranked = sorted(counts.items(), key=lambda item: (item[1], item[0]), reverse=True)
    needed = COVERED_PCT * counts.total()
    typical: list[tuple[Shape, int]] = []
    covered = 0
    for request, count in ranked:
        if 100 * covered >= needed:
            break
        typical.append((Shape(Resources(request[0]), models[request]), count))
        covered += count
    return tuple(typical)
