"""What decides about a model's memory, layer by layer, in one form for all publishers.

``architecture`` makes it of a configuration, ``shapes`` the weight matrices of it, ``kv_cache`` what a token
and a sequence keep. Sizes count elements; the number of bytes follows from the format.
"""

import functools
from dataclasses import dataclass
from enum import StrEnum

from gpufleet.fit.formats import WeightFormat


@dataclass(frozen=True, slots=True)
class GroupedAttention:
    """Attention with ``kv_heads`` heads of keys and values; ``window`` if it sees the last tokens only.

    ``gated`` attention has a second set of query weights for its gate. Without ``own_values`` the keys are
    the values too, as weights go. Without ``caches`` it reads what an earlier layer kept. ``fixed_tokens``
    above 0: it looks at a picture of so many tokens, and keeps none of the text.
    """

    heads: int
    kv_heads: int
    head_dim: int
    window: int | None = None
    bias: bool = False
    gated: bool = False
    own_values: bool = True
    caches: bool = True
    fixed_tokens: int = 0


@dataclass(frozen=True, slots=True)
class LatentAttention:
    """Attention that keeps one compressed vector a token, the same for all heads (MLA).

    ``query_rank`` 0 means that queries are not compressed. ``index_heads`` above 0: an indexer chooses
    which tokens are looked at, and keeps a small key a token of its own. ``keeps_heads``: the engine finds no
    compressed form in the file and keeps the keys and values of every head.
    """

    heads: int
    query_rank: int
    kv_rank: int
    plain_dim: int
    rotary_dim: int
    value_dim: int
    index_heads: int = 0
    index_dim: int = 0
    keeps_heads: bool = False


@dataclass(frozen=True, slots=True)
class Recurrence:
    """A layer with a state of fixed size (Mamba, linear attention).

    ``projections`` are the (rows, columns) of its matrices; ``state_elements`` and ``window_elements``
    what a sequence keeps: the state, of ``state_element_bytes`` each in vLLM, and the last inputs of its
    short convolution.
    """

    name: str
    projections: tuple[tuple[int, int], ...]
    state_elements: int
    window_elements: int
    heads: int
    state_element_bytes: int = 2


@dataclass(frozen=True, slots=True)
class Dense:
    """A feed-forward part; ``gated`` ones have three matrices, plain ones two."""

    intermediate: int
    gated: bool = True


@dataclass(frozen=True, slots=True)
class Experts:
    """A mixture of experts: all are in memory, ``per_token`` of them work for a token."""

    count: int
    per_token: int
    intermediate: int
    shared_intermediate: int = 0
    gated: bool = True
    bias: bool = False


Mixer = GroupedAttention | LatentAttention | Recurrence
FeedForward = Dense | Experts


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer; some hybrids have layers with only one of the two parts, some a second mixer ``beside``.

    ``more`` counts elements of small matrices that belong to neither part.
    """

    mixer: Mixer | None
    feed_forward: FeedForward | None
    norms: int = 2
    beside: Recurrence | None = None
    more: int = 0

    @property
    def mixers(self) -> tuple[Mixer, ...]:
        """The mixers that the layer has."""
        return tuple(one for one in (self.mixer, self.beside) if one is not None)


@dataclass(frozen=True, slots=True, eq=False)
class ModelFacts:
    """A model as its memory sees it; one object a model, so that what is counted once is remembered.

    ``native`` is the format of its published weights; ``vision_parameters`` are those of encoders of
    pictures and sound, which no engine quantises, and which are divided where ``vision_heads`` can be.
    ``vision_peak_bytes`` is what they hold while they read the largest picture that an engine prepares for.
    ``layer_tables`` are elements of tables that every layer has of its own, ``draft_elements`` those of
    layers that only draft tokens. ``context_max`` is what it was made for, 0 if unsaid. ``lacks`` says in
    words what could not be counted.
    """

    name: str
    model_type: str
    hidden: int
    vocabulary: int
    layers: tuple[Layer, ...]
    tied: bool
    context_max: int
    native: WeightFormat
    vision_parameters: int = 0
    vision_heads: int = 1
    vision_peak_bytes: int = 0
    layer_tables: int = 0
    draft_elements: int = 0
    lacks: str = ""

    @property
    def states(self) -> int:
        """How many layers keep a state."""
        return _states(self)

    @property
    def has_experts(self) -> bool:
        """Whether a layer is a mixture of experts."""
        return any(isinstance(layer.feed_forward, Experts) for layer in self.layers)

    @property
    def sees(self) -> bool:
        """Whether the model has an encoder of pictures or sound."""
        return bool(self.vision_parameters)

    @property
    def native_format(self) -> str:
        """The name of that format."""
        return self.native.name


@functools.cache
def _states(facts: ModelFacts) -> int:
    return sum(any(isinstance(one, Recurrence) for one in layer.mixers) for layer in facts.layers)


class Origin(StrEnum):
    """Where the facts of a model came from."""

    CATALOGUE = "catalogue"
    CONFIG = "config.json"
    SAFETENSORS = "safetensors index"
    GGUF = "GGUF header"
    HUB = "hub"
