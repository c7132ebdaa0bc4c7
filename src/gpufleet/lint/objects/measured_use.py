"""What was measured of pods, as rules ask for it: which workload an object is, and when its GPUs idled.

A reading speaks for the usual time between two readings of its pod. Where several are missing, it is not
known what happened, and an idle stretch ends there.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from itertools import pairwise
from statistics import median_low

from gpufleet.lint.objects.manifest import Manifest
from gpufleet.usage.samples import Sample

IDLE_BELOW_MILLI = 50
"""Below five percent a GPU does nothing that would be missed: a clock that ticks, a page that is polled."""
IDLE_HOURS_MAX = 4.0
"""Shorter pauses are usual in a working day; after longer ones a GPU was forgotten."""

GAP_MAX = 3
"""How many usual times between readings may pass until a stretch ends."""
HOUR_S = 3600


@dataclass(frozen=True)
class IdlePod:
    """A pod with GPUs that idled too long at a stretch; ``idle_s`` is all such stretches together."""

    name: str
    gpus: int
    gpu_model: str
    idle_s: int
    longest_s: int
    memory_mib: int
    """The most that it kept in memory meanwhile."""

    @property
    def gpu_s(self) -> int:
        """The idle time of all its GPUs."""
        return self.idle_s * self.gpus


@dataclass(frozen=True)
class MeasuredUse:
    """All samples there are; ``idle_hours_max`` is how long a GPU may idle, ``prices`` are of an hour by
    model.
    """

    samples: tuple[Sample, ...]
    idle_hours_max: float = IDLE_HOURS_MAX
    prices: Mapping[str, Decimal] = field(default_factory=dict)

    def of_object(self, manifest: Manifest) -> dict[str, list[Sample]]:
        """The samples of the object's pods by namespace; more than one if the object does not name its
        own.
        """
        found: dict[str, list[Sample]] = {}
        if not manifest.root.text_at("metadata", "name"):
            # The server completes the name, so the workload's name is not known yet.
            return found
        for name in (manifest.name, f"{manifest.name} ({manifest.kind})"):
            for namespace, samples in self._by_workload.get(name, {}).items():
                if not manifest.namespace or namespace in ("", manifest.namespace):
                    found.setdefault(namespace, []).extend(samples)
        return found

    def idle_pods(self, samples: Iterable[Sample]) -> list[IdlePod]:
        """The pods with GPUs that idled longer at a stretch than they may."""
        by_pod: dict[str, list[Sample]] = {}
        for sample in samples:
            by_pod.setdefault(sample.pod, []).append(sample)
        judged = (_idle(one, self.idle_hours_max * HOUR_S) for _, one in sorted(by_pod.items()))
        return [one for one in judged if one is not None]

    def worth(self, pods: Iterable[IdlePod]) -> Decimal | None:
        """What their idle hours cost; None if the price of one of the models is not known."""
        total = Decimal(0)
        for pod in pods:
            price = self.prices.get(pod.gpu_model)
            if price is None:
                return None
            total += price * pod.gpu_s / HOUR_S
        return total

    @cached_property
    def _by_workload(self) -> dict[str, dict[str, list[Sample]]]:
        found: dict[str, dict[str, list[Sample]]] = {}
        for sample in self.samples:
            found.setdefault(sample.workload, {}).setdefault(sample.namespace, []).append(sample)
        return found


def _idle(samples: list[Sample], longest_allowed_s: float) -> IdlePod | None:
    """What is to be said of one pod; None if it never idled that long."""
    # A pod with several GPUs is as busy as the busiest of them.
    highest: dict[int, Sample] = {}
    for sample in samples:
        other = highest.get(sample.at_s)
        if other is None or sample.gpu_milli > other.gpu_milli:
            highest[sample.at_s] = sample
    ordered = [highest[at_s] for at_s in sorted(highest)]
    if len(ordered) < 2:
        return None
    # The usual pause between readings; a longer one is a gap, not a time of idling.
    usual_s = median_low(after.at_s - before.at_s for before, after in pairwise(ordered))
    long = [
        stretch
        for stretch in _stretches(ordered, usual_s * GAP_MAX)
        if _length_s(stretch, usual_s) > longest_allowed_s
    ]
    if not long:
        return None
    lengths = [_length_s(stretch, usual_s) for stretch in long]
    memory_mib = max(sample.memory_mib for stretch in long for sample in stretch)
    first = ordered[0]
    return IdlePod(first.pod, first.gpus, first.gpu_model, sum(lengths), max(lengths), memory_mib)


def _stretches(samples: list[Sample], gap_max_s: int) -> list[list[Sample]]:
    """The runs of idle readings without a gap."""
    found: list[list[Sample]] = []
    current: list[Sample] = []
    for sample in samples:
        if sample.gpu_milli >= IDLE_BELOW_MILLI:
            current = []
        elif current and sample.at_s - current[-1].at_s <= gap_max_s:
            current.append(sample)
        else:
            current = [sample]
            found.append(current)
    return found


def _length_s(stretch: list[Sample], usual_s: int) -> int:
    return stretch[-1].at_s - stretch[0].at_s + usual_s
