"""The ways to look for victims, by the name under which an event log says which one a run had.

A log must decide the same when it is run again, so the search is part of its first line.
"""

from collections.abc import Callable
from functools import partial

from gpufleet.engine.preempt.victim_search import PreemptionSearch
from gpufleet.engine.preempt.victims import NoVictims, VictimSearch
from gpufleet.model.model_errors import InputError

NO_EVICTIONS = "nobody"
"""No pod is evicted; also what a log means that does not say it, because it is older than the others."""

BY_QUEUES = "by-queues"
"""As the policies of the queues say; for work outside of every queue no pod is evicted."""

BY_PRIORITY = "by-queues-and-priority"
"""As the policies of the queues say, and outside of them by priority."""

SEARCHES: dict[str, Callable[[], VictimSearch]] = {
    NO_EVICTIONS: NoVictims,
    BY_QUEUES: partial(PreemptionSearch, by_priority=False),
    BY_PRIORITY: PreemptionSearch,
}


def find_search(name: str) -> VictimSearch:
    """A new search of this name; InputError with the names there are."""
    search = SEARCHES.get(name)
    if search is None:
        raise InputError(
            "no such search for victims", field="victims", value=name, expected=", ".join(sorted(SEARCHES))
        )
    return search()
