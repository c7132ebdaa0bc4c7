"""How an engine spends memory beside weights and keys: its peak while it computes, its own context, its pool.

vLLM sizes its pool of keys and values by a trial run: ``utilisation`` of the card, minus the weights, minus
the highest peak of that run. The peak is the larger of two moments. In the sampler, ``sequences_max`` rows of
logits are held several times as 32 bit numbers, beside a few copies of the hidden states of a whole batch
and, for mixtures, the buffers of their experts. In a layer, the widest feed-forward part is held. The
numbers of copies are one pair for each of the two sampler implementations, the same for all models;
`tests/fit/test_measured.py` compares them with what others measured. Encoders of pictures try the largest
one. SGLang takes a share of the card for weights and pool and leaves the rest to peaks and graphs;
TensorRT-LLM takes a share of what weights and a trial run leave. llama.cpp and Transformers allocate for the
context and batch that they are told.

The pool is sized before graphs are recorded and the sampler is warmed up, so both need room in what the
utilisation leaves, beside what other programs hold. vLLM does not start where they have none.
"""

import functools
from dataclasses import dataclass, replace
from enum import Enum

from gpufleet.fit.catalogue import CardEntry
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
from gpufleet.fit.ranks import Division
from gpufleet.fit.static_share import static_sizes
from gpufleet.model.model_errors import InputError

LARGE_CARD_BYTES = 70 * GIB
"""From here on vLLM takes larger batches by default, but on an A100."""

ACTIVATION_SPREAD = 0.2
"""How far the peak may lie from what is counted: kernels keep buffers of their own."""

ENCODER_SPREAD = 1.0
"""How far above what is counted the encoder's peak may lie: some kernels keep scores."""

GRAPHS_GIB = (0.45, 2.3e-6)
"""The most that graphs were seen to take: so much, and so much for each number that passes between layers
(1.85 GiB of a model with 80 layers of width 8192). Layers with a state take more (``graph_state_gib``).
"""

PCIE_EXPECTED_GIB = 0.75
"""Buffers of links without NVLink: fewer channels are opened."""

SERVER_PROGRAMS_GIB = 0.2
"""What exporters and the driver's own services hold on a server's card."""

DISPLAY_PROGRAMS_GIB = 0.5
"""What programs hold on a card that can have a display."""

DESKTOP_PROGRAMS_GIB = 1.0
"""What programs hold on a card of at most 16 GB that can have a display: most such cards have one."""

DESKTOP_CARD_BYTES = 16 * GIB
"""Servers' cards that small have no display output; the others are mostly in desktops."""

LATENT_TOKENS_MAX = 64 * 1024
"""How many tokens' compressed keys vLLM unpacks at once."""


class Reserves(Enum):
    """Whether the pool leaves room for recorded graphs: vLLM does from 0.21 on."""

    NO = "no"
    PERHAPS = "perhaps"
    YES = "yes"


class PoolRule(Enum):
    """How an engine sizes its pool of keys and values."""

    OF_CARD = "a share of the card, less weights and the peak of a trial run"
    STATIC = "a share of the card for weights and pool"
    OF_FREE = "a share of what weights and the peak of a trial run leave"
    ASKED = "what the context and batch need that it is told"


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine's habits; ``logit_copies`` in 32 bit numbers, ``hidden_copies`` in 16 bit ones.

    ``utilisation`` 0 means that the engine chooses a share by the card (``static_share``). ``deals_layers``:
    several GPUs get whole layers, and no tensor parallel is proposed. ``growth`` of what keys and values need
    may be lost while they grow. ``capability_min`` is NVIDIA's compute capability from which on it runs at
    all, ``nvidia_only`` that it knows no other maker's cards.

    ``keeps_expert_buffers``: they stay from the layers on, and so count in the sampler too. ``state_pages``
    of the cache are taken by each recurrent layer for a sequence: two where prompts with states can be
    cached. Without ``bounds_windows`` layers with a window keep every token.

    ``graphs_gib`` is the least and the expected size of graphs, ``graph_state_gib`` the most for each layer
    with a state: 2.04 GiB were seen of a model with 48 such layers of 64, of width 5120, and 2.37 of one with
    36 of 48, of width 2048, before vLLM recorded fewer sizes. ``spares_a100``: batches on an A100 are surely
    those of a small card; vLLM 0.31 had a peak there that they do not explain. ``warm_up_copies`` of the
    logits, in 32 bits, may need new memory when the sampler is warmed up, because what the trial run held
    comes back in pieces: gpt-oss-20b on an H100 at a
    utilisation of 0.95 lacks it.
    """

    name: str
    about: str
    utilisation: float
    block_tokens: int
    logit_copies: float
    hidden_copies: float
    warm_up_copies: float
    keeps_expert_buffers: bool
    alone_gib: tuple[float, float, float]
    parallel_gib: tuple[float, float, float]
    graphs_gib: tuple[float, float]
    graph_state_gib: float = 0.02
    spares_a100: bool = True
    reserves_graphs: Reserves = Reserves.NO
    pool: PoolRule = PoolRule.OF_CARD
    state_pages: int = 2
    bounds_windows: bool = True
    spread: float = ACTIVATION_SPREAD
    deals_layers: bool = False
    growth: float = 0.0
    capability_min: float = 0.0
    nvidia_only: bool = False

    @property
    def sizes_pool(self) -> bool:
        """Whether the pool is sized before requests come."""
        return self.pool is not PoolRule.ASKED

    @property
    def is_vllm(self) -> bool:
        """Whether the engine is a version of vLLM."""
        return self.name.startswith("vllm")


VLLM = Engine(
    "vllm",
    "vLLM 0.17 and later, as `vllm serve` sets itself up",
    utilisation=0.9,
    block_tokens=16,
    logit_copies=3.5,
    hidden_copies=3,
    warm_up_copies=4.2,
    keeps_expert_buffers=True,
    alone_gib=(0.07, 0.25, 0.5),
    parallel_gib=(0.55, 2.1, 2.3),
    graphs_gib=(0.3, 0.8),
    spares_a100=False,
    reserves_graphs=Reserves.PERHAPS,
)
VLLM_SORTING = Engine(
    "vllm-0.16",
    "vLLM 0.11 to 0.16, whose sampler sorts all logits",
    utilisation=0.9,
    block_tokens=16,
    logit_copies=9.5,
    hidden_copies=1,
    warm_up_copies=5.7,
    keeps_expert_buffers=False,
    alone_gib=(0.05, 0.13, 0.3),
    parallel_gib=(0.2, 0.55, 2.1),
    graphs_gib=(0.1, 0.5),
    graph_state_gib=0.05,
    state_pages=1,
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
        VLLM_SORTING,
        replace(
            VLLM_SORTING,
            name="vllm-0.10",
            about="vLLM 0.8 to 0.10, whose pool keeps every token of layers with a window",
            bounds_windows=False,
        ),
        Engine(
            "llama.cpp",
            "llama.cpp with all layers on the GPU and flash attention",
            utilisation=1.0,
            block_tokens=256,
            logit_copies=1,
            hidden_copies=4,
            warm_up_copies=0,
            keeps_expert_buffers=False,
            alone_gib=(0.2, 0.4, 0.6),
            parallel_gib=(0.2, 0.4, 0.6),
            graphs_gib=(0, 0),
            pool=PoolRule.ASKED,
            deals_layers=True,
        ),
        Engine(
            "sglang",
            "SGLang 0.5 from 0.5.4 on, with its own share of the card",
            utilisation=0.0,
            block_tokens=1,
            logit_copies=3,
            hidden_copies=4,
            warm_up_copies=0,
            keeps_expert_buffers=True,
            alone_gib=(0.3, 0.5, 0.9),
            parallel_gib=(0.4, 1.2, 2.5),
            graphs_gib=(0.1, 0.7),
            pool=PoolRule.STATIC,
            # Only a few architectures have a pool of their own for layers with a window.
            bounds_windows=False,
            spread=0.5,
            capability_min=7.5,
        ),
        Engine(
            "tensorrt-llm",
            "TensorRT-LLM 1.0 with PyTorch, 0.9 of the memory that weights and a trial run leave",
            utilisation=0.9,
            block_tokens=32,
            logit_copies=1,
            hidden_copies=4,
            warm_up_copies=0,
            keeps_expert_buffers=True,
            alone_gib=(0.5, 1.0, 2.0),
            parallel_gib=(0.8, 2.0, 4.0),
            graphs_gib=(0.1, 0.7),
            pool=PoolRule.OF_FREE,
            bounds_windows=False,
            spread=0.5,
            capability_min=8.0,
            nvidia_only=True,
        ),
        Engine(
            "transformers",
            "Transformers with device_map=auto: layers dealt to the GPUs, no pool",
            utilisation=1.0,
            block_tokens=1,
            logit_copies=3,
            hidden_copies=4,
            warm_up_copies=0,
            keeps_expert_buffers=False,
            alone_gib=(0.3, 0.5, 0.8),
            parallel_gib=(0.3, 0.5, 0.8),
            graphs_gib=(0, 0),
            pool=PoolRule.ASKED,
            bounds_windows=False,
            spread=0.3,
            deals_layers=True,
            # Each token appends to tensors that are copied to a new place.
            growth=0.15,
        ),
    )
}


@dataclass(frozen=True, slots=True)
class Limits:
    """How much an engine takes on at once."""

    sequences_max: int
    batched_tokens: int


LARGE_LIMITS = Limits(1024, 8192)
"""What ``vllm serve`` takes on by default on large cards (``LARGE_CARD_BYTES``)."""

SMALL_LIMITS = Limits(256, 2048)
"""What it takes on by default on all other cards."""


def engine_named(name: str) -> Engine:
    """The engine of that name; raises InputError with the known ones."""
    found = ENGINES.get(name.lower())
    if found is None:
        raise InputError(
            "nothing is known about that engine", field="--engine", value=name, expected=", ".join(ENGINES)
        )
    return found


def limits_of(engine: Engine, asked: Limits, card: CardEntry, division: Division, told: Limits) -> Limits:
    """What the engine takes on if it is not told otherwise (0 in ``told``): vLLM and SGLang set themselves by
    the card's memory, Transformers computes all that is ``asked`` for at once.
    """
    usual = _usual_limits(engine, asked, card, division)
    return Limits(told.sequences_max or usual.sequences_max, told.batched_tokens or usual.batched_tokens)


def _usual_limits(engine: Engine, asked: Limits, card: CardEntry, division: Division) -> Limits:
    match engine.name:
        case "llama.cpp":
            return Limits(512, 512)
        case "sglang":
            sizes = static_sizes(card.usable_mib, division.tensor_parallel)
            return Limits(max(sizes.graph_sequences, asked.sequences_max), sizes.prefill_tokens)
        case "tensorrt-llm":
            return Limits(2048, 8192)
        case "transformers":
            return asked
        case _:
            large = card.usable_bytes >= LARGE_CARD_BYTES and card.gpu.family != "A100"
            return LARGE_LIMITS if large else SMALL_LIMITS


def most_limits(engine: Engine, limits: Limits, card: CardEntry, told: Limits) -> Limits:
    """The most that the engine may take on where its ``limits`` are not certain."""
    if engine.spares_a100 or card.gpu.family != "A100" or card.usable_bytes < LARGE_CARD_BYTES:
        return limits
    return Limits(
        told.sequences_max or LARGE_LIMITS.sequences_max, told.batched_tokens or LARGE_LIMITS.batched_tokens
    )


def activation(engine: Engine, facts: ModelFacts, limits: Limits, division: Division, context: int) -> Amount:
    """The highest moment of the trial run on a GPU of the last stage, which also runs the sampler."""
    tokens = limits.batched_tokens
    hidden = 2 * tokens * facts.hidden
    kinds = _kinds(facts)
    buffers = max(_expert_buffers(layer.feed_forward, facts, tokens, division) for layer in kinds)
    layer = max(_widest(layer, limits, division.tensor_parallel, context) for layer in kinds)
    forward = layer + buffers + 4 * hidden
    rows = min(limits.sequences_max, tokens)
    # Images are embedded beforehand and kept: one more batch of hidden states.
    copies = engine.hidden_copies + (1 if facts.vision_parameters else 0)
    sampler = engine.logit_copies * 4 * rows * facts.vocabulary + copies * hidden
    sampler += buffers if engine.keeps_expert_buffers else 0
    where = "in the sampler" if sampler >= forward else "in a layer"
    words = f"peak {where}: {limits.sequences_max} sequences, batches of {tokens} tokens"
    peak = Amount.around(max(sampler, forward), engine.spread, words)
    if division.replicas > 1:
        # At worst the tokens of all replicas go to the experts of one GPU.
        more = round((division.replicas - 1) * (buffers + hidden))
        peak = Amount(peak.low_bytes, peak.bytes, peak.high_bytes + more, peak.basis)
    if not engine.sizes_pool or facts.vision_peak_bytes <= peak.low_bytes:
        return peak
    return _with_encoder(peak, facts.vision_peak_bytes)


def _with_encoder(peak: Amount, encoder_bytes: int) -> Amount:
    """The peak, where the trial run of the encoder of pictures may be above all other moments."""
    words = f"{peak.basis}, or the largest picture in its encoder"
    most = max(peak.high_bytes, round((1 + ENCODER_SPREAD) * encoder_bytes))
    return Amount(peak.low_bytes, max(peak.bytes, encoder_bytes), most, words)


@functools.cache
def _kinds(facts: ModelFacts) -> frozenset[Layer]:
    """The layers that differ."""
    return frozenset(facts.layers)


def _expert_buffers(part: FeedForward | None, facts: ModelFacts, tokens: int, division: Division) -> float:
    """The two buffers through which all tokens pass on their way through their experts."""
    if not isinstance(part, Experts):
        return 0.0
    rows = 2 * tokens * part.per_token
    inner = part.intermediate / (1 if division.whole_experts else division.expert_ranks)
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


def context_memory(engine: Engine, tensor_parallel: int, card: CardEntry) -> Amount:
    """What the driver, the libraries and the links between GPUs take of each of them."""
    low, expected, high = engine.parallel_gib if tensor_parallel > 1 else engine.alone_gib
    words = "CUDA context and libraries"
    if tensor_parallel > 1:
        words += f", buffers of the links ({card.link})"
        expected = min(expected, PCIE_EXPECTED_GIB) if card.link.startswith("PCIe") else expected
    return Amount(round(low * GIB), round(expected * GIB), round(high * GIB), words)


def other_programs(card: CardEntry) -> Amount:
    """What may be gone of a card before the engine starts."""
    has_display = card.gpu.family.startswith(("RTX-", "Quadro-", "RX-"))
    is_desktop = has_display and card.usable_bytes <= DESKTOP_CARD_BYTES
    most = SERVER_PROGRAMS_GIB
    if has_display:
        most = DESKTOP_PROGRAMS_GIB if is_desktop else DISPLAY_PROGRAMS_GIB
    return Amount(0, 0, round(most * GIB), "programs before the engine")


def needed_beside(
    engine: Engine, facts: ModelFacts, limits: Limits, card: CardEntry, recorded: Amount
) -> Amount:
    """What needs room in what the utilisation leaves: graphs that the pool leaves no room for, the sampler's
    warm-up, and other programs.
    """
    others = other_programs(card)
    if not engine.sizes_pool:
        return others
    are_beside = engine.reserves_graphs is not Reserves.YES
    rows = min(limits.sequences_max, limits.batched_tokens)
    warm_up = engine.warm_up_copies * 4 * rows * facts.vocabulary
    return Amount(
        recorded.low_bytes if engine.reserves_graphs is Reserves.NO else 0,
        recorded.bytes if engine.reserves_graphs is Reserves.NO else 0,
        others.high_bytes + round(warm_up) + (recorded.high_bytes if are_beside else 0),
        "graphs, the sampler's warm-up, other programs; beside what the engine may use",
    )


def graphs(engine: Engine, facts: ModelFacts) -> Amount:
    """Graphs of kernels, recorded after the pool was sized: they live in what utilisation leaves."""
    low, expected = (round(one * GIB) for one in engine.graphs_gib)
    fixed, of_width = GRAPHS_GIB
    widths = len(facts.layers) * facts.hidden
    high = round((fixed + of_width * widths + engine.graph_state_gib * facts.states) * GIB) if expected else 0
    low, expected = min(low, high), min(expected, high)
    where = {
        Reserves.YES: "reserved before the pool",
        Reserves.PERHAPS: "of the pool from vLLM 0.21 on, beside it before",
        Reserves.NO: "beside the pool",
    }
    return Amount(low, expected, high, f"recorded graphs of kernels, {where[engine.reserves_graphs]}")
