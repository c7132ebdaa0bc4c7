"""What people and autoscalers see, and how soon. Run it with ``make bench-see``.

Terminal view and page at 10,000 nodes, the page's script, a scrape of the agent, and how soon an autoscaler
acts on a gateway and on a GPU.
"""

import click

from bench import autoscaling, frame, gpu_use, page, scrape
from bench.figures import publish
from gpufleet.cli.main import run_program


@click.command()
def main() -> None:
    """Measure terminal view, page, scrape, and how soon an autoscaler acts."""
    notes = ["the view is started at a pseudo-terminal; its server is a process of its own on this machine"]
    found = [*frame.figures(), *page.figures(), *scrape.figures(), *autoscaling.figures()]
    problem = gpu_use.problem()
    if problem:
        notes.append(f"how soon an autoscaler acts on a GPU is not measured: {problem}")
    else:
        found += gpu_use.figures()
    publish("see", found, notes)


if __name__ == "__main__":
    raise SystemExit(run_program(main, None, program="bench.see"))
