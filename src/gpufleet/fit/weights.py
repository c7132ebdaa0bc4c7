"""Bytes of weights on one GPU, for a format and a way of dividing the model."""

import functools
import itertools
from collections.abc import Iterable
from dataclasses import replace

from gpufleet.fit.facts import Experts, Layer, ModelFacts
from gpufleet.fit.formats import WeightFormat
from gpufleet.fit.ranks import Division
from gpufleet.fit.roles import EVERY_LAYER, Role
from gpufleet.fit.shapes import Weights, ends, matrices, of_layer


def bits_of(group: Weights, form: WeightFormat, *, tied: bool) -> float:
    """How many bits an element of that group takes; a tied table is also the head."""
    match group.role:
        case Role.EMBEDDING:
            return form.head_bits if tied else form.embedding_bits
        case Role.HEAD:
            return form.head_bits
        case Role.SMALL | Role.VISION:
            return max(16.0, form.embedding_bits if form.name == "fp32" else 16.0)
        case _:
            return form.of_layer(group.role, group.layer)


@functools.cache
def total_bytes(facts: ModelFacts, form: WeightFormat) -> float:
    """Bytes of the whole model, as its files have them."""
    return sum(group.elements * bits_of(group, form, tied=facts.tied) / 8 for group in matrices(facts))


@functools.cache
def draft_bytes(facts: ModelFacts, form: WeightFormat) -> float:
    """Bytes of the layers that only draft tokens: in the files, and not loaded unless that is asked for."""
    counted = sum(group.elements for group in of_layer(facts.layers[-1], facts.hidden))
    own = sum(
        group.elements * bits_of(group, form, tied=facts.tied) / 8
        for group in of_layer(facts.layers[-1], facts.hidden)
    )
    copies = facts.draft_elements // counted if counted else 0
    return copies * own + 2 * (facts.draft_elements - copies * counted)


def loaded_bytes(facts: ModelFacts, form: WeightFormat, files_bytes: int) -> float:
    """What an engine loads of files of that size: without layers that only draft, and of a tied table one
    copy, where the files have two.
    """
    counted, drafts = total_bytes(facts, form), draft_bytes(facts, form)
    copy = facts.vocabulary * facts.hidden * form.head_bits / 8 if facts.tied else 0.0
    has_copy = abs(files_bytes - counted - drafts - copy) < abs(files_bytes - counted - drafts)
    return files_bytes * counted / (counted + drafts + (copy if has_copy else 0.0))


@functools.cache
def read_bytes(facts: ModelFacts, form: WeightFormat) -> float:
    """Bytes that one step of decoding reads: every weight but those of experts that were not chosen.

    Of a mixture, a batch reads at least the experts of one token; how many more is up to the tokens, so an
    upper bound of speed may count no more than that.
    """
    return sum(group.active * bits_of(group, form, tied=facts.tied) / 8 for group in matrices(facts))


@functools.cache
def on_one_gpu_bytes(facts: ModelFacts, form: WeightFormat, division: Division) -> float:
    """Bytes on the fullest GPU, when layers are dealt to pipeline stages and each stage is divided."""
    stages, outside = division.stages, list(ends(facts))
    layers = _layer_bytes(facts, form, _of_one_stage(division))
    if stages == 1:
        return _bytes_of(outside, facts, form, division) + sum(layers)
    first = [group for group in outside if group.role in {Role.EMBEDDING, Role.VISION}]
    # A tied table is needed at both ends.
    last = [group for group in outside if group.role in {Role.HEAD, Role.SMALL}]
    last += [group for group in outside if facts.tied and group.role is Role.EMBEDDING]
    sizes = stage_sizes(len(layers), stages)
    starts = itertools.accumulate(sizes, initial=0)
    found = [sum(layers[start : start + size]) for start, size in zip(starts, sizes, strict=False)]
    found[0] += _bytes_of(first, facts, form, division)
    found[-1] += _bytes_of(last, facts, form, division)
    return max(found)


@functools.cache
def _layer_bytes(facts: ModelFacts, form: WeightFormat, division: Division) -> tuple[float, ...]:
    """Bytes of each layer on one GPU. Of dozens of layers a few differ, and each of these is counted once."""
    apart = {number for number, _ in form.spared}
    known: dict[tuple[Layer, int], float] = {}
    found = []
    for number, layer in enumerate(facts.layers):
        key = layer, number if number in apart else EVERY_LAYER
        if key not in known:
            groups = [replace(group, layer=key[1]) for group in of_layer(layer, facts.hidden)]
            known[key] = _bytes_of(groups, facts, form, division)
        found.append(known[key])
    return tuple(found)


def _bytes_of(groups: Iterable[Weights], facts: ModelFacts, form: WeightFormat, division: Division) -> float:
    """Bytes of these groups on one GPU."""
    return sum(held(group, form, division) * bits_of(group, form, tied=facts.tied) / 8 for group in groups)


def _of_one_stage(division: Division) -> Division:
    """How a layer is divided, whatever the number of stages."""
    return Division(1, division.tensor_parallel, division.replicas, division.whole_experts)


def spared_at_most(facts: ModelFacts, form: WeightFormat) -> WeightFormat:
    """The format with all in 16 bits that published checkpoints of its name have been seen to keep.

    That is everything but routed experts and, in a model without experts, the feed-forward layers between the
    first and the last.
    """
    last = len(facts.layers) - 1
    has_experts = any(isinstance(layer.feed_forward, Experts) for layer in facts.layers)
    parts = {(EVERY_LAYER, role) for role in (Role.ATTENTION, Role.RECURRENT, Role.SHARED)}
    if has_experts:
        parts.add((EVERY_LAYER, Role.FEED_FORWARD))
    else:
        parts |= {(0, Role.FEED_FORWARD), (last, Role.FEED_FORWARD)}
    return replace(form, spared=form.spared | parts, is_uneven=False)


def held(group: Weights, form: WeightFormat, division: Division) -> float:
    """Elements on each GPU, with what the format's kernels pad; the fullest has one expert more."""
    if group.role is not Role.EXPERT:
        return group.on_one(division.tensor_parallel)
    if division.whole_experts:
        return group.elements / group.experts * -(-group.experts // division.expert_ranks)
    if form.expert_padding == 1:
        return group.on_one(division.expert_ranks)
    width = -(-group.parts // division.expert_ranks)
    padded = -(-width // form.expert_padding) * form.expert_padding
    return group.elements / group.parts * padded


def stage_sizes(layers: int, stages: int) -> list[int]:
    """Layers of each stage; what is left over goes to stages from the last but one backwards."""
    sizes = [layers // stages] * stages
    for number in range(layers % stages):
        sizes[(stages - 2 - number) % stages] += 1
    return sizes
