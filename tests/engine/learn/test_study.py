"""Valuations from every kind of fleet and mix: always whole numbers within bounds, never an exception."""

import math
import random

import pytest

from gpufleet.engine.event import ValuationLearned
from gpufleet.engine.learn.mix import Mix
from gpufleet.engine.learn.study import (
    ARRIVALS_STEP_MAX,
    FIRST_VALUATION_ARRIVALS,
    PRICE_MAX,
    next_valuation_at,
    study,
)
from gpufleet.engine.place.choose.policy_state import check
from gpufleet.engine.valuation import ONE_GPU, ONE_PRICE, Valuation
from gpufleet.model.identifiers import GpuModelName
from gpufleet.model.node import Node
from gpufleet.model.shape import Shape
from tests.engine.effort import seeds
from tests.engine.fleet_builder import GIB, Story, device, node, pod, problems, shape, share
from tests.engine.random_fleets import odd_node, odd_shape, plain_node, plain_shape


def valuation_of(nodes: list[Node], arrivals: list[Shape]) -> Valuation | None:
    """What is learned when these arrive at an idle fleet."""
    story = Story("best-fit")
    story.nodes(*nodes)
    mix = Mix()
    for wanted in arrivals:
        mix.arrived(wanted)
    return study(mix, story.engine.state.fleet)


def taught(nodes: list[Node], arrivals: list[Shape]) -> Valuation:
    """The same where something must be learned, within the bounds that the engine takes."""
    valuation = valuation_of(nodes, arrivals)
    assert valuation is not None
    check(valuation)
    return valuation


WEIRD_FLEETS = {
    "no node": [],
    "no GPU": [node("plain")],
    "no CPU": [node("starved", 8, cpu_milli=0, memory_bytes=0)],
    "all sick": [node("sick", devices=tuple(device(f"sick/{n}", healthy=False) for n in range(8)))],
    "only for shares": [
        node(
            "shared", devices=tuple(device(f"shared/{n}", serves=device("x").serves.SHARE) for n in range(8))
        )
    ],
    "models mixed": [
        node("mixed", devices=tuple(device(f"mixed/{n}", model=f"model-{n}") for n in range(8))),
        node("plain"),
    ],
    "the largest": [node("huge", 256, cpu_milli=10**9, memory_bytes=1 << 50)],
    "twenty models": [node(f"node-{n}", 4, model=f"model-{n}") for n in range(20)],
}
WEIRD_MIXES = {
    "one whole": [shape(1)],
    "one milli with all the CPU": [shape(1, milli=1, cpu_milli=10**9, memory_bytes=1 << 50)],
    "nothing of the host": [shape(1, cpu_milli=0, memory_bytes=0)],
    "shares of several": [shape(2, milli=300), shape(8, milli=999)],
    "more GPUs than any node": [shape(16)] * 20,
    "a thousand sizes": [share(milli) for milli in range(1, 1001)],
    "unknown models": [shape(1, models=("unheard-of",))],
    "all models": [shape(1, models=(f"model-{n % 20}", f"model-{n % 7}")) for n in range(40)],
    "mostly CPU": [shape(cpu_milli=1)] * 3000 + [share(5)],
    "huge eights": [shape(8, cpu_milli=2**62, memory_bytes=2**62)] * 3,
    "many eights": [shape(8, cpu_milli=1000 * n, memory_bytes=(1000 - n) * GIB) for n in range(1000)],
}


@pytest.mark.parametrize("nodes", WEIRD_FLEETS.values(), ids=WEIRD_FLEETS)
@pytest.mark.parametrize("arrivals", WEIRD_MIXES.values(), ids=WEIRD_MIXES)
def test_a_weird_mix_teaches_a_weird_fleet_within_bounds(nodes: list[Node], arrivals: list[Shape]) -> None:
    valuation = taught(nodes, arrivals)
    assert valuation.value_by_milli[0] == 0
    assert valuation.value_by_milli[1000] == ONE_GPU


@pytest.mark.parametrize("nodes", WEIRD_FLEETS.values(), ids=WEIRD_FLEETS)
def test_work_that_asks_for_no_milli_teaches_nothing(nodes: list[Node]) -> None:
    memory_alone = shape(1, milli=0, memory_mib=4000)
    assert valuation_of(nodes, [shape(), memory_alone]) is None
    assert valuation_of(nodes, []) is None


@pytest.mark.parametrize("seed", seeds(30))
def test_random_fleets_and_mixes_teach_within_bounds_and_the_engine_goes_on(seed: int) -> None:
    chance = random.Random(seed)
    story = Story("gpufleet", seed=seed)
    story.nodes(*(chance.choice((plain_node, odd_node))(chance, f"node-{n}") for n in range(8)))
    for number in range(60):
        story.arrive(pod(f"pod-{number}", chance.choice((plain_shape, odd_shape))(chance)))
        if number % 10 == 9:
            valuation = story.engine.study()
            story.happen(ValuationLearned(valuation.valuation))
    assert not problems(story.said)


def test_nothing_free() -> None:
    story = Story("gpufleet")
    story.nodes(node("full", 2))
    story.arrive(*(pod(f"pod-{n}", shape(1)) for n in range(2)))
    valuation = story.engine.study().valuation
    assert valuation is not None
    check(valuation)
    assert valuation.free_low_milli == -1  # there is nothing left to fall
    assert valuation.free_high_milli == 41  # the rise of a fiftieth of the fleet counts, and one


def test_marks_by_hand() -> None:
    valuation = taught([node("a", 8), node("b", 2, model="T4")], [shape(1, models=("T4",)), shape(1)])
    assert valuation.free_low_milli == 8000  # a fifth of 10,000 gone
    assert valuation.free_high_milli == 12_501  # a quarter more, and one
    assert valuation.model_low_milli == {"T4": 1600}


def test_a_model_belongs_to_the_first_gpu_of_its_node() -> None:
    mixed = node("mixed", devices=(device("m/0", model="T4"), device("m/1", model="A10")))
    valuation = taught([mixed], [shape(1, models=("T4",)), shape(1, models=("A10",))])
    assert valuation.model_low_milli == {"T4": 1600}  # of A10 nothing is watched, so it is never short


def test_prices_by_hand() -> None:
    # money for T4: one of two requests, counted 1.5 times; 2 of 10 GPUs are T4
    valuation = taught([node("a", 8), node("b", 2, model="T4")], [shape(1, models=("T4",)), shape(1)])
    ratio = (1.5 / 2) / (1 / 8)
    assert valuation.price_by_model[GpuModelName("A100")] == ONE_PRICE
    assert valuation.price_by_model[GpuModelName("T4")] == pytest.approx(ratio * ONE_PRICE, rel=0.01)


def test_what_nobody_wants_is_cheap_but_not_free() -> None:
    valuation = taught([node("a", 8), node("b", 2, model="T4")], [shape(1, models=("T4",))])
    assert valuation.price_by_model == {"A100": ONE_PRICE / PRICE_MAX, "T4": ONE_PRICE}


def test_prices_stay_within_a_factor() -> None:
    arrivals = [shape(1, models=("T4",))] * 1000 + [shape(1, milli=1, models=("A100",))]
    valuation = taught([node("a", 8), node("b", 1, model="T4")], arrivals)
    assert valuation.price_by_model == {"A100": ONE_PRICE, "T4": PRICE_MAX * ONE_PRICE}


def test_without_names_there_are_no_prices() -> None:
    assert taught([node("a", 8)], [shape(1)]).price_by_model == {}


def test_names_of_models_that_the_fleet_has_not_make_no_price() -> None:
    valuation = taught([node("a", 8)], [shape(1, models=("unheard-of",))])
    assert valuation.price_by_model == {}
    assert valuation.model_low_milli == {}


def test_sizes_beyond_those_that_are_priced_still_count() -> None:
    # 999 is the one size of 1000 that hardly anybody asks for: it is worth what fits into it
    arrivals = [share(milli) for milli in range(1, 999)] * 2 + [share(999)]
    valuation = taught([node("a", 8)], arrivals)
    assert valuation.value_by_milli[998] <= valuation.value_by_milli[999] <= valuation.value_by_milli[1000]


def test_the_models_named_are_codes_of_the_fleet() -> None:
    valuation = taught(WEIRD_FLEETS["twenty models"], WEIRD_MIXES["all models"])
    assert set(valuation.price_by_model) == {GpuModelName(f"model-{n}") for n in range(20)}


def test_valuations_come_early_then_by_half_then_at_a_steady_pace() -> None:
    assert next_valuation_at(0) == next_valuation_at(15) == FIRST_VALUATION_ARRIVALS == 16
    assert [next_valuation_at(arrivals) for arrivals in (16, 24, 36, 54)] == [24, 36, 54, 81]
    assert next_valuation_at(17) == math.ceil(25.5)
    assert next_valuation_at(4000) == 6000
    assert next_valuation_at(1_000_000) == 1_000_000 + ARRIVALS_STEP_MAX
    for arrivals in range(3000):
        assert arrivals < next_valuation_at(arrivals) <= max(16, arrivals + ARRIVALS_STEP_MAX)


def test_a_fleet_that_learned_long_ago_and_saw_only_cpu_work_since_still_learns() -> None:
    mix = Mix()
    mix.arrived(share(300))
    for _ in range(200_000):
        mix.arrived(shape())
    story = Story("best-fit")
    story.nodes(node("a", 8))
    valuation = study(mix, story.engine.state.fleet)
    assert valuation is None  # forgotten, rather than divided by nearly nothing
