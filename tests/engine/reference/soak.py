"""Random stories for as long as one likes: ``python -m tests.engine.reference.soak SECONDS SEED``.

Each seed is told once with each mix of features, and now and then with a look at what is taken back. Of the
first story in which the engine and the reference do not agree the smallest case is shown, and the exit code
is 1. With each seed goes a random tree of queues that always want more (``queueing.endless``): as work ends,
and with evictions alone, each queue must come to have what it is owed.
"""

import sys
import time
from collections.abc import Iterator
from itertools import count

import click

from tests.engine.no_trace import no_trace
from tests.engine.queueing.endless import (
    check_converged,
    told_until_all_work_is_new,
    told_with_evictions_alone,
)
from tests.engine.reference.agreement import MIXES, unexplained
from tests.engine.reference.drive import SideBySide
from tests.engine.reference.shrinker import shrunk
from tests.engine.reference.story import Plan, random_plan

TELL_S = 10
"""So often is it told how far it is."""
LOOK_EVERY = 50
"""Of so many seeds one is watched for traces, which takes a hundred times as long."""


@click.command()
@click.argument("seconds", type=click.IntRange(1), default=600)
@click.argument("seed", type=click.IntRange(0), default=0)
def soak(seconds: int, seed: int) -> None:
    """Tell stories from a SEED on for so many SECONDS."""
    begin_s = told_s = time.monotonic()
    for number, (at, mix) in enumerate(stories(seed), 1):
        plan = random_plan(at, MIXES[mix])
        check(plan, f"seed {at}, mix {mix}", compares=at % LOOK_EVERY == 0)
        if mix == "usual":
            check_tree(at)
        now_s = time.monotonic()
        if now_s - told_s >= TELL_S or now_s - begin_s >= seconds:
            told_s = now_s
            click.echo(f"soak-engine: {number} stories agree, up to seed {at}, in {now_s - begin_s:.0f} s")
        if now_s - begin_s >= seconds:
            return


def stories(first: int) -> Iterator[tuple[int, str]]:
    """Seeds from one on, each with each mix."""
    for seed in count(first):
        for mix in MIXES:
            yield seed, mix


def check(plan: Plan, name: str, *, compares: bool) -> None:
    """Tell one story; where the two do not agree in it, show the smallest case and leave."""
    if compares:
        with no_trace():
            SideBySide(plan).run()
    found = unexplained(plan)
    if not found:
        return
    click.echo(f"soak-engine: {name}: " + "; ".join(f"{one.kind}: {one.why}" for one in found))
    kinds = {one.kind for one in found}
    small = shrunk(plan, lambda other: not kinds.isdisjoint(one.kind for one in unexplained(other)))
    click.echo("soak-engine: the smallest case:")
    for line in words(small):
        click.echo(f"  {line}")
    sys.exit(1)


def check_tree(seed: int) -> None:
    """Fill the tree of a seed; where a queue does not come to have what it is owed, say so and leave."""
    for told_by in (told_until_all_work_is_new, told_with_evictions_alone):
        try:
            check_converged(told_by(seed))
        except AssertionError as error:
            click.echo(f"soak-engine: {told_by.__name__}({seed}) of tests.engine.queueing.endless: {error}")
            sys.exit(1)


def words(plan: Plan) -> Iterator[str]:
    """A story, one thing a line, and what the two do not agree in."""
    yield from map(repr, plan.queues)
    yield from map(repr, plan.nodes)
    yield from (f"{number}: {one!r}" for number, one in enumerate(plan.happenings))
    yield f"evicted pods are made anew: {plan.returns}"
    yield from (f"at {one.moment}: {one.kind}: {one.why}" for one in unexplained(plan))


if __name__ == "__main__":
    soak()
