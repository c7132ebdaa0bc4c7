"""The mix of requests that arrived, with slow forgetting.

The weight of a request halves every ``HALF_LIFE_ARRIVALS`` arrivals: long enough to know rare
requests, short enough to follow a change of regime.
"""

from typing import NamedTuple

from gpufleet.model.identifiers import GpuModelName
from gpufleet.model.resources import MEBIBYTE
from gpufleet.model.shape import Shape

HALF_LIFE_ARRIVALS = 4000
"""After so many arrivals a request counts half: counted in arrivals, because the engine has no clock."""

REQUESTS_MAX = 1024
"""Beyond this many shapes the lighter half is forgotten: a valuation costs by the number of requests."""
WEIGHT_MAX = 1e12
"""All weights are scaled down before the next arrival weighs more, so that floats keep their precision."""
WEIGHT_LEAST = 1e-9
"""What weighs less against one arrival is forgotten, before it is too small to divide by."""


class PodMixRequest(NamedTuple):
    """What the mix distinguishes. ``gpu_milli`` is per device; ``models`` empty accepts any."""

    cpu_milli: int
    memory_mib: int
    gpus: int
    gpu_milli: int
    models: tuple[GpuModelName, ...]


class Mix:
    """Weights by request. The weight of an arrival grows instead of that of all others shrinking."""

    def __init__(self) -> None:
        self.arrivals = 0
        # Each weight alone in a list, so that an arrival finds it by its shape, whose hash is known.
        self._weight_by_request: dict[PodMixRequest, list[float]] = {}
        self._request_by_shape: dict[Shape, PodMixRequest] = {}
        self._weight_by_shape: dict[Shape, list[float]] = {}
        self._weight = 1.0
        # How much more an arrival weighs than the one before it: a power takes longer than all else here.
        self._growth: float = 2 ** (1 / HALF_LIFE_ARRIVALS)

    def arrived(self, shape: Shape) -> None:
        """One more request of this shape."""
        weight = self._weight_by_shape.get(shape)
        if weight is None:
            weight = self._weight_of(shape)
        self.arrivals += 1
        weight[0] += self._weight
        self._weight *= self._growth
        if self._weight > WEIGHT_MAX:
            self._rescale()

    def requests(self) -> list[tuple[PodMixRequest, float]]:
        """Requests with their weight, an arrival of this moment weighing 1."""
        return [(request, weight / self._weight) for request, (weight,) in self._weight_by_request.items()]

    def _weight_of(self, shape: Shape) -> list[float]:
        request = self._request_by_shape.get(shape)
        if request is None:
            request = self._remember(shape)
        weight = self._weight_by_request.setdefault(request, [0.0])
        self._weight_by_shape[shape] = weight
        return weight

    def _remember(self, shape: Shape) -> PodMixRequest:
        if len(self._request_by_shape) >= REQUESTS_MAX:
            self._forget_lightest()
        gpu = shape.gpu
        request = PodMixRequest(
            cpu_milli=shape.resources.cpu_milli,
            memory_mib=-(-shape.resources.memory_bytes // MEBIBYTE),
            gpus=gpu.count,
            gpu_milli=gpu.gpu_milli,
            models=tuple(sorted(gpu.models)),
        )
        self._request_by_shape[shape] = request
        return request

    def _forget_lightest(self) -> None:
        """Keep the heavier half; what matters comes again."""
        self._request_by_shape.clear()
        self._weight_by_shape.clear()
        weights = self._weight_by_request
        heaviest = sorted(weights, key=lambda request: -weights[request][0])[: REQUESTS_MAX // 2]
        self._weight_by_request = {request: weights[request] for request in heaviest}

    def _rescale(self) -> None:
        weights = self.requests()
        self._weight_by_request = {request: [weight] for request, weight in weights if weight >= WEIGHT_LEAST}
        self._weight_by_shape.clear()
        self._weight = 1.0
