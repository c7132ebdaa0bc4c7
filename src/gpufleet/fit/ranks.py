"""Among how many GPUs a model is divided, and in which ways at once."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Division:
    """How many GPUs a model is divided among: each of ``stages`` by ``tensor_parallel``.

    ``replicas`` are ranks of data parallelism: each has all layers but routed experts, which are dealt to all
    of them, whole ones where ``whole_experts``.
    """

    stages: int
    tensor_parallel: int
    replicas: int = 1
    whole_experts: bool = False

    @property
    def gpus(self) -> int:
        """All GPUs that take part."""
        return self.stages * self.tensor_parallel * self.replicas

    @property
    def expert_ranks(self) -> int:
        """How many GPUs of a stage the experts are dealt to."""
        return self.tensor_parallel * self.replicas
