"""One model on one card in one division: what each GPU holds, what is left, and whether that is enough.

A yes is given only if the worst case fits: every part at the high end of its range. A no is given only if
the best case does not, or the engine refuses. `doubts` says what decides the cases between, `search` looks
for the division, `changes` for what would make a no into a yes.
"""

from dataclasses import replace

from gpufleet.fit.answer import CardFit, FitVerdict, Memory, Speed
from gpufleet.fit.catalogue import CardEntry
from gpufleet.fit.division import incapable, refusals, remarks
from gpufleet.fit.doubts import Doubt, doubts_of
from gpufleet.fit.engines import (
    Limits,
    PoolRule,
    activation,
    context_memory,
    graphs,
    limits_of,
    most_limits,
    needed_beside,
)
from gpufleet.fit.formats import WeightFormat
from gpufleet.fit.kv_cache import CacheLayout, element_bytes, sequence_bytes
from gpufleet.fit.pool import Parts, pool_of
from gpufleet.fit.question import Model, Serving
from gpufleet.fit.ranges import Amount, gib, together
from gpufleet.fit.ranks import Division
from gpufleet.fit.weights import (
    loaded_bytes,
    on_one_gpu_bytes,
    read_bytes,
    spared_at_most,
    total_bytes,
)

# Contexts are tried in steps of so many tokens.
CONTEXT_STEP = 1024
CONTEXT_UNSAID = 1 << 20
"""The longest context that is tried where a model states no limit."""

HELD_ABOVE = 0.015
"""Loaded weights were seen to hold up to so much more than is counted."""

TABLE_REQUESTS = 4096
"""SGLang's table of requests has at most so many rows, of an entry for each token of the context."""

TABLE_ENTRY_BYTES = 4
"""Each entry is a place in the pool, a number of 32 bits."""


def placed(model: Model, serving: Serving, card: CardEntry, division: Division) -> CardFit:
    """The whole answer for that card and division, without proposals."""
    memory = memory_of(model, serving, card, division)
    reasons = _reasons(model, serving, card, division, memory)
    one_bytes = memory.sequence_bytes
    if serving.engine.growth:
        # What computes all sequences at once holds its peak for each of them.
        grown = (1 + serving.engine.growth) * one_bytes
        one_bytes = round(grown + memory.activations.high_bytes / serving.batch)
    sure = memory.kv_pool.low_bytes // one_bytes * division.replicas if one_bytes else 0
    expected = memory.kv_pool.bytes // one_bytes * division.replicas if one_bytes else 0
    doubts: tuple[Doubt, ...] = ()
    if reasons or memory.kv_pool.high_bytes < memory.kv_needed_bytes:
        verdict = FitVerdict.NO
        reasons = reasons or (short_sentence(memory, serving),)
    else:
        doubts = tuple(doubts_of(model, serving, memory))
        verdict = FitVerdict.UNSURE if doubts else FitVerdict.YES
        reasons = tuple(doubt.says for doubt in doubts)
    return CardFit(
        gpu=card.model,
        gpus=division.gpus,
        tensor_parallel=division.tensor_parallel,
        pipeline_parallel=division.stages,
        verdict=verdict,
        memory=memory,
        sequences_min=max(0, sure),
        sequences=max(0, expected),
        context_max=longest(model, serving, card, division) if verdict is FitVerdict.YES else 0,
        speed=speed_of(model, serving, card, division),
        reasons=reasons,
        decided_by=tuple(dict.fromkeys(doubt.decided_by for doubt in doubts)),
        remarks=tuple(remarks(card, serving)),
        source=card.usable_basis.text,
    )


def memory_of(model: Model, serving: Serving, card: CardEntry, division: Division) -> Memory:
    """What each part takes on the fullest GPU, and what is left for keys and values."""
    facts, engine = model.facts, serving.engine
    asked = Limits(serving.batch, serving.batch * serving.context)
    told = Limits(serving.sequences_max, serving.batched_tokens)
    limits = limits_of(engine, asked, card, division, told)
    weights = weights_of(model, serving, division)
    activations = activation(engine, facts, limits, division, serving.context)
    at_most = most_limits(engine, limits, card, told)
    if at_most != limits:
        high = activation(engine, facts, at_most, division, serving.context).high_bytes
        words = f"{activations.basis}; at most {at_most.sequences_max} and {at_most.batched_tokens}"
        activations = Amount(activations.low_bytes, activations.bytes, high, words)
    runtime = context_memory(engine, division.expert_ranks, card)
    recorded = graphs(engine, facts)
    one = sequence_bytes(
        facts,
        serving.context,
        division.tensor_parallel,
        division.stages,
        _layout(serving, limits.batched_tokens),
    )
    # A replica holds its own sequences alone.
    needed = round(one * -(-serving.batch // division.replicas))
    beside = needed_beside(engine, facts, at_most, card, recorded)
    if engine.growth:
        most = beside.high_bytes + round(engine.growth * needed)
        beside = Amount(beside.low_bytes, beside.bytes, most, f"{beside.basis}, keys and values that grow")
    if engine.pool is PoolRule.STATIC:
        table = Amount.exact(TABLE_REQUESTS * TABLE_ENTRY_BYTES * serving.context, "")
        words = "peaks, graphs, the table of requests, other programs; beside weights and pool"
        beside = together([beside, activations, table], words)
    parts = Parts(weights, activations, runtime, recorded, beside)
    budget, pool = pool_of(facts, serving, card, division, parts)
    return Memory(
        usable_bytes=card.usable_bytes,
        budget_bytes=budget,
        weights=weights,
        activations=activations,
        runtime=runtime,
        graphs=recorded,
        beside=beside,
        kv_pool=pool,
        kv_needed_bytes=needed,
        sequence_bytes=round(one),
    )


def _layout(serving: Serving, batched_tokens: int) -> CacheLayout:
    engine = serving.engine
    # ``auto`` is the type of the weights: of two bytes, but for fp32.
    width = 2 if serving.kv == "auto" and serving.form.name == "fp32" else 1
    return CacheLayout(
        element_bytes(serving.kv) * width,
        engine.block_tokens,
        batched_tokens,
        engine.is_vllm,
        engine.state_pages,
        engine.bounds_windows,
    )


def weights_of(model: Model, serving: Serving, division: Division) -> Amount:
    """Weights on the fullest GPU: by the files' own size where that is known, else by the shapes.

    Whether encoders of pictures are divided is up to an option of the engine: at most they are whole.
    """
    facts, form = model.facts, serving.form
    counted = on_one_gpu_bytes(facts, form, division)
    if model.weights_bytes is not None and form.name == facts.native_format:
        share = counted / total_bytes(facts, form)
        loaded = loaded_bytes(facts, form, model.weights_bytes)
        found = _as_loaded(loaded * share, 0.005, "size of the files")
    else:
        found = _as_loaded(counted, form.spread, f"shapes of the model, {form.name}")
        if form.is_uneven:
            found = _up_to_spared(found, model, form, division)
    if facts.vision_heads % division.tensor_parallel:
        return found
    divided = 2 * facts.vision_parameters * (1 - 1 / division.tensor_parallel)
    return Amount(found.low_bytes, found.bytes, found.high_bytes + round(divided), found.basis)


def _as_loaded(counted: float, spread: float, basis: str) -> Amount:
    """The amount with what engines hold above it: rounded allocations, padded tables, buffers of kernels."""
    found = Amount.around(counted, spread, basis)
    return Amount(
        found.low_bytes, found.bytes, max(found.high_bytes, round((1 + HELD_ABOVE) * counted)), basis
    )


def _up_to_spared(found: Amount, model: Model, form: WeightFormat, division: Division) -> Amount:
    """The amount, where parts may be kept in 16 bits."""
    widest = spared_at_most(model.facts, form)
    most = on_one_gpu_bytes(model.facts, widest, division)
    words = f"{found.basis}; at most with what such checkpoints have been seen to keep in 16 bits"
    return Amount(found.low_bytes, found.bytes, max(found.high_bytes, round(most * (1 + form.spread))), words)


def _reasons(
    model: Model, serving: Serving, card: CardEntry, division: Division, memory: Memory
) -> tuple[str, ...]:
    found = [*refusals(model.facts, serving.form, division)]
    unable = incapable(card, serving)
    if unable:
        found.append(unable)
    if division.tensor_parallel > card.gpus_per_node_max:
        found.append(f"tensor parallel stays within a node, and nodes have up to {card.gpus_per_node_max}")
    if card.gpus_max and division.gpus > card.gpus_max:
        found.append(f"{division.gpus} GPUs are needed, and there are {card.gpus_max}")
    if _lacks_room_beside(serving, memory):
        found.append(
            f"graphs need {gib(memory.beside.low_bytes)} beside the pool, and the utilisation leaves"
            f" {gib(memory.usable_bytes - memory.budget_bytes)}"
        )
    if division.stages > len(model.facts.layers):
        found.append(f"{len(model.facts.layers)} layers are not enough for {division.stages} stages")
    if model.facts.context_max and serving.context > model.facts.context_max:
        found.append(
            f"the model was made for {model.facts.context_max} tokens; for more, its positions have to be"
            " scaled, and the engine refuses unless told so"
        )
    if memory.weights.low_bytes > memory.budget_bytes:
        found.append(
            f"the weights alone need {gib(memory.weights.bytes)} on each GPU,"
            f" of {gib(memory.budget_bytes)} that the engine may use"
        )
    return tuple(found)


def _lacks_room_beside(serving: Serving, memory: Memory) -> bool:
    """Whether even the least that has to be beside the pool finds no room."""
    return serving.engine.sizes_pool and memory.beside.low_bytes > memory.usable_bytes - memory.budget_bytes


def short_sentence(memory: Memory, serving: Serving) -> str:
    """How much is missing, where nothing else is in the way."""
    return (
        f"{gib(max(0, memory.kv_pool.bytes))} are left for keys and values, and {serving.batch} x"
        f" {serving.context} tokens need {gib(memory.kv_needed_bytes)}"
    )


def longest(model: Model, serving: Serving, card: CardEntry, division: Division) -> int:
    """The longest context for which that batch surely fits, in steps of 1024 tokens."""
    least = serving.context
    most = max(least, model.facts.context_max or CONTEXT_UNSAID)
    steps = (most - least) // CONTEXT_STEP
    low, high = 0, steps
    while low < high:
        middle = (low + high + 1) // 2
        longer = replace(serving, context=least + middle * CONTEXT_STEP)
        memory = memory_of(model, longer, card, division)
        if not any(doubts_of(model, longer, memory)):
            low = middle
        else:
            high = middle - 1
    found = least + low * CONTEXT_STEP
    # The last step is shorter than the others, and no less may go wrong in it.
    longer = replace(serving, context=most)
    is_last = low == steps and most > found
    fits_all = is_last and not any(doubts_of(model, longer, memory_of(model, longer, card, division)))
    return most if fits_all else found


def speed_of(model: Model, serving: Serving, card: CardEntry, division: Division) -> Speed:
    """All that is read for a token, through the memory of the GPUs that work at the same time."""
    facts, tensor = model.facts, division.tensor_parallel
    bandwidth = card.bandwidth_gb_s * 1e9
    weights = read_bytes(facts, serving.form) / tensor
    plain = CacheLayout(element_bytes(serving.kv), 1, 1, is_grouped=False)
    kept = -(-serving.batch // division.replicas) * sequence_bytes(facts, serving.context, tensor, 1, plain)
    return Speed(
        empty_tokens_per_s=round(bandwidth / weights, 1),
        full_tokens_per_s=round(bandwidth / (weights + kept), 1),
        basis=f"{card.bandwidth_gb_s:g} GB/s a GPU, every active weight read once for each token;"
        f" {card.bandwidth_basis.text}",
    )
