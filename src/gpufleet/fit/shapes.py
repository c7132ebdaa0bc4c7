"""The weight matrices of a model: how many elements each group has and how tensor parallel divides it.

Counting is by the architecture's shapes, never by the number in a model's name. What tensor parallel
cannot divide (compressed projections of latent attention, routers, norms) is whole on every GPU; heads of
keys and values are repeated when there are more GPUs than heads. ``weights`` makes bytes of it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from gpufleet.fit.facts import (
    Dense,
    Experts,
    GroupedAttention,
    LatentAttention,
    Layer,
    ModelFacts,
    Recurrence,
)
from gpufleet.fit.roles import EVERY_LAYER, Role

VOCABULARY_PADDING = 64
"""vLLM rounds the vocabulary up to this, so that it divides among GPUs."""


@dataclass(frozen=True, slots=True)
class Weights:
    """Elements of one group; ``parts`` into how many pieces it can be cut, 1 if it stays whole.

    ``experts`` is how many of them the group holds, 0 for other groups.
    """

    role: Role
    elements: int
    parts: int = 1
    active_elements: int | None = None
    layer: int = EVERY_LAYER
    experts: int = 0

    def on_one(self, tensor_parallel: int) -> float:
        """Elements on each GPU of a tensor-parallel group."""
        if self.role is Role.VISION and self.parts % tensor_parallel:
            return self.elements
        return self.elements / min(tensor_parallel, self.parts)

    @property
    def active(self) -> int:
        """Elements that are read for one token."""
        return self.elements if self.active_elements is None else self.active_elements


def matrices(facts: ModelFacts) -> Iterator[Weights]:
    """Every group of the whole model."""
    yield from ends(facts)
    for number, layer in enumerate(facts.layers):
        yield from (replace(group, layer=number) for group in of_layer(layer, facts.hidden))


def ends(facts: ModelFacts) -> Iterator[Weights]:
    """What is outside of the layers; one row of the embedding is read for a token, the whole head."""
    table = facts.vocabulary * facts.hidden
    padded = -(-facts.vocabulary // VOCABULARY_PADDING)
    if facts.tied:
        yield Weights(Role.EMBEDDING, table, padded)
    else:
        yield Weights(Role.EMBEDDING, table, padded, active_elements=facts.hidden)
        yield Weights(Role.HEAD, table, padded)
    yield Weights(Role.SMALL, facts.hidden)
    if facts.vision_parameters:
        yield Weights(Role.VISION, facts.vision_parameters, facts.vision_heads, active_elements=0)
    if facts.layer_tables:
        row = facts.layer_tables // facts.vocabulary
        yield Weights(Role.EMBEDDING, facts.layer_tables, padded, active_elements=row)


def of_layer(layer: Layer, hidden: int) -> Iterator[Weights]:
    """The groups of one layer."""
    yield Weights(Role.SMALL, layer.norms * hidden)
    if layer.more:
        yield Weights(Role.SMALL, layer.more)
    for mixer in layer.mixers:
        match mixer:
            case GroupedAttention():
                yield from _grouped(mixer, hidden)
            case LatentAttention():
                yield from _latent(mixer, hidden)
            case Recurrence():
                elements = sum(rows * columns for rows, columns in mixer.projections)
                yield Weights(Role.RECURRENT, elements, mixer.heads)
    match layer.feed_forward:
        case Dense():
            matrices_count = 3 if layer.feed_forward.gated else 2
            width = layer.feed_forward.intermediate
            yield Weights(Role.FEED_FORWARD, matrices_count * hidden * width, width)
        case Experts():
            yield from _experts(layer.feed_forward, hidden)
        case None:
            pass


def _grouped(mixer: GroupedAttention, hidden: int) -> Iterator[Weights]:
    queries = mixer.heads * mixer.head_dim
    keys = mixer.kv_heads * mixer.head_dim
    yield Weights(Role.ATTENTION, hidden * queries * (3 if mixer.gated else 2), mixer.heads)
    yield Weights(Role.ATTENTION, (2 if mixer.own_values else 1) * hidden * keys, mixer.kv_heads)
    if mixer.bias:
        yield Weights(Role.SMALL, queries + 2 * keys, mixer.kv_heads)


def _latent(mixer: LatentAttention, hidden: int) -> Iterator[Weights]:
    query_dim = mixer.plain_dim + mixer.rotary_dim
    if mixer.query_rank:
        yield Weights(Role.ATTENTION, hidden * mixer.query_rank)
        yield Weights(Role.ATTENTION, mixer.query_rank * mixer.heads * query_dim, mixer.heads)
    else:
        yield Weights(Role.ATTENTION, hidden * mixer.heads * query_dim, mixer.heads)
    yield Weights(Role.ATTENTION, hidden * (mixer.kv_rank + mixer.rotary_dim))
    heads_dim = mixer.heads * (mixer.plain_dim + mixer.value_dim)
    yield Weights(Role.ATTENTION, mixer.kv_rank * heads_dim, mixer.heads)
    yield Weights(Role.ATTENTION, mixer.heads * mixer.value_dim * hidden, mixer.heads)
    yield Weights(Role.SMALL, mixer.query_rank + mixer.kv_rank)
    if mixer.index_heads:
        columns = mixer.query_rank * mixer.index_heads * mixer.index_dim
        yield Weights(Role.ATTENTION, columns + hidden * (mixer.index_dim + mixer.index_heads))


def _experts(part: Experts, hidden: int) -> Iterator[Weights]:
    one = (3 if part.gated else 2) * hidden * part.intermediate
    yield Weights(
        Role.EXPERT,
        part.count * one,
        part.intermediate,
        active_elements=part.per_token * one,
        experts=part.count,
    )
    yield Weights(Role.SMALL, part.count * hidden)
    if part.bias:
        biases = part.count * (2 * part.intermediate + hidden)
        yield Weights(Role.SMALL, biases, part.intermediate)
    if part.shared_intermediate:
        shared = (3 if part.gated else 2) * hidden * part.shared_intermediate
        yield Weights(Role.SHARED, shared, part.shared_intermediate)


def parameters(facts: ModelFacts) -> int:
    """All parameters of a model."""
    return sum(group.elements for group in matrices(facts))


def active_parameters(facts: ModelFacts) -> int:
    """The parameters that are read for one token."""
    return sum(group.active for group in matrices(facts))
