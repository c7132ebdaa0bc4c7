"""Runs all of it, or the parts that are named, and publishes the figures beside those that others publish.

Each part's figures are kept in build/bench/queues-parts.json when it ends, so that a run that is cut short
has lost nothing, and parts can be run one by one.
"""

import sys
from collections.abc import Callable, Iterable

import click
import msgspec

from bench.figures import FOLDER, Figure, machine, publish
from bench.queues import exhaustive, kai, kueue, openb, optimality, thousand_queues
from gpufleet.cli.main import run_program
from gpufleet.cli.parameters import OneOf
from gpufleet.model.model_errors import InputError

KEPT = "queues-parts.json"


class Measured(msgspec.Struct, frozen=True):
    """The figures of a part, and the machine as it began."""

    began: str
    figures: list[Figure]


def live_figures() -> list[Figure]:
    """KAI's cases on a control plane, which nothing else here needs."""
    from bench.queues import live

    return live.figures()


PARTS: dict[str, Callable[[], list[Figure]]] = {
    "baseline": lambda: kueue.figures(kueue.BASELINE),
    "large-scale": lambda: kueue.figures(kueue.LARGE_SCALE),
    "kai": kai.figures,
    "live": live_figures,
    "thousand": thousand_queues.figures,
    "openb": openb.figures,
    "exhaustive": exhaustive.figures,
    "highs": optimality.figures,
}


def run(names: Iterable[str], known: dict[str, Measured]) -> dict[str, Measured]:
    """Measure these parts and keep each."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in names:
        began = machine()
        known[name] = Measured(began, PARTS[name]())
        text = msgspec.json.format(msgspec.json.encode(known), indent=1)
        (FOLDER / KEPT).write_bytes(text + b"\n")
    return known


@click.command()
@click.option("--add", is_flag=True, help="Keep the figures of the other parts that were measured before.")
@click.argument("parts", nargs=-1, type=OneOf(list(PARTS)))
def main(add: bool, parts: tuple[str, ...]) -> None:
    """Measure PARTS, or all."""
    known: dict[str, Measured] = {}
    kept = FOLDER / KEPT
    if add and kept.exists():
        try:
            known = msgspec.json.decode(kept.read_bytes(), type=dict[str, Measured])
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            expected = "a run without --add first"
            raise InputError(
                f"no figures: {error}", field="--add", value=str(kept), expected=expected
            ) from error
    run(parts or PARTS, known)
    measured = [(name, known[name]) for name in PARTS if name in known]
    notes = [f"{name} began on {one.began}" for name, one in measured]
    publish("queues", [figure for _, one in measured for figure in one.figures], notes)


if __name__ == "__main__":
    sys.exit(run_program(main, program="python -m bench.queues"))
