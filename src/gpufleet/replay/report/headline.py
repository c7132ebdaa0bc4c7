"""The top of the page as values, and the sentence that says what was replayed.

``saturate_headline`` and ``timeline_headline`` find what is worth saying, ``page`` shows it.
"""

import msgspec

from gpufleet.replay.report.figures import plural
from gpufleet.replay.results import SweepResult


class Tile(msgspec.Struct, frozen=True):
    """One figure at the top: what it is, the figure, and a line about it."""

    label: str
    figure: str
    about: str


class Headline(msgspec.Struct, frozen=True):
    """The top of the page."""

    title: str
    replayed: str
    sentences: tuple[str, ...]
    tiles: tuple[Tile, ...]


def replayed(result: SweepResult) -> str:
    """Which tasks on which machines, how many policies and seeds."""
    seeds = {run.seed for run in result.runs}
    load = (
        f", until the tasks that had come asked for {result.load * 100:g}% of the GPUs"
        if result.mode != "timeline"
        else ", at the times the trace has"
    )
    return (
        f"{plural(result.tasks, 'task')} of {result.pods_file} on {plural(result.nodes, 'node')} "
        f"with {plural(result.gpus, 'GPU')}{load}: "
        f"{plural(len(result.policies), 'policy', 'policies')}, {plural(len(seeds), 'seed')}, "
        f"{plural(len(result.runs), 'run')}."
    )
