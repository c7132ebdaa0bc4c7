"""The share of a card that SGLang takes for weights and pool where it is not told (``mem_fraction_static``).

SGLang (``ServerArgs``, 0.5.4 on) chooses by the card's memory how much of a prompt is read at once and
for how many sequences graphs are recorded, reserves memory for both, and takes the rest. The numbers are its
own.
"""

from dataclasses import dataclass

META_MIB = 512
"""Held back for the attention kernels' own data."""

PREFILL_MIB = 1.5
"""Held back for each token of a piece of a prompt, of which at least ``PREFILL_TOKENS_MIN`` are counted."""

PREFILL_TOKENS_MIN = 2048
GRAPH_MIB = 2
"""Held back for each sequence that a graph is recorded for."""

RANK_MIB = 128
"""Held back for each GPU that takes part."""

LARGE_CARD_MIB = 60 * 1024
LARGE_RESERVE_MIB = 10 * 1024
"""The least that is held back on large cards."""

WIDE = 4
"""From so many GPUs with tensor parallel on graphs are recorded for more sequences."""

PICTURES_SHARE = (0.76, 0.95)
"""Of the share that is left to models with an encoder of pictures: at least, and as expected."""


@dataclass(frozen=True, slots=True)
class StaticSizes:
    """How many tokens of a prompt are read at once, and for how many sequences graphs are recorded."""

    prefill_tokens: int
    graph_sequences: int


_BY_MEMORY = (
    (20 * 1024, StaticSizes(2048, 8), StaticSizes(2048, 8)),
    (35 * 1024, StaticSizes(2048, 24), StaticSizes(2048, 80)),
    (60 * 1024, StaticSizes(4096, 32), StaticSizes(4096, 160)),
    (160 * 1024, StaticSizes(8192, 256), StaticSizes(8192, 512)),
)
"""Below that memory in MiB: alone or few GPUs, and from ``WIDE`` on."""

_LARGEST = StaticSizes(16384, 512)


def static_sizes(card_mib: int, tensor_parallel: int) -> StaticSizes:
    """What SGLang chooses for a card of that memory."""
    for below_mib, few, wide in _BY_MEMORY:
        if card_mib < below_mib:
            return wide if tensor_parallel >= WIDE else few
    return _LARGEST


def static_share(card_mib: int, tensor_parallel: int, gpus: int, *, sees: bool) -> tuple[float, float]:
    """The share at least, and as expected; the two differ for models that see."""
    sizes = static_sizes(card_mib, tensor_parallel)
    reserved_mib = META_MIB + PREFILL_MIB * max(sizes.prefill_tokens, PREFILL_TOKENS_MIN)
    reserved_mib += GRAPH_MIB * sizes.graph_sequences + RANK_MIB * gpus
    if card_mib > LARGE_CARD_MIB:
        reserved_mib = max(reserved_mib, LARGE_RESERVE_MIB)
    share = round((card_mib - reserved_mib) / card_mib, 3)
    low, expected = PICTURES_SHARE if sees else (1.0, 1.0)
    return low * share, expected * share
