"""What is asked: a model from somewhere, and how it is to be served."""

from dataclasses import dataclass, replace

from gpufleet.fit.basis import Basis
from gpufleet.fit.engines import Engine
from gpufleet.fit.facts import ModelFacts, Origin
from gpufleet.fit.formats import WeightFormat

CONTEXT = 8192
"""Tokens, where the question does not say how many and the model can have as many."""


@dataclass(frozen=True, slots=True)
class Model:
    """A model's facts and where they are from; ``weights_bytes`` if its files say how large they are.

    ``hub`` is its name on the hub, by which a cluster can fetch it; ``basis`` what an entry of the catalogue
    rests on.
    """

    facts: ModelFacts
    origin: Origin
    source: str
    date: str = ""
    weights_bytes: int | None = None
    hub: str = ""
    basis: Basis | None = None


@dataclass(frozen=True, slots=True)
class Serving:
    """How a model is to be served: ``batch`` sequences of ``context`` tokens at the same time.

    ``replicas`` are ranks of data parallelism, to which the batch and the experts are dealt;
    ``whole_experts`` deals each expert to one GPU.

    Zero for ``tensor_parallel`` and ``stages`` leaves them open; zero for the engine's limits leaves them to
    the engine.
    """

    context: int
    batch: int
    form: WeightFormat
    kv: str
    engine: Engine
    utilisation: float
    tensor_parallel: int = 0
    stages: int = 0
    sequences_max: int = 0
    batched_tokens: int = 0
    replicas: int = 1
    whole_experts: bool = False

    @property
    def on_one_machine(self) -> "Serving":
        """This question in one stage, where stages were left open and could be on other machines."""
        is_open = not self.stages and not self.engine.deals_layers
        return replace(self, stages=1) if is_open else self
