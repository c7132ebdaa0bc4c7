"""A decision log is kept for years, so its words stay although the code's own names may become better.

The lines are as logs of this format have them.
"""

from gpufleet.engine.event import DecisionsDeferred, ValuationLearned
from gpufleet.engine.event_log import read_step, step_line
from gpufleet.engine.instruction import AnyInstruction, Bind, Learn
from gpufleet.model.backfill_promise import BackfillPromise
from gpufleet.model.identifiers import NodeName, PodUid

LEARNED = b'{"at_us":7,"events":[{"event":"lesson-learned","lesson":null}],"instructions":[]}\n'
BOUND = (
    b'{"at_us":7,"events":[],"instructions":[{"instruction":"bind","uid":"u1","node":"n1",'
    b'"seats":[{"holder":"u2","within_us":5}]}]}\n'
)


def test_a_valuation_is_logged_as_a_lesson() -> None:
    assert step_line(7, (ValuationLearned(None),), []) == LEARNED
    assert read_step(LEARNED, 2).events == (ValuationLearned(None),)


def test_deferred_decisions_are_logged_by_their_tag() -> None:
    line = b'{"at_us":7,"events":[{"event":"decisions-deferred"}],"instructions":[{"instruction":"learn"}]}\n'
    assert step_line(7, (DecisionsDeferred(),), [Learn()]) == line
    assert read_step(line, 2).events == (DecisionsDeferred(),)


def test_promises_of_backfilled_work_are_logged_as_seats() -> None:
    bound: list[AnyInstruction] = [
        Bind(PodUid("u1"), NodeName("n1"), promises=(BackfillPromise("u2", within_us=5),))
    ]

    assert step_line(7, (), bound) == BOUND
    assert list(read_step(BOUND, 2).instructions) == bound
