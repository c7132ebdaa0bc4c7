"""What the operation of nodes costs, beside its limits. Run it with ``make bench-operate``.

A part is a module whose ``figures()`` gives its rows, and ``NOTES`` what is to be known of them.
"""

from types import ModuleType

import click

from bench import idle_work
from bench.figures import Figure, publish
from bench.operate import admission_latency, at_rest, drain_loss, planning_cost, projects
from gpufleet.cli.main import run_program

PARTS: tuple[ModuleType, ...] = (
    drain_loss,
    idle_work,
    projects,
    admission_latency,
    at_rest,
    planning_cost,
)


@click.command()
def main() -> None:
    """Measure what a rollout loses, what parking gives back, and what the rest of operation costs."""
    found: list[Figure] = []
    notes: list[str] = []
    for part in PARTS:
        found += part.figures()
        notes += part.NOTES
    publish("operate", found, notes)


if __name__ == "__main__":
    raise SystemExit(run_program(main, None, program="bench.operate"))
