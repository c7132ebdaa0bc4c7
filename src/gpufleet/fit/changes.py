"""What to change so that it fits: each proposal is tried before it is made."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from gpufleet.fit.answer import CardFit
from gpufleet.fit.formats import FORMATS, WeightFormat
from gpufleet.fit.question import Model, Serving

# Contexts are tried in steps of so many tokens.
CONTEXT_LEAST = 1024
SEQUENCES = 128
"""Half of vLLM's smallest default."""

UTILISATIONS = (0.95, 0.93)
"""Above vLLM's default; the rest stays for graphs, the sampler's warm-up and other programs."""

# Tried in this order: fp8 loses less.
SMALLER = ("fp8", "awq")
# Weights from which a smaller form is worth proposing.
SIXTEEN_BITS = ("bf16", "fp16", "fp32")

Fits = Callable[[Serving], CardFit | None]


def changes_for(model: Model, serving: Serving, fits: Fits) -> Iterator[str]:
    """Proposals, the least painful first: more GPUs, then smaller numbers, then less at a time."""
    if serving.tensor_parallel or serving.stages:
        found = fits(replace(serving, tensor_parallel=0, stages=0))
        if found is not None:
            yield f"more GPUs: {found.gpus} GPUs ({division_words(found)})"
    yield from _less_beside(serving, fits)
    yield from _other_numbers(serving, fits)
    if serving.batch > 1 and (batch := _most(serving.batch, lambda n: fits(replace(serving, batch=n)))):
        yield f"{batch} sequences at a time instead of {serving.batch}: --batch {batch}"
    context = _longest(model, serving, fits)
    if context:
        yield f"at most {context} tokens instead of {serving.context}: --context {context}"


def _less_beside(serving: Serving, fits: Fits) -> Iterator[str]:
    """What leaves more for keys and values without touching the model."""
    if not serving.engine.sizes_pool:
        return
    if not serving.sequences_max and fits(replace(serving, sequences_max=SEQUENCES)) is not None:
        yield f"fewer sequences at once, which the sampler prepares for: --max-num-seqs {SEQUENCES}"
    for more in UTILISATIONS:
        if serving.utilisation < more and fits(replace(serving, utilisation=more)) is not None:
            yield f"more of the card, if nothing else runs on it: --utilization {more}"
            return


def fewer_gpus(serving: Serving, gpus: int, fits: Fits) -> Iterator[str]:
    """What would let it run on fewer GPUs than it already fits on."""
    if gpus == 1 or serving.tensor_parallel or serving.stages or serving.form.name not in SIXTEEN_BITS:
        return
    for name in SMALLER:
        found = fits(replace(serving, form=_form(name)))
        if found is not None and found.gpus < gpus:
            gpus = found.gpus
            yield f"{count_words(found)} with weights in {name}: --weights {name}"


def _other_numbers(serving: Serving, fits: Fits) -> Iterator[str]:
    smaller = serving.form.name in SIXTEEN_BITS
    for name in SMALLER if smaller else ():
        found = fits(replace(serving, form=_form(name)))
        if found is not None:
            yield f"weights in {name}: --weights {name} ({count_words(found)})"
            return
    if not serving.kv.startswith("fp8"):
        found = fits(replace(serving, kv="fp8"))
        if found is not None:
            yield f"keys and values in fp8: --kv fp8 ({count_words(found)})"
            return
    # Two changes at once are proposed only where neither is enough alone.
    for name in SMALLER if smaller else ():
        found = fits(replace(serving, form=_form(name), kv="fp8"))
        if found is not None:
            yield (
                f"weights in {name}, keys and values in fp8: --weights {name} --kv fp8 ({count_words(found)})"
            )
            return


def _form(name: str) -> WeightFormat:
    return FORMATS[name]


def _longest(model: Model, serving: Serving, fits: Fits) -> int:
    asked = min(serving.context, model.facts.context_max or serving.context)
    steps = -(-asked // CONTEXT_LEAST)

    def tries(step: int) -> CardFit | None:
        return fits(replace(serving, context=min(asked, step * CONTEXT_LEAST)))

    step = _most(steps + 1, tries)
    return min(asked, step * CONTEXT_LEAST)


def _most(above: int, tries: Callable[[int], CardFit | None]) -> int:
    """The largest number below ``above`` that fits, 0 if not even 1 does."""
    low, high = 0, above - 1
    # What fits with a number fits with every smaller one, so the range can be halved.
    while low < high:
        middle = (low + high + 1) // 2
        if tries(middle) is not None:
            low = middle
        else:
            high = middle - 1
    return low


def division_words(found: CardFit) -> str:
    """The division in the words of vLLM's options."""
    stages = f", pipeline parallel {found.pipeline_parallel}" if found.pipeline_parallel > 1 else ""
    return f"tensor parallel {found.tensor_parallel}{stages}"


def count_words(found: CardFit) -> str:
    """How many GPUs it then takes."""
    return "1 GPU" if found.gpus == 1 else f"{found.gpus} GPUs"
