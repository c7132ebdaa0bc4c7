"""Watches an engine at work: what is tried and taken back leaves no trace in its state.

Every trial that is undone is compared with the moment when it began, and so is every search that answers
that it did nothing: for victims, for a place of the future, for another place of nominated work. Where many
stories are told, one in so many is compared (``every``): a comparison takes as long as some decisions.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any, Self
from unittest.mock import patch

from gpufleet.engine.lifecycle.engine_state import EngineState
from gpufleet.engine.lifecycle.nominations import Nominations
from gpufleet.engine.place.choose.trial import Trial
from gpufleet.engine.preempt.victim_search import PreemptionSearch
from gpufleet.engine.reserve.planning import Planner
from tests.engine.state_digest import Digest, difference, digest

TRACES_SHOWN = 5


class Watched(Counter[str]):
    """How often each thing was compared, and of how many one is."""

    def __init__(self, every: int = 1) -> None:
        super().__init__()
        self.every = every
        self._number = 0

    def is_next(self) -> bool:
        """True if what begins now is to be compared."""
        self._number += 1
        return self._number % self.every == 0


class WatchedTrial(Trial):
    """A trial that is compared with its beginning when it is undone."""

    state: EngineState
    watched: Watched
    before: Digest | None

    def __enter__(self) -> Self:
        self.before = digest(self.state) if self.watched.is_next() else None
        return super().__enter__()

    def undo(self) -> None:
        """Take everything back, and see to it that it is."""
        super().undo()
        if self.before is not None:
            self.watched["trial"] += 1
            compare("a trial", self.before, self.state)


def compare(what: str, before: Digest, state: EngineState) -> None:
    """AssertionError with what is not as it was."""
    traces = difference(before, digest(state))
    assert not traces, f"{what} left a trace: " + "; ".join(traces[:TRACES_SHOWN])


@contextmanager
def no_trace(every: int = 1) -> Iterator[Watched]:
    """Meanwhile one in so many of all that is taken back is compared; how often, by what it was."""
    watched = Watched(every)

    def trial(state: EngineState) -> Trial:
        one = WatchedTrial(state.store, state.shapes, state.pods, state.policy, state.related)
        one.state, one.watched = state, watched
        return one

    with ExitStack() as stack:
        stack.enter_context(patch.object(EngineState, "trial", trial))
        for owner, name in (
            (PreemptionSearch, "find"),
            (PreemptionSearch, "evictable"),
            (Planner, "find"),
            (Nominations, "_place_anew"),
        ):
            asked = getattr(owner, name)
            stack.enter_context(patch.object(owner, name, watching(asked, name, watched)))
        yield watched


def watching(asked: Callable[..., Any], name: str, watched: Watched) -> Callable[..., Any]:
    """The same method, compared where it answers that it changed nothing."""
    changes_state = name == "_place_anew"

    @wraps(asked)
    def compared(itself: Any, *args: Any, **named: Any) -> Any:
        # A search for victims is handed the state, the others have it.
        state = getattr(itself, "state", None) or args[-1]
        before = digest(state) if watched.is_next() else None
        answer = asked(itself, *args, **named)
        if before is not None and not (changes_state and answer):
            watched[name] += 1
            compare(name, before, state)
        return answer

    return compared
