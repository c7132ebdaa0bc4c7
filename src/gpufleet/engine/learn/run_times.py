"""How long work runs that does not say so, by how long others ran that were made from the same template.

Where a queue asks for it, the ended runs of its work are remembered by what makes pods alike: queue, shape,
and the name without what controllers append to it (numbers and random letters). Once enough of them are
known, their upper quantile with a margin bounds the next run. Nothing of this is certain, so no reservation
counts on it: such work comes before a reservation as a guest only (``reserve.guests``), and ends for the
holder's sake if it overruns.

A run that was told to end says only that it would have taken longer; it counts if it was longer than its
bound, so that a template whose runs grow is not interrupted for ever.

What was learned outlives a restart (``remembered``, ``recall``). A template goes by a digest then: names of
work are for its owner to read. A version that describes shapes otherwise finds no template again, and learns
anew.
"""

import hashlib
import re
from collections import deque
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

import msgspec

from gpufleet.engine.event import LearnedRuns, RunTimesRecalled
from gpufleet.engine.state.bounds import check_range
from gpufleet.model.identifiers import QueueName
from gpufleet.model.pod import Pod
from gpufleet.model.queue import Queue
from gpufleet.model.shape import Shape

RUNS_LEAST = 5
"""So many runs must have ended before anything is said."""
RUNS_KEPT = 20
"""So many of the last runs count."""
QUANTILE_PERCENT = 95
"""The part of the runs that ended within the bound, before the margin."""
MARGIN_PERCENT = 125
"""What the bound is of that quantile: a run a little longer than all before is no overrun."""
ALIKE_MAX = 4096
"""So many templates are remembered, those whose runs ended last."""

APPENDED = re.compile(r"(?:-(?:[0-9]+|[bcdfghjklmnpqrstvwxz2456789]{5,10}))+$")
"""What controllers append: indices, times, and the letters of which Kubernetes makes random names."""


LONGEST_US = 10 * 366 * 86_400 * 1_000_000
"""No run of work takes ten years."""
DIGEST_BYTES = 16
"""Two of some thousand templates never have the same digest of this length."""


class Alike(NamedTuple):
    """What pods of one template have in common; ``template`` is a digest of the stem and the shape."""

    queue: QueueName
    template: str


@lru_cache(maxsize=ALIKE_MAX)
def template_of(stem_of_name: str, shape: Shape) -> str:
    """By what a template is known in statuses."""
    described = msgspec.json.encode((stem_of_name, shape), order="deterministic")
    return hashlib.blake2b(described, digest_size=DIGEST_BYTES).hexdigest()


def alike(queue: QueueName, pod: Pod) -> Alike:
    """The template of a pod."""
    return Alike(queue, template_of(stem(pod.name or pod.uid), pod.shape))


def stem(name: str) -> str:
    """The name of a pod without what its controllers appended to that of their template."""
    return APPENDED.sub("", name)


class LearnedRunTimes:
    """Remembers runs, for the ``queues`` that ask for it."""

    def __init__(self) -> None:
        self.queues: dict[QueueName, None] = {}
        self._runs: dict[Alike, deque[int]] = {}

    def update(self, queue: Queue) -> None:
        """A queue appears or changes."""
        if queue.learn_run_times:
            self.queues[queue.name] = None
        else:
            self.forget(queue.name)

    def forget(self, name: QueueName) -> None:
        """A queue does not ask for it any more: what was learned of its work is forgotten."""
        if name in self.queues:
            del self.queues[name]
            self._runs = {key: runs for key, runs in self._runs.items() if key.queue != name}

    def learns(self, queue: QueueName, pod: Pod) -> bool:
        """True if run times of work like this pod are learned, because it states none."""
        return queue in self.queues and pod.run_time_us is None

    def ended(self, queue: QueueName, pod: Pod, ran_us: int, *, ended_by_us: bool) -> None:
        """A pod has run for so long; ``ended_by_us``: it did not end by itself."""
        if not self.learns(queue, pod):
            return
        bound_us = self.bound_us(queue, pod)
        if ended_by_us and (bound_us is None or ran_us <= bound_us):
            return
        key = alike(queue, pod)
        # Taken out and put back, so that the templates stand in the order in which their runs ended.
        runs = self._runs.pop(key, None) or deque(maxlen=RUNS_KEPT)
        runs.append(ran_us)
        self._keep(key, runs)

    def _keep(self, key: Alike, runs: deque[int]) -> None:
        self._runs[key] = runs
        if len(self._runs) > ALIKE_MAX:
            del self._runs[next(iter(self._runs))]

    def remembered(self) -> tuple[LearnedRuns, ...]:
        """All that was learned, the templates whose runs ended last at the end."""
        return tuple(LearnedRuns(key.queue, key.template, tuple(runs)) for key, runs in self._runs.items())

    def recall(self, happened: RunTimesRecalled) -> None:
        """What was learned before a restart, of queues that still ask for it."""
        check_runs(happened.learned)
        for one in happened.learned:
            key = Alike(one.queue, one.template)
            if one.queue in self.queues and one.runs_us and key not in self._runs:
                self._keep(key, deque(one.runs_us, maxlen=RUNS_KEPT))

    def bound_us(self, queue: QueueName, pod: Pod) -> int | None:
        """How long a pod is expected to run at most, None where that is not known."""
        if not self.learns(queue, pod):
            return None
        runs = self._runs.get(alike(queue, pod), ())
        if len(runs) < RUNS_LEAST:
            return None
        # The nearest rank, rounded up in integers: every machine finds the same run.
        rank = -(-len(runs) * QUANTILE_PERCENT // 100)
        return sorted(runs)[rank - 1] * MARGIN_PERCENT // 100


def check_runs(learned: Iterable[LearnedRuns]) -> None:
    """Raises EventError for a length that no run can have."""
    for one in learned:
        for run_us in one.runs_us:
            check_range(run_us, 0, LONGEST_US, f"learned run times of queue {one.queue}")
