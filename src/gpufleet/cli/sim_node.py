"""The program: ``python -m gpufleet.cli.sim_node --seed 1..200`` runs the node agent through seeds.

It ends with 0 where every promise held, and 1 where one broke.
"""

import logging
import sys

import click

from gpufleet.cli.main import run_program
from gpufleet.simulation.command import read_seeds
from gpufleet.simulation.node.run import NodeOutcome, run_node

STORY_LINES = 60
"""The end of a story says what went wrong; more lines of it would hide which rule broke."""


def story(outcome: NodeOutcome) -> str:
    """What broke in a run, the end of what happened, and how to see it again."""
    kind = "shares" if outcome.shares else "whole GPUs"
    lines = [f"seed {outcome.seed}, {kind}: {len(outcome.broken)} broken promises"]
    lines += [f"  {one}" for one in outcome.broken]
    lines += [f"    {one}" for one in outcome.story[-STORY_LINES:]]
    lines.append(f"  again: python -m gpufleet.cli.sim_node --seed {outcome.seed}")
    return "\n".join(lines)


@click.command(help="Run the node agent under a simulated kubelet; it dies at its writes.")
@click.option("--seed", "seeds", default="1", show_default=True, help="A number, or N..M.")
def command(seeds: str) -> int:
    """Run each seed, and tell those that failed."""
    wanted = read_seeds(seeds)
    logging.disable(logging.CRITICAL)
    failed = died = 0
    for seed in wanted:
        outcome = run_node(seed)
        died += len(outcome.crashes)
        if not outcome.held:
            failed += 1
            click.echo(story(outcome))
    click.echo(f"{len(wanted)} runs of a node, {failed} failed; the agent died {died} times at its writes")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(run_program(command, program="python -m gpufleet.cli.sim_node"))
