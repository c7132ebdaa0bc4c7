"""The mix of requests: how it forgets, and that it stays small."""

import pytest

from gpufleet.engine.learn import mix
from gpufleet.engine.learn.mix import HALF_LIFE_ARRIVALS, REQUESTS_MAX, Mix, PodMixRequest
from gpufleet.model.identifiers import GpuModelName
from gpufleet.model.resources import MEBIBYTE, Resources
from gpufleet.model.shape import GpuRequest, Shape
from gpufleet.model.taint import Toleration

HALF = Shape(Resources(2000, 4096 * MEBIBYTE), GpuRequest(1, 500))
WHOLE = Shape(Resources(8000, 4096 * MEBIBYTE), GpuRequest(1, 1000))


def weights(counted: Mix) -> dict[int, float]:
    """Weight by the CPU that a request asks for, which tells the requests of this page apart."""
    return {request.cpu_milli: weight for request, weight in counted.requests()}


def test_a_request_weighs_half_after_a_half_life() -> None:
    counted = Mix()
    counted.arrived(HALF)
    for _ in range(HALF_LIFE_ARRIVALS):
        counted.arrived(WHOLE)
    # the last of n+1 arrivals is one step old: an arrival of this moment would weigh 1
    step = 2 ** (-1 / HALF_LIFE_ARRIVALS)
    assert weights(counted)[2000] == pytest.approx(0.5 * step)


def test_weights_of_a_steady_stream_add_up_to_a_geometric_sum() -> None:
    counted = Mix()
    for _ in range(1000):
        counted.arrived(WHOLE)
    step = 2 ** (-1 / HALF_LIFE_ARRIVALS)
    assert weights(counted)[8000] == pytest.approx(sum(step**age for age in range(1, 1001)))


def test_what_does_not_matter_for_room_is_not_told_apart() -> None:
    counted = Mix()
    counted.arrived(HALF)
    counted.arrived(Shape(HALF.resources, HALF.gpu, tolerations=(Toleration("gpu"),)))
    assert len(counted.requests()) == 1


def test_models_count_in_any_order_and_memory_rounds_up() -> None:
    first, second = GpuModelName("A10"), GpuModelName("T4")
    counted = Mix()
    for models in ((first, second), (second, first)):
        counted.arrived(Shape(Resources(1, MEBIBYTE + 1), GpuRequest(1, 500, models=models)))
    [(request, _)] = counted.requests()
    assert request == PodMixRequest(1, 2, 1, 500, (first, second))


def test_rescaling_leaves_the_proportions(monkeypatch: pytest.MonkeyPatch) -> None:
    often, never = Mix(), Mix()
    for counted, most in ((never, 1e300), (often, 1.01)):
        monkeypatch.setattr(mix, "WEIGHT_MAX", most)
        for number in range(600):
            counted.arrived(HALF if number % 3 else WHOLE)
    assert weights(often) == pytest.approx(weights(never))


def test_the_number_of_requests_stays_bounded_and_the_heavy_ones_stay() -> None:
    counted = Mix()
    for number in range(3 * REQUESTS_MAX):
        counted.arrived(Shape(Resources(100_000 + number), GpuRequest(1, 1 + number % 1000)))
        counted.arrived(HALF)
    assert len(counted.requests()) <= 2 * REQUESTS_MAX
    # one of 3072 half-life-weighted arrivals each step: the sum of 2^(-age/4000) over 6144 arrivals, halved
    step = 2 ** (-1 / HALF_LIFE_ARRIVALS)
    assert weights(counted)[2000] == pytest.approx(sum(step**age for age in range(1, 6145, 2)))


def test_what_never_comes_again_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mix, "HALF_LIFE_ARRIVALS", 1)
    counted = Mix()
    counted.arrived(HALF)
    for _ in range(2000):  # 2^-2000 is less than any float
        counted.arrived(WHOLE)
    assert weights(counted) == {8000: pytest.approx(1.0)}


def test_arrivals_are_counted() -> None:
    counted = Mix()
    for _ in range(17):
        counted.arrived(Shape(Resources(1000)))
    assert counted.arrivals == 17
