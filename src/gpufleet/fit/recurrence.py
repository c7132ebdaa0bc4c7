"""Layers that keep a state of fixed size: their matrices and what a sequence keeps of them.

The shapes are those of the published models: Mamba and Mamba 2 (arXiv 2312.00752, 2405.21060), gated
delta networks (arXiv 2412.06464) as Qwen3-Next has them. Unlike keys and values, the state does not grow
with the context.
"""

import math
from collections.abc import Callable

from gpufleet.fit.config import LinearAttentionConfig, ModelConfig
from gpufleet.fit.facts import Recurrence

Needed = Callable[[str], int]


def state_element_bytes(config: ModelConfig) -> int:
    """Of a state in vLLM: that of the model, 2, unless the configuration asks for 32 bits."""
    return 4 if "float32" in (config.mamba_ssm_dtype, config.mamba_ssm_cache_dtype) else 2


def gated_delta(config: ModelConfig, needed: Needed) -> Recurrence:
    """Linear attention with a gated delta rule."""
    hidden = needed("hidden_size")
    heads = needed("linear_num_value_heads")
    keys = needed("linear_num_key_heads") * needed("linear_key_head_dim")
    values = heads * needed("linear_value_head_dim")
    channels = 2 * keys + values
    width = config.linear_conv_kernel_dim or 4
    return Recurrence(
        name="linear attention",
        state_element_bytes=state_element_bytes(config),
        projections=((hidden, channels + values + 2 * heads), (values, hidden), (channels, width)),
        state_elements=heads * needed("linear_key_head_dim") * needed("linear_value_head_dim"),
        window_elements=channels * (width - 1),
        heads=heads,
    )


def mamba_two(config: ModelConfig, needed: Needed) -> Recurrence:
    """Mamba 2: heads with a state each, groups that share their inputs."""
    hidden = needed("hidden_size")
    heads = config.mamba_num_heads or config.mamba_n_heads or 0
    heads = heads or needed("mamba_num_heads")
    said = config.mamba_head_dim or config.mamba_d_head or 0
    # "auto" leaves it to the width.
    head_dim = said if isinstance(said, int) else 0
    if config.mamba_d_ssm:
        head_dim = config.mamba_d_ssm // heads
    if not head_dim:
        head_dim = round((config.mamba_expand or 2) * hidden) // heads
    state = config.ssm_state_size or config.mamba_d_state or needed("ssm_state_size")
    groups = config.n_groups or config.mamba_n_groups or 1
    width = config.conv_kernel or config.mamba_d_conv or 4
    inner = heads * head_dim
    channels = inner + 2 * groups * state
    return Recurrence(
        name="Mamba 2",
        state_element_bytes=state_element_bytes(config),
        projections=((hidden, inner + channels + heads), (inner, hidden), (channels, width)),
        state_elements=heads * head_dim * state,
        window_elements=channels * (width - 1),
        heads=heads,
    )


def mamba_one(config: ModelConfig, needed: Needed) -> Recurrence:
    """The first Mamba, as Jamba has it."""
    hidden = needed("hidden_size")
    inner = round((config.mamba_expand or 2) * hidden)
    state = needed("mamba_d_state")
    width = config.mamba_d_conv or 4
    rank = config.mamba_dt_rank if isinstance(config.mamba_dt_rank, int) else math.ceil(hidden / 16)
    return Recurrence(
        name="Mamba",
        state_element_bytes=state_element_bytes(config),
        projections=(
            (hidden, 2 * inner),
            (inner, rank + 2 * state),
            (rank, inner),
            (inner, hidden),
            (inner, width),
            (inner, state),
        ),
        state_elements=inner * state,
        window_elements=inner * (width - 1),
        heads=inner,
    )


def kimi_delta(linear: LinearAttentionConfig, needed: Needed) -> Recurrence:
    """Kimi's delta attention (arXiv 2510.26692): three short convolutions, gates through a narrow matrix."""
    hidden = needed("hidden_size")
    width = linear.num_heads * linear.head_dim
    narrow = linear.head_dim
    return Recurrence(
        name="delta attention",
        projections=(
            (hidden, 3 * width),
            (width, hidden),
            (hidden, 2 * narrow + linear.num_heads),
            (narrow, 2 * width),
            (3 * width, linear.short_conv_kernel_size),
        ),
        state_elements=width * linear.head_dim,
        window_elements=3 * width * (linear.short_conv_kernel_size - 1),
        heads=max(1, linear.num_heads),
        state_element_bytes=4,
    )


def lightning(config: ModelConfig, needed: Needed) -> Recurrence:
    """Lightning attention (arXiv 2501.08313): a state of 32 bits for each head, and a gate."""
    hidden, heads = needed("hidden_size"), needed("num_attention_heads")
    size = config.head_dim or hidden // heads
    return Recurrence(
        name="lightning attention",
        projections=((hidden, 4 * heads * size), (heads * size, hidden)),
        state_elements=heads * size * size,
        window_elements=0,
        heads=heads,
        state_element_bytes=4,
    )


def short_convolution(needed: Needed) -> Recurrence:
    """A gated convolution over the last few tokens (LFM 2); what it keeps are its last inputs."""
    hidden, length = needed("hidden_size"), needed("conv_L_cache")
    return Recurrence(
        name="short convolution",
        projections=((hidden, 3 * hidden), (hidden, hidden), (hidden, length)),
        state_elements=0,
        window_elements=hidden * (length - 1),
        heads=hidden,
    )
