"""What an engine may use of a card, and what of that is left for keys and values."""

from dataclasses import dataclass

from gpufleet.fit.catalogue import CardEntry
from gpufleet.fit.engines import Engine, PoolRule, Reserves
from gpufleet.fit.facts import ModelFacts
from gpufleet.fit.question import Serving
from gpufleet.fit.ranges import Amount, together
from gpufleet.fit.ranks import Division
from gpufleet.fit.static_share import static_share

OVERCHARGED_STATES = 0.24
"""The part of the pool that vLLM's estimate of graphs was seen to cost models with states (vllm#50780)."""

OVERCHARGED_REPLICAS = 0.69
"""The part that it cost a mixture with data parallelism (vllm#45178: 245,840 of 769,888 tokens are left)."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What a GPU holds beside keys and values."""

    weights: Amount
    activations: Amount
    runtime: Amount
    graphs: Amount
    beside: Amount


def pool_of(
    facts: ModelFacts, serving: Serving, card: CardEntry, division: Division, parts: Parts
) -> tuple[int, Amount]:
    """The bytes that the engine may use, and its pool."""
    usable, share = card.usable_bytes, serving.utilisation
    taken = together([parts.weights, parts.activations, parts.runtime], "")
    match serving.engine.pool:
        case PoolRule.OF_CARD:
            budget = round(share * usable)
            kept_back = reserved(serving.engine, parts.graphs)
            pool = _less(budget, budget, together([taken, kept_back], ""))
            return budget, _overcharged(pool, facts, serving.engine, division)
        case PoolRule.STATIC:
            low = share
            if not share:
                low, share = static_share(
                    card.usable_mib, division.tensor_parallel, division.gpus, sees=facts.sees
                )
            held = together([parts.weights, parts.runtime], "")
            return round(share * usable), _less(round(low * usable), round(share * usable), held)
        case PoolRule.OF_FREE:
            free = _less(usable, usable, taken)
            pool = Amount(
                round(share * free.low_bytes),
                round(share * free.bytes),
                round(share * free.high_bytes),
                f"{share:g} of what the parts above leave",
            )
            return usable - round((1 - share) * max(0, free.bytes)), pool
        case PoolRule.ASKED:
            budget = round(share * usable)
            return budget, _less(budget, budget, together([taken, parts.beside], ""))


def _overcharged(pool: Amount, facts: ModelFacts, engine: Engine, division: Division) -> Amount:
    """The pool, of which an engine that estimates graphs beforehand may hold back far more than they take."""
    if engine.reserves_graphs is Reserves.NO or pool.low_bytes <= 0:
        return pool
    kept_back = OVERCHARGED_STATES if facts.states else 0.0
    if division.replicas > 1 and facts.has_experts:
        kept_back = OVERCHARGED_REPLICAS
    return Amount(round((1 - kept_back) * pool.low_bytes), pool.bytes, pool.high_bytes, pool.basis)


def _less(low_budget: int, budget: int, taken: Amount) -> Amount:
    # What is left is least where the parts take most.
    return Amount(
        low_budget - taken.high_bytes,
        budget - taken.bytes,
        budget - taken.low_bytes,
        "what the engine may use, less the parts above",
    )


def reserved(engine: Engine, recorded: Amount) -> Amount:
    """What graphs take of the pool: all where the engine reserves it."""
    match engine.reserves_graphs:
        case Reserves.YES:
            return recorded
        case Reserves.PERHAPS:
            return Amount(0, 0, recorded.high_bytes, recorded.basis)
        case Reserves.NO:
            return Amount.exact(0, recorded.basis)
