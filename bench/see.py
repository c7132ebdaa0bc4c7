"""What people see, and how soon: terminal view and page at 10,000 nodes. Run it with ``make bench-see``."""

import click

from bench import autoscaling, frame, page
from bench.figures import publish
from gpufleet.cli.main import run_program


@click.command()
def main() -> None:
    """Measure terminal view and page at 10,000 nodes, and how soon an autoscaler acts."""
    notes = ["the view is started at a pseudo-terminal; its server is a process of its own on this machine"]
    publish("see", [*frame.figures(), *page.figures(), *autoscaling.figures()], notes)


if __name__ == "__main__":
    raise SystemExit(run_program(main, None, program="bench.see"))
