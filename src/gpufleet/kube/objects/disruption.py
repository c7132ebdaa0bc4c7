"""How important pods are, and how many of them may be disturbed at once."""

import msgspec

from gpufleet.kube.objects.metadata import Metadata
from gpufleet.kube.objects.selectors import LabelSelector
from gpufleet.kube.objects.structure import Structure


class PriorityClass(Structure, frozen=True):
    """A priority by name."""

    metadata: Metadata
    value: int
    global_default: bool = False
    preemption_policy: str = ""


class PodDisruptionBudgetSpec(Structure, frozen=True):
    """The selector of the pods that a budget protects."""

    selector: LabelSelector | None = None


class PodDisruptionBudgetStatus(Structure, frozen=True):
    """How many of the protected pods may go now, counted with the spec of ``observed_generation``.

    ``disrupted_pods`` are the names of pods with an eviction that is counted already, and its time.
    """

    observed_generation: int = 0
    disruptions_allowed: int = 0
    disrupted_pods: dict[str, str | None] = msgspec.field(default_factory=dict)


class PodDisruptionBudget(Structure, frozen=True):
    """A limit on how many pods are taken away at once."""

    metadata: Metadata
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()
