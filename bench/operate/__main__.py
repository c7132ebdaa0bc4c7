"""What the operation of nodes costs, beside its limits. Run it with ``make bench-operate``.

``python -m bench.operate --part projects --projects 50`` runs one part, and that one with fewer projects: its
memory is then told for these, and times count as before.

A part is a module whose ``figures()`` gives its rows, and ``NOTES`` what is to be known of them.
"""

from types import ModuleType

import click

from bench import idle_work
from bench.figures import Figure, publish
from bench.operate import admission_latency, at_rest, drain_backfill, drain_loss, planning_cost, projects
from gpufleet.cli.main import run_program

PARTS: tuple[ModuleType, ...] = (
    drain_loss,
    drain_backfill,
    idle_work,
    projects,
    admission_latency,
    at_rest,
    planning_cost,
)


NAMES = {part.__name__.rpartition(".")[2]: part for part in PARTS}


@click.command()
@click.option("--part", "chosen", multiple=True, type=click.Choice(list(NAMES)), help="This part alone.")
@click.option("--projects", "count", type=click.IntRange(1), default=projects.PROJECTS, show_default=True)
def main(chosen: tuple[str, ...], count: int) -> None:
    """Measure what a rollout loses, what parking gives back, and what the rest of operation costs."""
    found: list[Figure] = []
    notes: list[str] = []
    for name in chosen or NAMES:
        part = NAMES[name]
        found += projects.figures(count) if part is projects else part.figures()
        notes += part.NOTES
    # A part alone does not take the place of the figures of all.
    publish("operate" if not chosen else f"operate-{'-'.join(chosen)}", found, notes)


if __name__ == "__main__":
    raise SystemExit(run_program(main, None, program="bench.operate"))
