"""An answer about a fleet, whether it is read from a snapshot or from a cluster as it is now.

The caller brings a function of a picture, which reports through ``Progress`` what takes long. From either
source the function sees what a snapshot of that moment holds.
"""

import asyncio
import datetime as dt
from collections.abc import Callable, Iterable
from typing import TypeVar

from gpufleet.cluster.progress import Progress, Say
from gpufleet.cluster.settings import Settings
from gpufleet.cluster.snapshots.command import read_cluster
from gpufleet.cluster.snapshots.decisions import moment_of
from gpufleet.cluster.snapshots.document import as_written, read
from gpufleet.cluster.watching.picture import Picture
from gpufleet.kube.connection import ClusterChoice

Answered = TypeVar("Answered")
Answering = Callable[[Picture, Settings, dt.datetime, Say], Answered]


def on_snapshot(lines: Iterable[bytes], where: str, answer: Answering[Answered]) -> Answered:
    """The answer on a file of `gpufleet snapshot`, unpacked."""
    with Progress() as progress:
        progress.say("reading the snapshot")
        snapshot = read(lines, where)
        return answer(snapshot.picture, snapshot.settings, moment_of(snapshot), progress.say)


def on_cluster(cluster: ClusterChoice, settings: Settings, answer: Answering[Answered]) -> Answered:
    """The answer on a cluster as it is now."""
    with Progress() as progress:
        picture, settings, at = asyncio.run(read_cluster(cluster, settings, progress.say))
        return answer(as_written(picture), settings, at, progress.say)
