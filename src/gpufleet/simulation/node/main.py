"""The program: ``python -m gpufleet.simulation.node.main --seed 1..200`` runs the node agent through seeds.

It ends with 0 where every promise held, and 1 where one broke.
"""

import logging
import sys

import click

from gpufleet.model.errors import InputError
from gpufleet.simulation.command import read_seeds
from gpufleet.simulation.node.run import NodeOutcome, run_node

STORY_LINES = 60


def story(outcome: NodeOutcome) -> str:
    """What broke in a run, the end of what happened, and how to see it again."""
    kind = "shares" if outcome.shares else "whole GPUs"
    lines = [f"seed {outcome.seed}, {kind}: {len(outcome.broken)} broken promises"]
    lines += [f"  {one}" for one in outcome.broken]
    lines += [f"    {one}" for one in outcome.story[-STORY_LINES:]]
    lines.append(f"  again: python -m gpufleet.simulation.node.main --seed {outcome.seed}")
    return "\n".join(lines)


@click.command(help="Run the node agent under a simulated kubelet; it dies at its writes.")
@click.option("--seed", "seeds", default="1", show_default=True, help="A number, or N..M.")
def main(seeds: str) -> None:
    """Run each seed, and tell those that failed."""
    logging.disable(logging.CRITICAL)
    try:
        wanted = read_seeds(seeds)
    except InputError as error:
        click.echo(str(error), err=True)
        sys.exit(2)
    failed = died = 0
    for seed in wanted:
        outcome = run_node(seed)
        died += len(outcome.crashes)
        if not outcome.held:
            failed += 1
            click.echo(story(outcome))
    click.echo(f"{len(wanted)} runs of a node, {failed} failed; the agent died {died} times at its writes")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
