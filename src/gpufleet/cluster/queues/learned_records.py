"""Learned run times of a queue's work, as they are written into the status of its FleetQueue and read from
there by the next leader and by ``explain``.

A status has the templates whose runs ended last, by digests and not by names of work. What
cannot have been written by a scheduler is dropped, template by template, with a line in the log.
"""

import logging
import re
from collections.abc import Iterable

from gpufleet.engine.event import LearnedRuns
from gpufleet.engine.learn.run_times import LONGEST_US, RUNS_KEPT
from gpufleet.kube.objects.fleet_queues import LearnedRunTimeStatus
from gpufleet.model.identifiers import QueueName
from gpufleet.model.model_errors import printable

LOG = logging.getLogger(__name__)

TEMPLATES_MAX = 64
"""As many as the definition of FleetQueue takes; with 20 runs each they are less than 20 KiB."""

DIGEST = re.compile(r"[0-9a-f]{32}")


def written(learned: Iterable[LearnedRuns]) -> dict[QueueName, tuple[LearnedRunTimeStatus, ...]]:
    """What the statuses of the queues say: of each queue the templates whose runs ended last."""
    found: dict[QueueName, list[LearnedRunTimeStatus]] = {}
    for one in learned:
        found.setdefault(one.queue, []).append(LearnedRunTimeStatus(one.template, one.runs_us))
    return {queue: tuple(of_queue[-TEMPLATES_MAX:]) for queue, of_queue in found.items()}


def read(statuses: Iterable[LearnedRunTimeStatus], queue: QueueName) -> tuple[LearnedRuns, ...]:
    """What an earlier leader wrote into the status of a queue."""
    found: list[LearnedRuns] = []
    for one in statuses:
        if is_readable(one):
            found.append(LearnedRuns(queue, one.template, one.runs_us))
        else:
            extra = {"queue": str(queue), "template": printable(one.template, 64)}
            LOG.warning(
                "learned run times in the status of a queue make no sense and are dropped", extra=extra
            )
    return tuple(found)


def is_readable(one: LearnedRunTimeStatus) -> bool:
    """True for what a scheduler can have written."""
    if DIGEST.fullmatch(one.template) is None or not 0 < len(one.runs_us) <= RUNS_KEPT:
        return False
    return all(0 <= run_us <= LONGEST_US for run_us in one.runs_us)
