"""What ``gpufleet doctor`` does: gathers what a cluster says, and judges it. ``cli.doctor`` is around it."""

import contextlib
import datetime as dt
import gc
from collections.abc import Callable, Iterator
from pathlib import Path

from gpufleet.doctor.checks import all_checks
from gpufleet.doctor.diagnosis import Diagnosis, diagnose
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.live.gathering import Gathered, gathered


def examine(kubeconfig: Path | None, context: str, progress: Callable[[str], None]) -> Diagnosis:
    """The diagnosis of a cluster. Raises WorldError where it cannot be reached."""
    with without_collections():
        found = gathered(kubeconfig, context, progress=progress)
        return diagnose(facts_of(found, dt.datetime.now(dt.UTC)), all_checks())


@contextlib.contextmanager
def without_collections() -> Iterator[None]:
    """Keeps Python's collector of cyclic garbage from walking over all that was read, again and again.

    Nearly everything that a diagnosis makes lives until its end, so that such walks are half of its time and
    find nothing.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            # What was made meanwhile counts as old: else the collector would walk over all of it at once.
            gc.freeze()
            gc.unfreeze()
            gc.enable()


def facts_of(found: Gathered, now: dt.datetime) -> Facts:
    """What was gathered, as checks read it."""
    return Facts(
        tuple(found.objects), now, found.version, frozenset(found.listed), found.refused, found.metrics
    )
