"""Cards of several kinds that serve one model together.

Tensor parallel deals the same to each of its GPUs, and vLLM gives every worker a pool of as many blocks as
the smallest has. So the least of each property counts: memory, bandwidth, compute capability. Engines that
deal layers by the memory of the cards (llama.cpp, stages of unequal length) may do better, so a no that is
due to the smallest card is unsure there.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

import msgspec

from gpufleet.fit.answer import CardFit, FitVerdict
from gpufleet.fit.basis import Basis
from gpufleet.fit.catalogue import CardEntry, Mixture, find_cards
from gpufleet.fit.division import divisions
from gpufleet.fit.placing import placed
from gpufleet.fit.question import Model, Serving
from gpufleet.model.model_errors import InputError

SEPARATOR = "+"
_COUNTED = re.compile(r"(?P<count>[1-9][0-9]{0,3}) *x *(?P<name>.+)")

DEALT_BY_MEMORY = (
    "one start with layers dealt by the memory of each card: llama.cpp's --tensor-split, or vLLM's stages"
    " with VLLM_PP_LAYER_PARTITION"
)
"""What decides a no that rests on the smallest card."""


def mixed(text: str) -> CardEntry:
    """The entry for ``2xrtx-3090+rtx-4090``; raises InputError where a part names no card or several."""
    parts = []
    for part in text.split(SEPARATOR):
        counted = _COUNTED.fullmatch(part.strip())
        name = counted["name"] if counted else part.strip()
        found = find_cards(name)
        if len(found) != 1:
            raise InputError(
                "each part has to name one card",
                field="--gpu",
                value=part,
                expected=", ".join(card.model for card in found),
            )
        parts.append((found[0], int(counted["count"]) if counted else 1))
    return together(parts)


def together(parts: Sequence[tuple[CardEntry, int]]) -> CardEntry:
    """The entry for so many of each card; raises InputError where they are of several makers."""
    entries = [card for card, _ in parts]
    if len({card.gpu.vendor for card in entries}) > 1:
        raise InputError(
            "no engine divides a model among cards of several makers",
            field="--gpu",
            value=[card.model for card in entries],
        )
    gpus = sum(count for _, count in parts)
    least = min(entries, key=lambda card: card.usable_mib)
    slowest = min(entries, key=lambda card: card.link_gb_s)
    words = f"the least of {', '.join(dict.fromkeys(card.model for card in entries))}"
    return msgspec.structs.replace(
        least,
        model=" + ".join(f"{count} x {card.model}" for card, count in parts),
        usable_basis=Basis(unchecked=f"{words}; {least.usable_basis.text}"),
        bandwidth_gb_s=min(card.bandwidth_gb_s for card in entries),
        bandwidth_basis=Basis(unchecked=words),
        # Bridges and switches join cards of one kind.
        link=slowest.link if slowest.link.startswith("PCIe") else "PCIe",
        link_gb_s=slowest.link_gb_s,
        gpus_per_node_max=gpus,
        mixture=Mixture(
            tuple(card.model for card in entries),
            gpus,
            sum(card.usable_mib * count for card, count in parts) // gpus,
        ),
    )


def less_sure(model: Model, serving: Serving, card: CardEntry, refused: CardFit) -> CardFit:
    """The no, made unsure where cards of the mean size would do and layers can be dealt unevenly."""
    if card.mixture is None or refused.verdict is not FitVerdict.NO:
        return refused
    even = msgspec.structs.replace(card, usable_mib=card.mixture.usable_mean_mib)
    staged = serving if serving.stages or serving.tensor_parallel else replace(serving, tensor_parallel=1)
    answers = [placed(model, staged, even, one) for one in divisions(model.facts, staged, even)]
    best = next(
        (one for one in answers if one.verdict is not FitVerdict.NO and one.pipeline_parallel > 1), None
    )
    if best is None:
        return refused
    return msgspec.structs.replace(
        refused,
        verdict=FitVerdict.UNSURE,
        reasons=(
            *refused.reasons,
            f"that is by the smallest card; dealt by memory, {best.gpus} GPUs have room as expected",
        ),
        decided_by=(DEALT_BY_MEMORY,),
    )
