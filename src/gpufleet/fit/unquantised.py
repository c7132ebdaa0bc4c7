"""Which parts of a quantised checkpoint stay in 16 bits, from the names and patterns that it lists.

Checkpoints name modules (``model.layers.0.self_attn.q_proj``, ``lm_head``, ``self_attn``) or patterns
(``*`` or a regular expression). A part of a layer is spared where all its usual modules are listed.
Patterns are read as globs and never run: a file must not be able to keep the reader busy.
"""

import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from itertools import product

from gpufleet.fit.roles import EVERY_LAYER, Role

ATTENTIONS = (
    ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj"),
    ("self_attn.q_b_proj", "self_attn.kv_a_proj_with_mqa", "self_attn.kv_b_proj", "self_attn.o_proj"),
    ("self_attn.qkv_proj", "self_attn.o_proj"),
)
PARTS: dict[Role, tuple[tuple[str, ...], ...]] = {
    Role.ATTENTION: ATTENTIONS,
    Role.RECURRENT: (
        ("linear_attn.in_proj_qkv", "linear_attn.out_proj"),
        ("linear_attn.in_proj_qkvz", "linear_attn.out_proj"),
        ("mixer.in_proj", "mixer.out_proj"),
        ("mamba.in_proj", "mamba.out_proj"),
    ),
    Role.FEED_FORWARD: (
        ("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"),
        ("mlp.gate_up_proj", "mlp.down_proj"),
    ),
    Role.SHARED: (
        ("mlp.shared_experts.gate_proj", "mlp.shared_experts.up_proj", "mlp.shared_experts.down_proj"),
        ("mlp.shared_expert.gate_proj", "mlp.shared_expert.up_proj", "mlp.shared_expert.down_proj"),
    ),
    Role.EXPERT: (
        ("mlp.experts.7.gate_proj", "mlp.experts.7.up_proj", "mlp.experts.7.down_proj"),
        ("block_sparse_moe.experts.7.w1", "block_sparse_moe.experts.7.w2", "block_sparse_moe.experts.7.w3"),
    ),
}
"""Modules of each part, in the ways in which the usual models name them."""

# How publishers begin the names of weights; without it they are those of the layers.
BEFORE = ("model.", "model.language_model.", "language_model.model.", "backbone.")
ALTERNATIVES_MAX = 64
"""Alternatives multiply; an expression with more is left out instead of being spelt out."""

_ALTERNATIVES = re.compile(r"\(\??:?([^()]*)\)")


def spared_parts(entries: Iterable[str], layers: int) -> frozenset[tuple[int, Role]]:
    """The parts that are listed, with the layer, or ``EVERY_LAYER``."""
    globs = [glob for entry in entries for glob in globs_of(entry)]
    by_layer: dict[int, list[str]] = {}
    for glob in globs:
        number = re.search(r"layers\.([0-9]+)\.", glob)
        by_layer.setdefault(int(number[1]) if number else EVERY_LAYER, []).append(glob)
    everywhere = by_layer.pop(EVERY_LAYER, [])
    found = {(EVERY_LAYER, role) for role in PARTS if _is_listed(role, layers + 1, everywhere)}
    for layer, own in by_layer.items():
        if layer < layers:
            found |= {(layer, role) for role in PARTS if _is_listed(role, layer, everywhere + own)}
    return frozenset(one for one in found if one[0] == EVERY_LAYER or (EVERY_LAYER, one[1]) not in found)


def _is_listed(role: Role, layer: int, globs: list[str]) -> bool:
    return any(
        all(_matches(f"{before}layers.{layer}.{module}", globs) for module in modules)
        for modules in PARTS[role]
        for before in BEFORE
    )


def _matches(name: str, globs: list[str]) -> bool:
    return any(
        fnmatchcase(name, glob) or fnmatchcase(name, f"{glob}.*")
        if "*" in glob
        else f".{glob}." in f".{name}."
        for glob in globs
    )


def globs_of(entry: str) -> Iterator[str]:
    """An entry as globs; a regular expression that says more than a glob can is left out."""
    if not entry.startswith("re:"):
        yield entry
        return
    text = entry.removeprefix("re:").removeprefix("^")
    text = re.sub(r"\\d\+?|\[0-9\]\+?", "*", text)
    pieces = _ALTERNATIVES.split(text)
    choices = [piece.split("|") if number % 2 else [piece] for number, piece in enumerate(pieces)]
    count = 1
    for choice in choices:
        count *= len(choice)
    if count > ALTERNATIVES_MAX:
        return
    for words in product(*choices):
        joined = "".join(words)
        ends = joined.endswith("$")
        glob = joined.removesuffix("$").replace("\\.", "\0").replace(".*", "*").replace("\0", ".")
        if not re.search(r"[\\()|+?\[\]{}^$]", glob):
            # A regular expression is compared from the start on and says nothing about what follows.
            yield glob if ends or glob.endswith("*") else f"{glob}*"
