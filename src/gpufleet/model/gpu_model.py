"""A model of GPU, and finding one by whatever name a label, a trace or a person uses.

Feature discovery writes "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb-SHARED", people write "a100 80gb",
traces have codes; all of them may stand for the same model. A name that fits several models ("A100"
has 40 or 80 GB) finds them all, and never one by guess. The rows are in ``gpu_catalogue``.
"""

import functools
import re
from collections.abc import Iterable

from gpufleet.model.gpu_catalogue import CATALOGUE, GpuModel, Vendor
from gpufleet.model.identifiers import GpuModelName
from gpufleet.model.label_advice import edits_between, nearest

_MAXIMUM_LENGTH = 128
"""Twice the length of a label's value: longer texts name no model."""

_TEXTS_KEPT_MAX = 1024
"""A fleet has a few labels on ten thousand GPUs. The bound is for labels that are made up."""

# What feature discovery appends where a card is shared or partitioned.
_STATE = re.compile(r"(?:-MIG-.*?)?(?:-SHARED)?$")
_NOISE = re.compile(r"[^a-z0-9]+")
_MAKERS = re.compile(r"^(?:nvidia|amd|intel(?:r|corporation)?)?(?:tesla|geforce|quadro|instinct)?")


def matching(text: str) -> tuple[GpuModel, ...]:
    """All models that a label's value, a name or a family ("A100") may stand for."""
    # Before the cache, which would keep a text of a report however long it is.
    return () if len(text) > _MAXIMUM_LENGTH else _matching(text)


@functools.lru_cache(maxsize=_TEXTS_KEPT_MAX)
def _matching(text: str) -> tuple[GpuModel, ...]:
    return _index().get(_plain(text), ())


def find(text: str) -> GpuModel | None:
    """The model that the text stands for; None if that is no model, or not one only."""
    found = matching(text)
    return found[0] if len(found) == 1 else None


def unknown(name: str, memory_mib: int | None = None) -> GpuModel:
    """A model that is in no catalogue, such as a trace's code, with its memory if that is known."""
    return GpuModel(GpuModelName(name), Vendor.UNKNOWN, name, memory_mib)


def nearest_name(text: str) -> str | None:
    """The known model's name that was probably meant by a misspelt one, None if none is near."""
    families = {_plain(model.family): model.family for model in CATALOGUE}
    spellings = families | {
        _plain(spelling): str(model.name) for model in CATALOGUE for spelling in (model.name, *model.labels)
    }
    plain = _plain(text[:_MAXIMUM_LENGTH])
    closest = nearest(plain, spellings)
    if closest is None:
        # "H100-81GB" is no name of a model, so another digit is a slip here, and not another model's name.
        closest = next((one for one in sorted(spellings) if edits_between(plain, one) == 1), None)
    return None if closest is None else spellings[closest]


def _plain(text: str) -> str:
    """The spelling without what differs between writers: case, punctuation, maker and brand."""
    return _MAKERS.sub("", _NOISE.sub("", _STATE.sub("", text).lower()))


@functools.cache
def _index() -> dict[str, tuple[GpuModel, ...]]:
    """Models by spelling. A model's own name goes before the family of the same name."""
    found = _grouped((text, model) for model in CATALOGUE for text in (model.name, *model.labels))
    families = _grouped((model.family, model) for model in CATALOGUE)
    return {**families, **found}


def _grouped(spelt: Iterable[tuple[str, GpuModel]]) -> dict[str, tuple[GpuModel, ...]]:
    found: dict[str, tuple[GpuModel, ...]] = {}
    for text, model in spelt:
        plain = _plain(text)
        others = found.get(plain, ())
        found[plain] = others if model in others else (*others, model)
    return found
