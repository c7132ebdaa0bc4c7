"""An answer about a fleet, whether it is read from a snapshot or from a cluster as it is now.

Who asks brings a function of a picture; it is told through ``Progress`` what takes long. Both ways it sees
what a snapshot of that moment holds.
"""

import asyncio
import datetime as dt
from collections.abc import Callable, Iterable
from typing import TypeVar

from gpufleet.scheduler.picture import Picture
from gpufleet.scheduler.questions.command import Progress, Question
from gpufleet.scheduler.settings import Settings
from gpufleet.scheduler.snapshots.command import Say, read_cluster
from gpufleet.scheduler.snapshots.decisions import moment_of
from gpufleet.scheduler.snapshots.document import as_written, read

Answered = TypeVar("Answered")
Answering = Callable[[Picture, Settings, dt.datetime, Say], Answered]


def on_snapshot(lines: Iterable[bytes], where: str, answer: Answering[Answered]) -> Answered:
    """The answer on a file of `gpufleet snapshot`, unpacked."""
    progress = Progress()
    progress.begin()
    try:
        progress.say("reading the snapshot")
        snapshot = read(lines, where)
        return answer(snapshot.picture, snapshot.settings, moment_of(snapshot), progress.say)
    finally:
        progress.end()


def on_cluster(question: Question, settings: Settings, answer: Answering[Answered]) -> Answered:
    """The answer on a cluster as it is now."""
    progress = Progress()
    progress.begin()
    try:
        picture, at = asyncio.run(read_cluster(question, progress.say))
        return answer(as_written(picture), settings, at, progress.say)
    finally:
        progress.end()
