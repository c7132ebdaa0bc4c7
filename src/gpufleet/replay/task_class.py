"""The classes by which tasks are counted: CPU only, a share of a GPU, or so many whole GPUs."""

from gpufleet.model.shape import GpuRequest
from gpufleet.replay.results import TASK_CLASSES


def task_class(gpu: GpuRequest) -> str:
    """The class of a request; a count between two classes belongs to the one below."""
    if gpu.count == 0:
        return "cpu"
    if not gpu.whole:
        return "share"
    counts = [int(name) for name in TASK_CLASSES if name.isdecimal()]
    return str(max(count for count in counts if count <= gpu.count))
