"""Prices of GPU models: markets settled by hand, and the conditions of an equilibrium."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.engine.learn.model_worth import MODELS_MAX, model_prices

Demand = dict[frozenset[int], float]

MODELS = st.integers(1, 6)
MONEY = st.floats(0.01, 1000)


@st.composite
def markets(draw: st.DrawFn) -> tuple[Demand, dict[int, float]]:
    """Up to six models with what is free of them, and buyers of sets of them."""
    capacity = {model: draw(st.floats(0.01, 1000)) for model in range(draw(MODELS))}
    accepted = st.sets(st.sampled_from(sorted(capacity)), min_size=1).map(frozenset)
    return draw(st.dictionaries(accepted, MONEY, min_size=1, max_size=8)), capacity


def price_levels(price: dict[int, float]) -> list[tuple[float, frozenset[int]]]:
    """Prices from the dearest down, each with the models that cost so much (to within rounding)."""
    levels: list[tuple[float, frozenset[int]]] = []
    for model in sorted(price, key=lambda model: -price[model]):
        if levels and price[model] == pytest.approx(levels[-1][0], rel=1e-6):
            levels[-1] = (levels[-1][0], levels[-1][1] | {model})
        else:
            levels.append((price[model], frozenset({model})))
    return levels


def test_without_names_every_model_costs_the_same() -> None:
    price = model_prices({frozenset({0, 1, 2}): 7.0}, {0: 1.0, 1: 2.0, 2: 4.0})
    assert price == {0: 1.0, 1: 1.0, 2: 1.0}  # 7 for 7


def test_a_model_named_beyond_its_share_costs_more() -> None:
    # 6 of money for 2 GPUs of model 0; the other 8 go for the 8 of model 1
    price = model_prices({frozenset({0}): 6.0, frozenset({0, 1}): 8.0}, {0: 2.0, 1: 8.0})
    assert price == {0: 3.0, 1: 1.0}


def test_a_model_named_within_its_share_costs_no_more() -> None:
    # 1 of money for 2 GPUs: those who accept anything fill it up until both cost 9/10
    price = model_prices({frozenset({0}): 1.0, frozenset({0, 1}): 8.0}, {0: 2.0, 1: 8.0})
    assert price == pytest.approx({0: 0.9, 1: 0.9})


def test_two_models_named_together_share_a_price() -> None:
    price = model_prices({frozenset({0, 1}): 12.0, frozenset({0, 1, 2}): 5.0}, {0: 1.0, 1: 3.0, 2: 5.0})
    assert price == {0: 3.0, 1: 3.0, 2: 1.0}


def test_what_nobody_accepts_costs_nothing() -> None:
    assert model_prices({frozenset({0}): 5.0}, {0: 2.0, 1: 3.0}) == {0: 2.5, 1: 0.0}


def test_models_that_the_fleet_has_not_change_nothing() -> None:
    known = model_prices({frozenset({0}): 6.0, frozenset({0, 1}): 8.0}, {0: 2.0, 1: 8.0})
    price = model_prices(
        {frozenset({0, 7}): 6.0, frozenset({0, 1}): 8.0, frozenset({9}): 50.0}, {0: 2.0, 1: 8.0}
    )
    assert price == known


def test_no_model_and_nobody() -> None:
    assert model_prices({}, {}) == {}
    assert model_prices({}, {0: 1.0}) == {0: 0.0}


def test_beyond_the_most_wanted_models_the_rest_count_as_one() -> None:
    count = MODELS_MAX + 5
    capacity = dict.fromkeys(range(count), 1.0)
    demand: Demand = {frozenset({model}): 100.0 - model for model in range(count)}
    price = model_prices(demand, capacity)
    assert [price[model] for model in range(MODELS_MAX)] == [100.0 - model for model in range(MODELS_MAX)]
    rest = [100.0 - model for model in range(MODELS_MAX, count)]
    assert {price[model] for model in range(MODELS_MAX, count)} == {sum(rest) / len(rest)}


def test_no_more_sets_than_can_be_tried_even_with_a_hundred_models() -> None:
    everything = frozenset(range(100))
    price = model_prices({everything: 100.0}, dict.fromkeys(range(100), 1.0))
    assert set(price.values()) == {1.0}


@given(markets())
def test_all_money_is_spent_and_all_that_is_wanted_is_sold(market: tuple[Demand, dict[int, float]]) -> None:
    demand, capacity = market
    price = model_prices(demand, capacity)
    sold = sum(price[model] * amount for model, amount in capacity.items())
    assert sold == pytest.approx(sum(demand.values()), rel=1e-6)


@given(markets())
def test_each_level_of_price_is_paid_by_those_for_whom_it_is_the_cheapest(
    market: tuple[Demand, dict[int, float]],
) -> None:
    demand, capacity = market
    price = model_prices(demand, capacity)
    levels = price_levels(price)
    level_of = {model: place for place, (_, models) in enumerate(levels) for model in models}
    spent = [0.0] * len(levels)
    for accepted, money in demand.items():
        spent[max(level_of[model] for model in accepted)] += money  # the last level is the cheapest
    for (cost, models), money in zip(levels, spent, strict=True):
        assert cost * sum(capacity[model] for model in models) == pytest.approx(money, rel=1e-6, abs=1e-9)


@given(markets())
def test_no_set_of_models_gets_more_money_than_its_price_takes(
    market: tuple[Demand, dict[int, float]],
) -> None:
    demand, capacity = market
    price = model_prices(demand, capacity)
    models = sorted(capacity)
    for bits in range(1, 1 << len(models)):
        chosen = frozenset(model for place, model in enumerate(models) if bits >> place & 1)
        captive = sum(money for accepted, money in demand.items() if accepted <= chosen)
        takes = sum(price[model] * capacity[model] for model in chosen)
        assert captive <= takes * (1 + 1e-6)
