"""What ``gpufleet doctor`` does: gathers what a cluster says, and judges it. ``cli.doctor`` is around it."""

import datetime as dt
from collections.abc import Callable
from pathlib import Path

from gpufleet.doctor.checks import all_checks
from gpufleet.doctor.diagnosis import Diagnosis, diagnose
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.live.gathering import Gathered, gathered
from gpufleet.progress.collection_pause import without_collections


def examine(kubeconfig: Path | None, context: str, progress: Callable[[str], None]) -> Diagnosis:
    """The diagnosis of a cluster. Raises WorldError where it cannot be reached."""
    with without_collections():
        found = gathered(kubeconfig, context, progress=progress)
        return diagnose(facts_of(found, dt.datetime.now(dt.UTC)), all_checks())


def facts_of(found: Gathered, now: dt.datetime) -> Facts:
    """What was gathered, as checks read it."""
    return Facts(
        tuple(found.objects), now, found.version, frozenset(found.listed), found.refused, found.metrics
    )
