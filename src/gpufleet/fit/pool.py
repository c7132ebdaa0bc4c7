"""What an engine may use of a card, and what of that is left for keys and values."""

from dataclasses import dataclass

from gpufleet.fit.catalogue import CardEntry
from gpufleet.fit.engines import Engine, PoolRule, Reserves
from gpufleet.fit.question import Serving
from gpufleet.fit.ranges import Amount, together
from gpufleet.fit.ranks import Division
from gpufleet.fit.static_share import static_share


@dataclass(frozen=True, slots=True)
class Parts:
    """What a GPU holds beside keys and values."""

    weights: Amount
    activations: Amount
    runtime: Amount
    graphs: Amount
    beside: Amount


def pool_of(
    serving: Serving, card: CardEntry, division: Division, parts: Parts, *, sees: bool
) -> tuple[int, Amount]:
    """The bytes that the engine may use, and its pool."""
    usable, share = card.usable_bytes, serving.utilisation
    taken = together([parts.weights, parts.activations, parts.runtime], "")
    match serving.engine.pool:
        case PoolRule.OF_CARD:
            budget = round(share * usable)
            kept_back = reserved(serving.engine, parts.graphs)
            return budget, _less(budget, budget, together([taken, kept_back], ""))
        case PoolRule.STATIC:
            low = share
            if not share:
                low, share = static_share(card.usable_mib, division.tensor_parallel, division.gpus, sees=sees)
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
