"""What a token and a sequence keep on a GPU: keys and values, compressed keys, states.

Exact, by layer: heads that are fewer than the GPUs are repeated on them, compressed keys are whole on every
one, a window stops growing, a recurrent state does not grow. vLLM hands memory out in blocks that serve a
group of layers of one kind, and groups are padded to one size: that counts where kinds mix.
"""

import functools
from collections import Counter
from dataclasses import dataclass

from gpufleet.fit.facts import GroupedAttention, LatentAttention, Mixer, ModelFacts, Recurrence
from gpufleet.fit.weights import stage_sizes
from gpufleet.model.model_errors import InputError

INDEX_SCALE_BYTES = 4
"""An index is kept in FP8 with one scale of 32 bits."""

STATE_BYTES = 4
"""Recurrent states are kept in 32 bits, where the engine does not say otherwise."""

WINDOW_BYTES = 2
"""The window of a convolution is kept in 16 bits."""

ELEMENT_BYTES = {
    "auto": 2.0,
    "bf16": 2.0,
    "fp16": 2.0,
    "fp32": 4.0,
    "fp8": 1.0,
    "fp8_e4m3": 1.0,
    "fp8_e5m2": 1.0,
    "int8": 1.0 + 4 / 128,
    "q8_0": 8.5 / 8,
    "q4_0": 4.5 / 8,
}
"""Bytes of one element. Beside int8 stands a scale of 32 bits for each head of usually 128."""


@dataclass(frozen=True, slots=True)
class CacheLayout:
    """How a cache is laid out: bytes an element, tokens a block, and how far a prompt is read at once.

    ``is_grouped``: as vLLM's, in blocks that serve a group of layers of one kind; then a recurrent layer
    takes ``state_pages`` of them for each sequence. Without ``bounds_windows`` a layer with a window keeps
    every token.
    """

    element_bytes: float
    block_tokens: int
    batched_tokens: int
    is_grouped: bool
    state_pages: int = 2
    bounds_windows: bool = True


def element_bytes(name: str) -> float:
    """Bytes of an element in that type; raises InputError with the known ones."""
    found = ELEMENT_BYTES.get(name.lower())
    if found is None:
        raise InputError(
            "no such type of keys and values", field="--kv", value=name, expected=", ".join(ELEMENT_BYTES)
        )
    return found


def token_bytes(mixer: Mixer | None, tensor_parallel: int, per_element: float) -> float:
    """What one token keeps in one layer, on one GPU."""
    if isinstance(mixer, GroupedAttention):
        return (
            0.0
            if mixer.fixed_tokens or not mixer.caches
            else _keys_bytes(mixer, tensor_parallel, per_element)
        )
    if isinstance(mixer, LatentAttention):
        if mixer.keeps_heads:
            width = mixer.plain_dim + mixer.rotary_dim + mixer.value_dim
            return -(-mixer.heads // tensor_parallel) * width * per_element
        index = mixer.index_dim + INDEX_SCALE_BYTES if mixer.index_heads else 0
        return (mixer.kv_rank + mixer.rotary_dim) * per_element + index
    return 0.0


def _keys_bytes(mixer: GroupedAttention, tensor_parallel: int, per_element: float) -> float:
    return 2 * -(-mixer.kv_heads // tensor_parallel) * mixer.head_dim * per_element


def state_bytes(mixer: Mixer | None, tensor_parallel: int, layout: "CacheLayout") -> float:
    """What one sequence keeps in one layer however long it is, on one GPU."""
    if isinstance(mixer, GroupedAttention) and mixer.fixed_tokens:
        return mixer.fixed_tokens * _keys_bytes(mixer, tensor_parallel, layout.element_bytes)
    if not isinstance(mixer, Recurrence):
        return 0.0
    share = min(tensor_parallel, mixer.heads)
    element_bytes = mixer.state_element_bytes if layout.is_grouped else STATE_BYTES
    return (mixer.state_elements * element_bytes + mixer.window_elements * WINDOW_BYTES) / share


def model_token_bytes(facts: ModelFacts, per_element: float) -> float:
    """What one more token keeps in all layers of the whole model, while windows still grow."""
    return sum(token_bytes(mixer, 1, per_element) for layer in facts.layers for mixer in layer.mixers)


def sequence_bytes(
    facts: ModelFacts, context: int, tensor_parallel: int, stages: int, layout: CacheLayout
) -> float:
    """What a sequence of that length takes of the pool of the fullest GPU."""
    return max(_of_stage(stage, context, layout) for stage in _stages(facts, tensor_parallel, stages, layout))


@dataclass(frozen=True, slots=True)
class _Stage:
    """What the layers of a stage keep: ``kinds`` counts those that keep so much a token within such a window,
    ``states`` those of each size of state, ``fixed`` are bytes that a sequence takes anyway.
    """

    kinds: Counter[tuple[int, float]]
    states: Counter[float]
    fixed: float


def _of_stage(stage: _Stage, context: int, layout: CacheLayout) -> float:
    if layout.is_grouped and stage.states and stage.kinds:
        return stage.fixed + _in_pages(stage, context, layout)
    kinds = _padded(stage.kinds) if layout.is_grouped else dict(stage.kinds)
    return (
        stage.fixed
        + sum(size * count for size, count in stage.states.items())
        + sum(
            count * per_token * _tokens_held(window, context, layout.block_tokens, layout.batched_tokens)
            for (window, per_token), count in kinds.items()
        )
    )


def _in_pages(stage: _Stage, context: int, layout: CacheLayout) -> float:
    """Where vLLM keeps keys and states in one pool: a block is so long that its page holds a state, and
    every state has a page, ``state_pages`` of them while a prompt is cached.
    """
    state = max(stage.states)
    per_token = max(size for _, size in stage.kinds)
    block = -(-state // (per_token * layout.block_tokens)) * layout.block_tokens
    page = per_token * block
    groups = _padded(Counter({(-1, state): sum(stage.states.values())}) + stage.kinds)
    pages = 0
    for (window, _), count in groups.items():
        if window < 0:
            pages += count * layout.state_pages
        else:
            pages += count * round(_tokens_held(window, context, int(block), layout.batched_tokens) / block)
    return pages * page


@functools.cache
def _stages(facts: ModelFacts, tensor_parallel: int, stages: int, layout: CacheLayout) -> list[_Stage]:
    """The stages of a division."""
    found, start = [], 0
    for size in stage_sizes(len(facts.layers), stages):
        kinds: Counter[tuple[int, float]] = Counter()
        states: Counter[float] = Counter()
        fixed = 0.0
        for mixer in (one for layer in facts.layers[start : start + size] for one in layer.mixers):
            per_token = token_bytes(mixer, tensor_parallel, layout.element_bytes)
            if per_token:
                window = mixer.window if isinstance(mixer, GroupedAttention) else None
                # A window bounds how many tokens a layer keeps, so layers with one are counted apart.
                kinds[(window or 0 if layout.bounds_windows else 0, per_token)] += 1
            state = state_bytes(mixer, tensor_parallel, layout)
            if isinstance(mixer, Recurrence) and state:
                states[state] += 1
            else:
                fixed += state
        start += size
        found.append(_Stage(kinds, states, fixed))
    return found


def _padded(kinds: Counter[tuple[int, float]]) -> dict[tuple[int, float], int]:
    """Layers of each kind, padded to groups of one size (vLLM's `group_and_unify_kv_cache_specs`)."""
    if len(kinds) < 2:
        return dict(kinds)
    least, most = min(kinds.values()), max(kinds.values())
    size = most if most < least * 1.25 else least
    return {kind: -(-count // size) * size for kind, count in kinds.items()}


def _tokens_held(window: int, context: int, block: int, batched_tokens: int) -> int:
    if not window:
        return -(-context // block) * block
    # While a prompt is read, a window and what is read beside it are held; one block more at its edge.
    held = min(window - 1 + batched_tokens, context)
    return min(-(-held // block) + 1, -(-context // block) + 1) * block
