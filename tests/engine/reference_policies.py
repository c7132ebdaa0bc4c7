"""The published policies again, slowly: fractions, decimals and lists, straight from the definitions.

The source is the simulator of "Beware of Fragmentation" (Weng et al., USENIX ATC 2023). All
amounts are in thousandths; a policy gives every node that fits an integer from 0 to 100, the
highest wins, and the node that came first wins among equals.
"""

import decimal
from collections.abc import Callable
from fractions import Fraction

from gpufleet.model.identifiers import DeviceId
from gpufleet.model.shape import Shape
from tests.engine.plain_fleet import PlainNode

Target = list[tuple[Shape, int]]
NodeScore = Callable[[PlainNode, Shape], int]

LARGEST_CPU_MILLI = 128_000
LARGEST_GPU_MILLI = 8_000


def floor_of_100(part: Fraction) -> int:
    """floor(100 * part), exactly."""
    return (100 * part.numerator) // part.denominator


def best_fit(node: PlainNode, shape: Shape) -> int:
    """The less is left after placing, the better."""
    cpu = Fraction(node.free_cpu_milli - shape.resources.cpu_milli, LARGEST_CPU_MILLI)
    gpu = Fraction(node.idle_gpu_milli - shape.gpu.total_milli, LARGEST_GPU_MILLI)
    return floor_of_100(1 - (cpu + gpu) / 2)


def dot_product(node: PlainNode, shape: Shape) -> int:
    """The less request and free part point the same way, the better."""
    cpu = Fraction(node.free_cpu_milli * shape.resources.cpu_milli, LARGEST_CPU_MILLI**2)
    gpu = Fraction(node.idle_gpu_milli * shape.gpu.total_milli, LARGEST_GPU_MILLI**2)
    return floor_of_100(1 - (cpu + gpu) / 2)


def gpu_clustering(node: PlainNode, shape: Shape) -> int:
    """Tasks of a kind together."""
    if shape.gpu.count == 0:
        return 0
    base = 25 * (LARGEST_GPU_MILLI - node.idle_gpu_milli) // LARGEST_GPU_MILLI
    running = set(node.kinds())
    own = {f"{shape.gpu.count} whole" if shape.gpu.whole else "share"}
    if running == own:
        return base + 75
    if own < running:
        return base + 50
    return base + (0 if running else 25)


def gpu_packing(node: PlainNode, shape: Shape) -> int:
    """GPUs in use first, then nodes in use, then the smallest idle node."""
    if shape.gpu.count == 0:
        return 0
    count = len(node.devices)
    if all(one.idle_milli == 1000 for one in node.devices):
        return max(33 - count, count)
    by_least_free = sorted(node.devices, key=lambda one: one.idle_milli)
    taken = [one.idle_milli for one in by_least_free if one.fits(shape.gpu)][: shape.gpu.count]
    entirely_free = taken.count(1000)
    if entirely_free:
        return max(50 - entirely_free, 33)
    return max(100 - sum(milli // 10 for milli in taken) // 10, 50)


def fragmentation(cpu_milli: int, gpu_milli: list[int], model: str, target: Target) -> Fraction:
    """Expected GPU of a node that a task of the target workload cannot use, in thousandths."""
    total = sum(count for _, count in target)
    expected = Fraction(0)
    for task, count in target:
        wanted = task.gpu.gpu_milli
        useful = [milli for milli in gpu_milli if milli >= wanted]
        runs = (
            task.gpu.count > 0
            and task.resources.cpu_milli <= cpu_milli
            and len(useful) >= task.gpu.count
            and (not task.gpu.models or model in task.gpu.models)
        )
        wasted = sum(milli for milli in gpu_milli if milli < wanted) if runs else sum(gpu_milli)
        expected += Fraction(count * wasted, total)
    return expected


def sigmoid_floor(gradient_milli: Fraction) -> int:
    """floor(100 * sigmoid(gradient in GPUs)), with fifty digits."""
    with decimal.localcontext(decimal.Context(prec=50)):
        gradient = decimal.Decimal(gradient_milli.numerator) / (1000 * gradient_milli.denominator)
        return int(100 / (1 + (-gradient).exp()))


def fgd_devices(node: PlainNode, shape: Shape, target: Target) -> list[tuple[int, DeviceId | None]]:
    """The floored score of each way to place the shape inside the node."""
    free = [one.idle_milli for one in node.devices]
    model = str(node.devices[0].device.model) if node.devices else ""
    before = fragmentation(node.free_cpu_milli, free, model, target)
    cpu_after = node.free_cpu_milli - shape.resources.cpu_milli
    fitting = node.fitting_devices(shape)
    if shape.gpu.count == 0 or shape.gpu.whole:
        taken: set[DeviceId] = set(fitting[: shape.gpu.count])
        left = [
            milli - (1000 if one.device.id in taken else 0)
            for milli, one in zip(free, node.devices, strict=True)
        ]
        return [(sigmoid_floor(before - fragmentation(cpu_after, left, model, target)), None)]
    scored: list[tuple[int, DeviceId | None]] = []
    for index, one in enumerate(node.devices):
        if one.device.id in fitting:
            left = free.copy()
            left[index] -= shape.gpu.gpu_milli
            after = fragmentation(cpu_after, left, model, target)
            scored.append((sigmoid_floor(before - after), one.device.id))
    return scored


def stretched(scores: dict[int, int]) -> dict[int, int]:
    """Scores over the feasible nodes rescaled to 0..100, as published for best-fit."""
    low, high = min(scores.values()), max(scores.values())
    if low == high:
        return scores
    return {rank: (score - low) * 100 // (high - low) for rank, score in scores.items()}


BY_NODE: dict[str, NodeScore] = {
    "best-fit": best_fit,
    "dot-product": dot_product,
    "gpu-clustering": gpu_clustering,
    "gpu-packing": gpu_packing,
}


def devices_inside(node: PlainNode, shape: Shape) -> tuple[DeviceId, ...]:
    """Lowest-index free GPUs for a whole request; the fullest GPU that fits for a share."""
    fitting = node.fitting_devices(shape)
    if shape.gpu.whole or shape.gpu.count == 0:
        return tuple(fitting[: shape.gpu.count])
    known = node.device_by_id
    return (min(fitting, key=lambda one: known[one].idle_milli),)


def decide(
    policy: str, nodes: list[PlainNode], shape: Shape, target: Target
) -> tuple[int, tuple[DeviceId, ...]] | None:
    """The rank of the node that the policy takes, and the devices there; None if nothing fits."""
    feasible = {rank: node for rank, node in enumerate(nodes) if node.accepts(shape) and node.fits(shape)}
    if not feasible:
        return None
    if policy == "fgd":
        best_inside = {
            # The first of the best scores: lists are in order of index.
            rank: max(fgd_devices(node, shape, target), key=lambda scored: scored[0])
            for rank, node in feasible.items()
        }
        rank = max(feasible, key=lambda one: (best_inside[one][0], -one))
        chosen = best_inside[rank][1]
        return rank, devices_inside(nodes[rank], shape) if chosen is None else (chosen,)
    scores = {rank: BY_NODE[policy](node, shape) for rank, node in feasible.items()}
    if policy == "best-fit":
        scores = stretched(scores)
    rank = max(scores, key=lambda one: (scores[one], -one))
    return rank, devices_inside(nodes[rank], shape)
