"""Workloads from samples: their replicas, each with its use over time, and figures over all of them.

Pods of one workload that never ran at the same time are one replica: a nightly job that ran ten times needed
one GPU, not ten. ``choosing`` reads the summary, ``risk`` adds up replicas instant by instant.
"""

from collections.abc import Iterable, Sequence
from fractions import Fraction

import msgspec

from gpufleet.model.device import WHOLE_GPU_MILLI
from gpufleet.model.model_errors import InputError
from gpufleet.usage.samples import Sample, SampleKind

PERCENT = 100


class Replica(msgspec.Struct, frozen=True):
    """What ran in one place of a workload: ``use_milli`` by instant, the highest of each."""

    name: str
    use_milli: dict[int, int]
    memory_peak_mib: int


class SharingWorkload(msgspec.Struct, frozen=True):
    """All replicas of a workload, and what its pods ask for."""

    name: str
    gpus: int
    gpu_model: str
    kind: SampleKind
    strict: bool
    cpu_milli: int
    host_memory_mib: int
    replicas: tuple[Replica, ...]

    @property
    def uses(self) -> list[int]:
        """Every measured instant of every replica, in milli."""
        return [use for replica in self.replicas for use in replica.use_milli.values()]

    @property
    def mean_milli(self) -> int:
        """The average of all measured instants, rounded up."""
        return -(-sum(self.uses) // len(self.uses))

    @property
    def memory_peak_mib(self) -> int:
        """The most that any replica had."""
        return max(replica.memory_peak_mib for replica in self.replicas)

    @property
    def gpus_today(self) -> int:
        """The whole GPUs that all replicas hold."""
        return self.gpus * len(self.replicas)

    def percentile(self, percent: int) -> int:
        """The smallest use that so many percent of the instants do not exceed (nearest rank)."""
        return percentile(self.uses, percent)


def percentile(values: Sequence[int], percent: int) -> int:
    """By nearest rank: of 20 values the 95th is the 19th smallest."""
    rank = max(1, -(-percent * len(values) // PERCENT))
    return sorted(values)[rank - 1]


def workloads_of(
    samples: Iterable[Sample], step_s: int, default_model: str = ""
) -> tuple[SharingWorkload, ...]:
    """The workloads by name; instants are ``step_s`` long."""
    by_workload: dict[str, list[Sample]] = {}
    for sample in samples:
        by_workload.setdefault(title_of(sample), []).append(sample)
    if not by_workload:
        raise InputError("no sample", expected="at least one row of use")
    return tuple(_workload(name, found, step_s, default_model) for name, found in sorted(by_workload.items()))


def title_of(sample: Sample) -> str:
    """The workload's name, after its namespace where that is known."""
    return f"{sample.namespace}/{sample.workload}" if sample.namespace else sample.workload


def split_by_gpus(samples: Sequence[Sample]) -> list[Sample]:
    """The samples, with pods of a workload that ask for unlike GPUs in workloads of their own.

    For measured samples, not for lists that a person wrote: a Deployment that ran on two models, or was
    changed from one GPU to two meanwhile, is no mistake.
    """
    kinds: dict[str, set[tuple[str, int]]] = {}
    for sample in samples:
        kinds.setdefault(title_of(sample), set()).add((sample.gpu_model, sample.gpus))
    found = []
    for sample in samples:
        alike = kinds[title_of(sample)]
        words = [sample.workload]
        if len({model for model, _ in alike}) > 1:
            words.append(f"on {sample.gpu_model}")
        if len({gpus for _, gpus in alike}) > 1:
            words.append("with 1 GPU" if sample.gpus == 1 else f"with {sample.gpus} GPUs")
        renamed = sample if len(words) == 1 else msgspec.structs.replace(sample, workload=" ".join(words))
        found.append(renamed)
    return found


def _workload(name: str, samples: list[Sample], step_s: int, default_model: str) -> SharingWorkload:
    first = samples[0]
    for column, stated in (
        ("gpus_requested", {sample.gpus for sample in samples}),
        ("gpu_model", {sample.gpu_model for sample in samples}),
        ("kind", {sample.kind.value for sample in samples}),
        ("isolation", {sample.strict for sample in samples}),
    ):
        if len(stated) > 1:
            raise InputError(
                "differs within the workload",
                where=f"workload {name}",
                field=column,
                value=sorted(map(str, stated)),
                expected="one value, or workloads of other names",
            )
    model = first.gpu_model or default_model
    if not model:
        raise InputError(
            "the GPU on which this was measured is not named",
            where=f"workload {name}",
            field="gpu_model",
            expected="a model in the column gpu_model, or nodes of one model",
        )
    return SharingWorkload(
        name,
        first.gpus,
        model,
        first.kind,
        first.strict,
        max(sample.cpu_milli for sample in samples),
        max(sample.host_memory_mib for sample in samples),
        _replicas(samples, step_s),
    )


def _replicas(samples: list[Sample], step_s: int) -> tuple[Replica, ...]:
    pods: dict[str, dict[int, int]] = {}
    memory: dict[str, int] = {}
    for sample in samples:
        instant, uses = sample.at_s // step_s, pods.setdefault(sample.pod, {})
        uses[instant] = max(uses.get(instant, 0), sample.gpu_milli)
        memory[sample.pod] = max(memory.get(sample.pod, 0), sample.memory_mib)
    places: list[list[str]] = []
    # In the order in which they began: then there are only as many places as pods ran at once.
    for pod in sorted(pods, key=lambda name: (min(pods[name]), name)):
        # A pod that begins after another has ended takes its place: the workload has as many at once.
        free = next((place for place in places if max(pods[place[-1]]) < min(pods[pod])), None)
        if free is None:
            places.append([pod])
        else:
            free.append(pod)
    return tuple(
        Replica(
            place[0],
            {instant: use for pod in place for instant, use in pods[pod].items()},
            max(memory[pod] for pod in place),
        )
        for place in places
    )


def risk(replicas: Sequence[Replica], limit_milli: int = WHOLE_GPU_MILLI) -> Fraction:
    """The part of the measured instants at which these together are above the limit.

    Averages hide what matters: two pods that use 80 % in turn are good neighbours on one GPU, and two that do
    so at once are not.
    """
    together: dict[int, int] = {}
    for replica in replicas:
        for instant, use in replica.use_milli.items():
            together[instant] = together.get(instant, 0) + use
    over = sum(1 for use in together.values() if use > limit_milli)
    return Fraction(over, len(together)) if together else Fraction(0)
