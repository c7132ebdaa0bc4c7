"""Queues whose budget is spent, as the ledger says in their status: nothing new starts there for a while.

The ledger says until when, and says so again long before that. So a ledger that has ended, or cannot work
out costs any more, holds no work for longer than an hour: the budget is not known to be spent then, and work
starts.
"""

import msgspec

from gpufleet.kube.codec.queue_status import QueueCondition
from gpufleet.kube.codec.times import microseconds
from gpufleet.kube.objects.fleet_queues import WITHIN_BUDGET, FleetQueue, budget_of
from gpufleet.model.model_errors import InputError
from gpufleet.model.phrases import harmless, listed

SPENT, HOLD_ENDED = "BudgetSpent", "HoldEnded"
"""Reasons of the condition: work is held, and work was held until the ledger fell silent."""

WORDS_MAX = 200
"""Characters of a budget's words that are shown; the definition of FleetQueue takes no more."""


class BudgetHold(msgspec.Struct, frozen=True):
    """A spent budget: which one, since when the ledger last said so, and until when new work waits."""

    budget: str
    checked_at: str
    until: str
    until_us: int

    def holds(self, now_us: int) -> bool:
        """Whether new work waits."""
        return now_us < self.until_us

    def condition(self, now_us: int) -> QueueCondition:
        """What a person is shown of it."""
        if self.holds(now_us):
            message = f"{self.budget} is spent: nothing new starts, what runs goes on"
            return QueueCondition(WITHIN_BUDGET, holds=False, reason=SPENT, message=message)
        message = (
            f"new work was held until {self.until}, as {self.budget} was spent; it starts again, because the"
            f" ledger has said nothing since {self.checked_at}"
        )
        return QueueCondition(WITHIN_BUDGET, holds=True, reason=HOLD_ENDED, message=message)


def read_hold(queue: FleetQueue) -> BudgetHold | None:
    """What the status says of a spent budget; None where it says nothing, or what cannot be understood."""
    found = budget_of(queue)
    if found is None or not found.spent:
        return None
    try:
        until_us = microseconds(found.held_until)
    except InputError:
        # Another writer broke it: what is not known to be spent holds nothing.
        return None
    budget = listed((found.spent[:WORDS_MAX],))
    return BudgetHold(budget, harmless(found.checked_at), harmless(found.held_until), until_us)
