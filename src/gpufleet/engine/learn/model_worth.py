"""What a GPU model is worth, when some tasks accept only some models.

A market: every request spends the worth of its GPUs on the models it accepts, every model sells
what is free of it. In equilibrium (Fisher) a set of models that is asked for by name beyond its
share costs more, and tasks that accept anything keep off it. Found set by set: the set with the
highest money per capacity among buyers that accept nothing outside of it gets that price, then the
rest of the market is settled without it.
"""

from collections.abc import Iterable

MODELS_MAX = 10
"""Sets of models are enumerated, so the least asked-for models beyond this many count as one."""

TIE = 1e-9
"""Prices nearer than this part are equal: rounding must not decide between sets."""


def merge_rare(demand: dict[frozenset[int], float], capacity: dict[int, float]) -> dict[int, int]:
    """Each model's stand-in: itself, or one common number for models that no request names or beyond the
    most wanted.
    """
    wanted = dict.fromkeys(capacity, 0.0)
    everything = frozenset(capacity)
    for models, money in demand.items():
        for model in models & everything if models != everything else ():
            wanted[model] += money
    named = sorted(
        (model for model in wanted if wanted[model] > 0), key=lambda model: (-wanted[model], model)
    )
    kept = set(named[:MODELS_MAX])
    others = min((model for model in capacity if model not in kept), default=-1)
    return {model: model if model in kept else others for model in capacity}


def subsets(models: list[int]) -> Iterable[frozenset[int]]:
    """Every set of at least one of the models."""
    for bits in range(1, 1 << len(models)):
        yield frozenset(model for place, model in enumerate(models) if bits >> place & 1)


def dearest(demand: dict[frozenset[int], float], capacity: dict[int, float]) -> tuple[frozenset[int], float]:
    """The set of models with the most money per capacity, the largest of equals; and that price."""
    best: frozenset[int] = frozenset()
    best_price = -1.0
    for models in subsets(sorted(capacity)):
        money = sum(spent for accepted, spent in demand.items() if accepted <= models)
        price = money / sum(capacity[model] for model in models)
        higher = price > best_price * (1 + TIE)
        equal = price >= best_price * (1 - TIE)
        if higher or (equal and len(models) > len(best)):
            best, best_price = models, price
    return best, best_price


def model_prices(demand: dict[frozenset[int], float], capacity: dict[int, float]) -> dict[int, float]:
    """The equilibrium price of each model.

    ``demand``: money by the set of models accepted. ``capacity``: what is free of each model, above
    0. Prices are relative; only their ratios mean something.
    """
    stand_in = merge_rare(demand, capacity)
    left: dict[int, float] = {}
    for model, amount in capacity.items():
        left[stand_in[model]] = left.get(stand_in[model], 0.0) + amount
    buyers: dict[frozenset[int], float] = {}
    for models, money in demand.items():
        accepted = frozenset(stand_in[model] for model in models if model in stand_in)
        if accepted:
            buyers[accepted] = buyers.get(accepted, 0.0) + money
    price: dict[int, float] = {}
    while left:
        models, found = dearest(buyers, left)
        for model in models:
            price[model] = found
            del left[model]
        # A buyer that accepts a cheaper model as well buys there.
        rest: dict[frozenset[int], float] = {}
        for accepted, money in buyers.items():
            if accepted - models:
                rest[accepted - models] = rest.get(accepted - models, 0.0) + money
        buyers = rest
    return {model: price[stand_in[model]] for model in capacity}
