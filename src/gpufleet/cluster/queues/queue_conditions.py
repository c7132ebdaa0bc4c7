"""Reasons of the conditions that a FleetQueue shows, with their words."""

from gpufleet.engine.instruction import QueueBar, WhyBarred

# Reasons of a FleetQueue's condition Active, with the words for what bars a queue.
MALFORMED = "Malformed"
IN_FORCE = "InForce"
BUDGET_SPENT = "BudgetSpent"
BARS = {
    WhyBarred.CYCLE: ("ParentCycle", "{queue} is its own ancestor"),
    WhyBarred.NO_PARENT: ("ParentMissing", "the parent of {queue} is not there"),
    WhyBarred.TOO_DEEP: ("TooDeep", "{queue} stands too deep in its tree"),
    WhyBarred.HELD: ("Held", "{queue} is held: nothing starts, what runs goes on"),
    WhyBarred.OVER_BUDGET: (
        BUDGET_SPENT,
        "the budget of {queue} is spent ({budget}): nothing new starts, what runs goes on",
    ),
    WhyBarred.DRAINING: ("Draining", "{queue} is draining: nothing new is taken in"),
    WhyBarred.STOPPED: ("Stopped", "{queue} is stopped: nothing starts, and what runs is evicted"),
}
# Mistakes in the tree of queues, which a person has to mend; the other reasons are states that a person
# chose.
WRONG = (WhyBarred.CYCLE, WhyBarred.NO_PARENT, WhyBarred.TOO_DEEP)
TROUBLES = frozenset({MALFORMED, *(BARS[why][0] for why in WRONG)})


def bar_message(words: str, queue: str, bar: QueueBar) -> str:
    """The words of ``BARS`` about a queue, as it is named where they stand."""
    return words.format(queue=queue, budget=bar.budget)
