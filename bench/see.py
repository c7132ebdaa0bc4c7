"""What people and autoscalers see, and how soon. Run it with ``make bench-see``.

Terminal view and page at 10,000 nodes, the page's script, a scrape of the agent, how soon an alert fires, and
how soon an autoscaler acts on a gateway and on a GPU. What mostly waits for a period of somebody else is
measured side by side. Each figure is told when it is there.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import AbstractContextManager, ExitStack
from typing import NamedTuple

import click

from bench import alert_delay, autoscaling, frame, gpu_use, page, scrape
from bench.figures import Figure, publish
from bench.progress import say
from gpufleet.cli.main import run_program

Measure = Callable[[], list[Figure]]


class Part(NamedTuple):
    """What is measured by work, how long that takes, and how."""

    words: str
    about_s: int
    figures: Measure


class Wait(NamedTuple):
    """What is measured by waiting, and what has to run for it."""

    words: str
    started: Callable[[], AbstractContextManager[Measure]]


PARTS = (
    Part("the view at a terminal", 30, frame.figures),
    Part("the page, with a minute at rest", 110, page.figures),
    Part("scrapes of an agent", 45, scrape.figures),
)
WAITS = (
    Wait("an agent with a Prometheus", alert_delay.started),
    Wait("a control plane with an autoscaler", autoscaling.started),
)
USE = Wait("a cluster with a real node and an autoscaler", gpu_use.started)
MISSED = 1
"""The exit status where a figure misses its target."""
WAITS_S = 240
"""How long the slowest of them takes."""

NOTE = "the view is started at a pseudo-terminal; its server is a process of its own on this machine"


@click.command()
def main() -> None:
    """Measure terminal view, page, scrape, alerts, and how soon an autoscaler acts."""
    found, notes = [], [NOTE]
    for part in PARTS:
        say(f"{part.words}, about {part.about_s} s")
        found += _told(part.figures())
    problem = gpu_use.problem()
    if problem:
        notes.append(f"how soon an autoscaler acts on a GPU is not measured: {problem}")
    if page.painted_problem():
        notes.append(f"the page is not opened in a browser: {page.painted_problem()}")
    found += _side_by_side(WAITS if problem else (*WAITS, USE))
    publish("see", found, notes)
    if any(one.met is False for one in found):
        raise click.exceptions.Exit(MISSED)


def _side_by_side(waits: Iterable[Wait]) -> list[Figure]:
    """Start all, then measure all at once."""
    with ExitStack() as stack:
        measures = []
        for wait in waits:
            say(f"{wait.words} starts")
            measures.append(stack.enter_context(wait.started()))
        say(f"alerts and autoscalers, about {WAITS_S} s")
        with ThreadPoolExecutor(len(measures)) as pool:
            running: list[Future[list[Figure]]] = [pool.submit(measure) for measure in measures]
            return [one for done in as_completed(running) for one in _told(done.result())]


def _told(figures: list[Figure]) -> list[Figure]:
    """The same figures, each in a line on the terminal."""
    for one in figures:
        click.echo(f"  {one.name}: {one.value:.4g} {one.unit}".rstrip(), err=True)
    return figures


if __name__ == "__main__":
    raise SystemExit(run_program(main, None, program="bench.see"))
