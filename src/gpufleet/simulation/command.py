"""``gpufleet-sim``: run the live scheduler through seeds and faults, and tell the story of what broke.

Kept out of the ``gpufleet`` command: it is for the developers of gpufleet. It ends with 0 where every promise
held, 1 where one broke or the code failed, 2 where the run that was asked for makes no sense. One seed is
told in full; of many only those that failed. Two runs of one seed print the same story.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence

import click

from gpufleet.model.label_advice import nearest
from gpufleet.model.model_errors import InternalError
from gpufleet.simulation.faults.catalogue import BY_NAME, CATALOGUE, make_faults
from gpufleet.simulation.invariants import PROMISES
from gpufleet.simulation.scenario import Outcome, RunObserver, run_scenario
from gpufleet.simulation.simulation_errors import ScenarioError
from gpufleet.simulation.timeline import timeline
from gpufleet.simulation.world import RunPlan, Scheduler

HELD, BROKEN = 0, 1
MOST_SEEDS = 1_000_000
"""More seeds than a machine runs in a week: a larger range is a slip of the pen."""

STORY_LINES = 30
"""The end of a story says what went wrong; more lines of it would hide which rule broke."""

ALL = "all"

NO_PLANS: Mapping[str, RunPlan] = {}

Say = Callable[[str], None]


def read_seeds(text: str) -> range:
    """``7`` or ``1..100`` as seeds. Raises ScenarioError."""
    first, dots, last = text.partition("..")
    if not _is_number(first) or (dots and not _is_number(last)):
        raise ScenarioError("no seeds", field="--seed", value=text, expected="a number such as 7, or N..M")
    seeds = range(int(first), int(last if dots else first) + 1)
    if not 0 < len(seeds) <= MOST_SEEDS:
        expected = f"from 1 to {MOST_SEEDS:,} seeds, such as 7 or 1..100"
        raise ScenarioError("no such range", field="--seed", value=text, expected=expected)
    return seeds


def _is_number(text: str) -> bool:
    # Not isdigit, which takes superscripts; and few digits, as int() of thousands raises an error of its own.
    return text.isascii() and text.isdecimal() and len(text) <= 18


def read_faults(text: str) -> tuple[str, ...]:
    """Names between commas, each checked. Raises ScenarioError."""
    names = tuple(filter(None, text.split(",")))
    for name in names:
        if name not in BY_NAME:
            near = nearest(name, BY_NAME)
            expected = f"all, or one that --list shows{f'; did you mean {near}?' if near else ''}"
            raise ScenarioError("no such fault", field="--fault", value=name, expected=expected)
    return names


def read_plan(name: str, plans: Mapping[str, RunPlan]) -> RunPlan:
    """The plan of this name. Raises ScenarioError."""
    found = plans.get(name)
    if found is None:
        known = ", ".join(plans)
        raise ScenarioError("no such plan", field="--plan", value=name, expected=f"one of {known}")
    return found


def run_seeds(
    scheduler: Scheduler,
    names: Sequence[str],
    seeds: range,
    say: Say,
    plan: RunPlan | None = None,
    progress: Say = lambda _: None,
    observer: RunObserver | None = None,
) -> int:
    """Run every seed, tell each that failed and one that is alone, and return the exit code."""
    failed = 0
    for number, seed in enumerate(seeds, start=1):
        progress(f"seed {seed}, {number} of {len(seeds)}, {failed} failed")
        try:
            outcome = run_scenario(scheduler, seed, lambda random: make_faults(names, random), plan, observer)
        except InternalError as error:
            say(f"seed {seed}: the run failed\n{error}\n{_again(names, seed)}")
            failed += 1
            continue
        if len(seeds) == 1:
            say("\n".join(whole_story(outcome)))
            if not outcome.held:
                say(_again(names, seed))
        elif not outcome.held:
            say(story(outcome, names))
        failed += not outcome.held
    progress("")
    if observer is not None:
        say(observer.summary())
    say(f"{len(seeds)} runs, {failed} failed, faults: {', '.join(names) or 'none'}")
    return BROKEN if failed else HELD


def story(outcome: Outcome, names: Sequence[str]) -> str:
    """What broke, what the faults did, and how to see it again."""
    lines = [f"seed {outcome.seed}: {len(outcome.broken)} broken promises"]
    lines += [f"  {broken}" for broken in outcome.broken[:STORY_LINES]]
    if outcome.happened:
        lines += ["  what happened:", *(f"    {one}" for one in outcome.happened[-STORY_LINES:])]
    lines.append(f"  {_again(names, outcome.seed)}")
    return "\n".join(lines)


def whole_story(outcome: Outcome) -> Iterator[str]:
    """The timeline of a run, what the faults did, and the verdict on every promise."""
    yield from map(str, timeline(outcome))
    yield ""
    for name, times in outcome.acted.items():
        yield f"fault {name} acted {times} times"
    yield (
        f"seed {outcome.seed}: {outcome.virtual_s:.0f} s of virtual time, {outcome.bound} pods have a node, "
        f"{outcome.waiting} wait, {outcome.restarts} restarts, history {outcome.digest[:16]}"
    )
    for name, words in PROMISES.items():
        broken = [str(one) for one in outcome.broken if one.invariant == name]
        yield f"{name:<6} {'broken' if broken else 'held':<7} {words}"
        yield from (f"         {one}" for one in broken[:STORY_LINES])


def _again(names: Sequence[str], seed: int) -> str:
    fault = f"--fault {','.join(names)} " if names else ""
    return f"again: gpufleet-sim {fault}--seed {seed}"


def catalogue() -> str:
    """All faults, one a line."""
    return "\n".join(
        f"{row.name:<24} {','.join(map(str, row.numbers)):<4} {'real' if row.on_real_server else '':<5}"
        f"{row.words}"
        for row in CATALOGUE
    )


def command(
    scheduler: Scheduler,
    plan_for: Callable[[Sequence[str]], RunPlan | None] = lambda _: None,
    observer: RunObserver | None = None,
    plans: Mapping[str, RunPlan] = NO_PLANS,
) -> click.Command:
    """The command line around a scheduler.

    ``plan_for`` says how a run with these faults goes, unless one of ``plans`` is asked for by name;
    ``observer`` looks on where that is asked for.
    """

    @click.command("gpufleet-sim", help="Run the live scheduler in a simulated cluster with seeded faults.")
    @click.option("--fault", "faults", default="", help="Names, all at once; or: all, one by one.")
    @click.option("--seed", "seeds", default="1", show_default=True, help="A number, or N..M.")
    @click.option("--list", "listing", is_flag=True, help="List all faults and end.")
    @click.option("--plan", "plan_name", default="", help=f"The work in all runs: {', '.join(plans)}.")
    @click.option("--agree", is_flag=True, help="Compare explain with the scheduler all along (slower).")
    def run(faults: str, seeds: str, listing: bool, plan_name: str, agree: bool) -> int:
        if listing:
            click.echo(catalogue())
            return HELD
        # First without any fault: what fails there is not what a fault finds.
        alone: list[tuple[str, ...]] = [(), *((row.name,) for row in CATALOGUE)]
        chosen = alone if faults == ALL else [read_faults(faults)]
        wanted = read_seeds(seeds)
        plan = read_plan(plan_name, plans) if plan_name else None
        codes = [
            run_seeds(
                scheduler,
                names,
                wanted,
                click.echo,
                plan_for(names) if plan is None else plan,
                _progress,
                observer if agree else None,
            )
            for names in chosen
        ]
        return max(codes)

    return run


def _progress(words: str) -> None:
    """One line on a terminal that is written over; nothing elsewhere."""
    if sys.stderr.isatty():
        click.echo(f"\r\x1b[K{words}", err=True, nl=False)
