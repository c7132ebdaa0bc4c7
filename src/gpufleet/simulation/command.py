"""``gpufleet-sim``: run the live scheduler through seeds and faults, and tell the story of what broke.

Kept out of the ``gpufleet`` command: it is for those who work on gpufleet. It ends with 0 where every
promise held, 1 where one broke or the code failed, 2 where the run that was asked for makes no sense.
"""

import sys
from collections.abc import Callable, Sequence

import click

from gpufleet.model.errors import InputError, InternalError
from gpufleet.simulation.errors import ScenarioError
from gpufleet.simulation.faults.catalogue import BY_NAME, CATALOGUE, make_faults
from gpufleet.simulation.scenario import Outcome, Plan, Scheduler, run_scenario

HELD, BROKEN, BAD_INPUT = 0, 1, 2
MOST_SEEDS = 1_000_000
STORY_LINES = 30


def read_seeds(text: str) -> range:
    """``7`` or ``1..100`` as seeds. Raises ScenarioError."""
    first, dots, last = text.partition("..")
    if not first.isdecimal() or (dots and not last.isdecimal()):
        raise ScenarioError("no seeds", field="--seed", value=text, expected="a number, or N..M")
    seeds = range(int(first), int(last if dots else first) + 1)
    if not 0 < len(seeds) <= MOST_SEEDS:
        raise ScenarioError(
            "no seeds", field="--seed", value=text, expected=f"between 1 and {MOST_SEEDS} of them"
        )
    return seeds


def read_faults(text: str) -> tuple[str, ...]:
    """Names between commas, each checked. Raises ScenarioError."""
    names = tuple(filter(None, text.split(",")))
    for name in names:
        if name not in BY_NAME:
            known = ", ".join(BY_NAME)
            raise ScenarioError("no such fault", field="--fault", value=name, expected=f"one of {known}")
    return names


def run_seeds(
    scheduler: Scheduler,
    names: Sequence[str],
    seeds: range,
    say: Callable[[str], None],
    plan: Plan | None = None,
) -> int:
    """Run every seed, tell each that failed, and return the exit code."""
    failed = 0
    for seed in seeds:
        try:
            outcome = run_scenario(scheduler, seed, lambda random: make_faults(names, random), plan)
        except InternalError as error:
            say(f"seed {seed}: the run failed\n{error}\n{_again(names, seed)}")
            failed += 1
            continue
        if not outcome.held:
            say(story(outcome, names))
            failed += 1
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


def command(scheduler: Scheduler) -> click.Command:
    """The command line around a scheduler."""

    @click.command("gpufleet-sim", help="Run the live scheduler in a simulated cluster with seeded faults.")
    @click.option("--fault", "faults", default="", help="Names of faults, with commas between them.")
    @click.option("--seed", "seeds", default="1", show_default=True, help="A number, or N..M.")
    @click.option("--list", "listing", is_flag=True, help="List all faults and end.")
    def run(faults: str, seeds: str, listing: bool) -> None:
        if listing:
            click.echo(catalogue())
            return
        try:
            code = run_seeds(scheduler, read_faults(faults), read_seeds(seeds), click.echo)
        except InputError as error:
            click.echo(f"gpufleet-sim: {error}", err=True)
            code = BAD_INPUT
        sys.exit(code)

    return run
