"""How an engine spends memory beside weights and keys: its peak while it computes, its own context, its pool.

vLLM sizes its pool of keys and values by a trial run: ``utilisation`` of the card, minus the weights, minus
the highest peak of that run. The peak is the larger of two moments. In the sampler, ``sequences_max`` rows of
logits are held several times as 32 bit numbers, beside a few copies of the hidden states of a whole batch
and, for mixtures, the buffers of their experts. In a layer, the widest feed-forward part is held. The
numbers of copies are one pair for each of the two sampler implementations, the same for all models;
`tests/fit/test_measured.py` compares them with what others measured. llama.cpp allocates for the
context and batch that it is told.
"""

import functools
from dataclasses import dataclass, replace
from enum import Enum

from gpufleet.fit.facts import (
    Dense,
    Experts,
    FeedForward,
    LatentAttention,
    Layer,
    ModelFacts,
    Recurrence,
)
from gpufleet.fit.ranges import GIB, Amount
from gpufleet.model.model_errors import InputError

LARGE_CARD_BYTES = 70 * GIB
"""From here on vLLM takes larger batches by default, but on an A100."""

ACTIVATION_SPREAD = 0.2
"""How far the peak may lie from what is counted: kernels keep buffers of their own."""

LATENT_TOKENS_MAX = 64 * 1024
"""How many tokens' compressed keys vLLM unpacks at once."""


class Reserves(Enum):
    """Whether the pool leaves room for recorded graphs: vLLM does from 0.21 on."""

    NO = "no"
    PERHAPS = "perhaps"
    YES = "yes"


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine's habits; ``logit_copies`` in 32 bit numbers, ``hidden_copies`` in 16 bit ones.

    ``keeps_expert_buffers``: they stay from the layers on, and so count in the sampler too. ``state_pages``
    of the cache are taken by each recurrent layer for a sequence: two where prompts with states can be
    cached.
    """

    name: str
    about: str
    utilisation: float
    block_tokens: int
    logit_copies: float
    hidden_copies: float
    keeps_expert_buffers: bool
    alone_gib: tuple[float, float, float]
    parallel_gib: tuple[float, float, float]
    graphs_gib: tuple[float, float, float]
    reserves_graphs: Reserves = Reserves.NO
    sizes_pool: bool = True
    state_pages: int = 2


VLLM = Engine(
    "vllm",
    "vLLM 0.17 and later, as `vllm serve` sets itself up",
    utilisation=0.9,
    block_tokens=16,
    logit_copies=3.5,
    hidden_copies=3,
    keeps_expert_buffers=True,
    alone_gib=(0.07, 0.25, 0.5),
    parallel_gib=(0.55, 2.1, 2.3),
    graphs_gib=(0.3, 0.8, 1.6),
    reserves_graphs=Reserves.PERHAPS,
)
ENGINES = {
    engine.name: engine
    for engine in (
        VLLM,
        replace(
            VLLM,
            name="vllm-0.21",
            about="vLLM 0.21 and later, which reserve recorded graphs before the pool",
            utilisation=0.92,
            reserves_graphs=Reserves.YES,
        ),
        Engine(
            "vllm-0.16",
            "vLLM 0.8 to 0.16, whose sampler sorts all logits",
            utilisation=0.9,
            block_tokens=16,
            logit_copies=9.5,
            hidden_copies=1,
            keeps_expert_buffers=False,
            alone_gib=(0.05, 0.13, 0.3),
            parallel_gib=(0.4, 0.55, 2.1),
            graphs_gib=(0.1, 0.5, 1.1),
            state_pages=1,
        ),
        Engine(
            "llama.cpp",
            "llama.cpp with all layers on the GPU and flash attention",
            utilisation=1.0,
            block_tokens=256,
            logit_copies=1,
            hidden_copies=4,
            keeps_expert_buffers=False,
            alone_gib=(0.2, 0.4, 0.6),
            parallel_gib=(0.2, 0.4, 0.6),
            graphs_gib=(0, 0, 0),
            sizes_pool=False,
        ),
    )
}


@dataclass(frozen=True, slots=True)
class Limits:
    """How much an engine takes on at once."""

    sequences_max: int
    batched_tokens: int


def engine_named(name: str) -> Engine:
    """The engine of that name; raises InputError with the known ones."""
    found = ENGINES.get(name.lower())
    if found is None:
        raise InputError(
            "nothing is known about that engine", field="--engine", value=name, expected=", ".join(ENGINES)
        )
    return found


def limits_of(engine: Engine, card_bytes: int, family: str, sequences: int, tokens: int) -> Limits:
    """What the engine takes on if it is not told otherwise (0): vLLM sets itself by the card's memory."""
    if engine.name == "llama.cpp":
        return Limits(sequences or 512, tokens or 512)
    large = card_bytes >= LARGE_CARD_BYTES and family != "A100"
    return Limits(sequences or (1024 if large else 256), tokens or (8192 if large else 2048))


def activation(
    engine: Engine, facts: ModelFacts, limits: Limits, tensor_parallel: int, context: int, *, is_last: bool
) -> Amount:
    """The highest moment of the trial run on one GPU; ``is_last``: that GPU also runs the sampler."""
    tokens = limits.batched_tokens
    hidden = 2 * tokens * facts.hidden
    kinds = _kinds(facts)
    buffers = max(_expert_buffers(layer.feed_forward, facts, tokens, tensor_parallel) for layer in kinds)
    layer = max(_widest(layer, limits, tensor_parallel, context) for layer in kinds)
    forward = layer + buffers + 4 * hidden
    sampler = 0.0
    if is_last:
        rows = min(limits.sequences_max, tokens)
        # Images are embedded beforehand and kept: one more batch of hidden states.
        copies = engine.hidden_copies + (1 if facts.vision_parameters else 0)
        sampler = engine.logit_copies * 4 * rows * facts.vocabulary + copies * hidden
        sampler += buffers if engine.keeps_expert_buffers else 0
    where = "in the sampler" if sampler >= forward else "in a layer"
    words = f"peak {where}: {limits.sequences_max} sequences, batches of {tokens} tokens"
    return Amount.around(max(sampler, forward), ACTIVATION_SPREAD, words)


@functools.cache
def _kinds(facts: ModelFacts) -> frozenset[Layer]:
    """The layers that differ."""
    return frozenset(facts.layers)


def _expert_buffers(part: FeedForward | None, facts: ModelFacts, tokens: int, tensor_parallel: int) -> float:
    """The two buffers through which all tokens pass on their way through their experts."""
    if not isinstance(part, Experts):
        return 0.0
    rows = 2 * tokens * part.per_token
    inner = part.intermediate / tensor_parallel
    return rows * (max(2 * inner, facts.hidden) + max(inner, facts.hidden))


def _widest(layer: Layer, limits: Limits, tensor_parallel: int, context: int) -> float:
    """What one layer holds beside hidden states: the wide side of its feed-forward part, unpacked keys."""
    width = 0.0
    if isinstance(layer.feed_forward, Dense):
        width = layer.feed_forward.intermediate * (3 if layer.feed_forward.gated else 2)
    elif isinstance(layer.feed_forward, Experts):
        width = 3 * layer.feed_forward.shared_intermediate
    for mixer in layer.mixers:
        if isinstance(mixer, Recurrence):
            width = max(width, 2 * mixer.projections[0][1])
    wide = 2 * limits.batched_tokens * width / tensor_parallel
    if not isinstance(layer.mixer, LatentAttention):
        return wide
    held = min(max(8 * context, 4 * limits.sequences_max * 16), LATENT_TOKENS_MAX)
    heads = layer.mixer.heads / tensor_parallel
    return max(wide, 2 * held * heads * (layer.mixer.plain_dim + layer.mixer.value_dim))


def context_memory(engine: Engine, tensor_parallel: int) -> Amount:
    """What the driver, the libraries and the links between GPUs take of each of them."""
    gib = engine.parallel_gib if tensor_parallel > 1 else engine.alone_gib
    words = "CUDA context and libraries" + (", buffers of the links" if tensor_parallel > 1 else "")
    low, expected, high = (round(one * GIB) for one in gib)
    return Amount(low, expected, high, words)


def graphs(engine: Engine) -> Amount:
    """Graphs of kernels, recorded after the pool was sized: they live in what utilisation leaves."""
    low, expected, high = (round(one * GIB) for one in engine.graphs_gib)
    where = {
        Reserves.YES: "reserved before the pool",
        Reserves.PERHAPS: "of the pool from vLLM 0.21 on, beside it before",
        Reserves.NO: "beside the pool",
    }
    return Amount(low, expected, high, f"recorded graphs of kernels, {where[engine.reserves_graphs]}")
