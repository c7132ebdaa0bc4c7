"""Ways of dividing a model among GPUs, and why some of them do not work.

Tensor parallel cuts every layer; it stays within one node, where the links are. Pipeline stages deal out
whole layers. An engine refuses to start on a division that cuts through a head or through the weights that
share a scale, so such a division never fits, however much memory there is.
"""

import functools
from collections.abc import Iterator

from gpufleet.fit.catalogue import CardEntry
from gpufleet.fit.facts import (
    Dense,
    Experts,
    GroupedAttention,
    LatentAttention,
    Layer,
    Mixer,
    ModelFacts,
    Recurrence,
)
from gpufleet.fit.formats import WeightFormat
from gpufleet.fit.question import Serving
from gpufleet.fit.ranks import Division

STAGES_MAX = 16
"""More pipeline stages are not proposed: each adds a hop to every token."""

CAPABILITY_16_BIT_BRAIN = 8.0
"""Ampere is the first with bfloat16."""

CAPABILITY_FP8 = 8.9
"""Ada is the first with FP8."""


def divisions(facts: ModelFacts, serving: Serving, card: CardEntry) -> Iterator[Division]:
    """The divisions to try, those of fewest GPUs first; those that were asked for, if any were."""
    tensor = [serving.tensor_parallel] if serving.tensor_parallel else range(1, card.gpus_per_node_max + 1)
    if serving.engine.deals_layers:
        tensor = [serving.tensor_parallel or 1]
    # What deals layers to GPUs by itself knows those of its own machine.
    stages_max = card.gpus_per_node_max if serving.engine.deals_layers else STAGES_MAX
    stages = [serving.stages] if serving.stages else range(1, min(stages_max, len(facts.layers)) + 1)
    found = [
        Division(stage, one, serving.replicas, serving.whole_experts) for stage in stages for one in tensor
    ]
    # Stages add waiting to every token: only whole nodes are put behind each other.
    whole = max(
        (one.tensor_parallel for one in found if not refusals(facts, serving.form, one)),
        default=1,
    )
    open_stages = not serving.stages and not serving.engine.deals_layers
    kept = [one for one in found if not open_stages or one.stages == 1 or one.tensor_parallel == whole]
    kept = [one for one in kept if not card.gpus_max or one.gpus <= card.gpus_max] or kept[:1]
    yield from sorted(kept, key=lambda one: (one.gpus, one.stages))


def refusals(facts: ModelFacts, form: WeightFormat, division: Division) -> tuple[str, ...]:
    """Why an engine would not start with that division; empty if it would. Stages cut through nothing."""
    one_stage = Division(1, division.tensor_parallel, division.replicas, division.whole_experts)
    return _refusals(facts, form, one_stage)


@functools.cache
def _refusals(facts: ModelFacts, form: WeightFormat, division: Division) -> tuple[str, ...]:
    found: dict[str, None] = {}
    if division.whole_experts and not any(isinstance(one.feed_forward, Experts) for one in facts.layers):
        found["the model has no experts to deal out: leave out --ep"] = None
    if division.tensor_parallel == division.expert_ranks == 1:
        return tuple(found)
    for layer in set(facts.layers):
        for mixer in layer.mixers:
            found.update(dict.fromkeys(_of_mixer(mixer, division.tensor_parallel)))
        found.update(dict.fromkeys(_of_part(layer, form, division)))
    return tuple(sorted(found))


def _of_mixer(mixer: Mixer | None, tensor_parallel: int) -> Iterator[str]:
    if isinstance(mixer, GroupedAttention | LatentAttention | Recurrence) and mixer.heads % tensor_parallel:
        yield f"{mixer.heads} heads cannot be divided among {tensor_parallel} GPUs"
    if isinstance(mixer, GroupedAttention):
        more, less = max(mixer.kv_heads, tensor_parallel), min(mixer.kv_heads, tensor_parallel)
        if more % less:
            yield f"{mixer.kv_heads} heads of keys and values cannot be dealt to {tensor_parallel} GPUs"


def _of_part(layer: Layer, form: WeightFormat, division: Division) -> Iterator[str]:
    part = layer.feed_forward
    if not isinstance(part, Dense | Experts):
        return
    tensor_parallel = division.tensor_parallel
    if isinstance(part, Experts):
        if division.whole_experts:
            return
        tensor_parallel = division.expert_ranks
    what = "experts" if isinstance(part, Experts) else "feed-forward layers"
    if part.intermediate % tensor_parallel:
        yield f"{what} of width {part.intermediate} cannot be divided among {tensor_parallel} GPUs"
    elif form.group > 1 and (part.intermediate // tensor_parallel) % form.group:
        yield (
            f"{what} of width {part.intermediate} among {tensor_parallel} GPUs cut through the groups of"
            f" {form.group} weights that share a scale in {form.name}"
        )


def incapable(card: CardEntry, serving: Serving) -> str:
    """Why the engine has no kernels for that format on that card; empty if it has, or that is not known."""
    capability, engine = card.capability, serving.engine
    if engine.nvidia_only and not capability:
        return f"{engine.name} runs on NVIDIA's cards alone"
    if capability and capability < engine.capability_min:
        return (
            f"{engine.name} runs from compute capability {engine.capability_min} on,"
            f" and {card.model} has {capability}"
        )
    if not capability or not engine.is_vllm:
        return ""
    if capability < serving.form.capability_min:
        return (
            f"vLLM runs {serving.form.name} from compute capability {serving.form.capability_min} on,"
            f" and {card.model} has {capability}"
        )
    return ""


def remarks(card: CardEntry, serving: Serving) -> Iterator[str]:
    """What has to be done for the card, or is slower on it."""
    capability = card.capability
    if not capability or not serving.engine.is_vllm:
        return
    if capability < CAPABILITY_16_BIT_BRAIN and serving.form.name == "bf16":
        yield f"{card.model} has no bfloat16: start vLLM with --dtype half; the memory is the same"
    if capability < CAPABILITY_FP8 and serving.form.name.startswith("fp8"):
        yield f"{card.model} computes no fp8: the weights are stored in it, and speed is that of 16 bits"
    if capability < CAPABILITY_FP8 and serving.kv.startswith("fp8"):
        yield f"{card.model} computes no fp8: not every attention kernel of vLLM takes such keys and values"
