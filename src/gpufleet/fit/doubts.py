"""Why an answer is not sure, and what would decide it.

Between the worst and the best case arithmetic cannot tell. Each doubt names the part whose range is in the
way, and what settles that part: the checkpoint's own files, a smaller number, or one start of the engine.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from gpufleet.fit.answer import Memory
from gpufleet.fit.question import Model, Serving
from gpufleet.fit.ranges import Amount, gib

OWN_FILES = (
    "the checkpoint's own files: gpufleet fit with its config.json and safetensors index, or with --hub"
)
ONE_START = "one start of the engine on that card: its log says what its trial run held and what is left"
LESS_BESIDE = (
    "one start of the engine on that card; a smaller --utilization or --max-num-seqs leaves more beside the"
    " pool"
)
FEWER_PICTURES = "one start of the engine on that card; --limit-mm-per-prompt and smaller pictures need less"
FREE_MEMORY = (
    "what other programs hold on the card: nvidia-smi, or gpufleet fit --cluster where the agent runs"
)


@dataclass(frozen=True, slots=True)
class Doubt:
    """One thing that is not known, and what would decide it."""

    says: str
    decided_by: str


def doubts_of(model: Model, serving: Serving, memory: Memory) -> Iterator[Doubt]:
    """The doubts about an answer that is no sure no; none where it surely fits."""
    if memory.kv_pool.low_bytes < memory.kv_needed_bytes:
        yield _short_pool(model, serving, memory)
    beside_bytes = memory.usable_bytes - memory.budget_bytes
    if serving.engine.sizes_pool and memory.beside.high_bytes > beside_bytes:
        yield Doubt(
            f"{gib(beside_bytes)} are beside what the engine may use, and graphs, the sampler's warm-up and"
            f" other programs need up to {gib(memory.beside.high_bytes)} there",
            LESS_BESIDE,
        )


def _short_pool(model: Model, serving: Serving, memory: Memory) -> Doubt:
    says = (
        f"as expected {gib(max(0, memory.kv_pool.bytes))} are left for keys and values, at worst"
        f" {gib(max(0, memory.kv_pool.low_bytes))}, and {gib(memory.kv_needed_bytes)} are needed"
    )
    return Doubt(says, _decider_of_pool(model, serving, memory))


def _decider_of_pool(model: Model, serving: Serving, memory: Memory) -> str:
    """What settles the part of the widest range: it moves the answer most."""
    sees = model.facts.vision_peak_bytes > memory.activations.low_bytes
    widths = [
        (_above(memory.weights), OWN_FILES if serving.form.is_uneven else ONE_START),
        (_above(memory.activations), FEWER_PICTURES if sees else ONE_START),
        (_above(memory.runtime) + _above(memory.graphs), ONE_START),
    ]
    if not serving.engine.sizes_pool:
        widths.append((_above(memory.beside), FREE_MEMORY))
    return max(widths)[1]


def _above(part: Amount) -> int:
    """How far the worst case of a part is above what is expected."""
    return part.high_bytes - part.bytes
