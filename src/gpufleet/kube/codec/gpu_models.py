"""Which models of GPU a pod accepts, from our annotation and HAMi's, and in which order they are tried.

``gpufleet.io/gpu-models: H100,A100`` lists models or families in the order in which they are wanted.
``nvidia.com/use-gputype: A100,H100`` lists them without an order, ``nvidia.com/nouse-gputype`` those to keep
off; both may narrow our list. In our list a name stands for that model or family (``A100`` for A100-40GB and
A100-80GB), and only a name of neither for every model that contains it. In HAMi's lists each name does that:
``L4`` is L40 and L40S too. A name of no known model is taken for a model that only the fleet knows, because
refusing it would refuse new hardware. Selection by node labels is node affinity and stays that.
"""

import functools
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from gpufleet.kube import keys
from gpufleet.model import gpu_model
from gpufleet.model.gpu_catalogue import CATALOGUE
from gpufleet.model.identifiers import GpuModelName
from gpufleet.model.model_errors import InputError

# More than there are models in any fleet; the bounds keep one pod from costing every round of decisions.
MAXIMUM_NAMES = 64
MAXIMUM_LENGTH = 4096


Models = tuple[GpuModelName, ...]


class Accepted(NamedTuple):
    """The models that a pod accepts, sorted, and the groups in which they are tried one after the other.

    No models listed means any, no groups all at once.
    """

    models: Models = ()
    order: tuple[Models, ...] = ()


def accepted_models(annotations: Mapping[str, str]) -> Accepted:
    """What the pod accepts. Raises InputError for what cannot be understood, or leaves no model."""
    use, avoid = annotations.get(keys.HAMI_USE_MODEL), annotations.get(keys.HAMI_AVOID_MODEL)
    ours = annotations.get(keys.GPU_MODELS)
    if use is None and avoid is None and ours is None:
        return Accepted()
    unwanted = frozenset[GpuModelName]() if avoid is None else _models(avoid, keys.HAMI_AVOID_MODEL)
    wanted = None if use is None else _models(use, keys.HAMI_USE_MODEL)
    if ours is None:
        accepted = (_all_models() if wanted is None else wanted) - unwanted
        order: tuple[Models, ...] = ()
    else:
        # HAMi's words only take models away from those that ours list in order.
        order = tuple(_without_repeats(_groups(ours, keys.GPU_MODELS), wanted, unwanted))
        accepted = frozenset(model for group in order for model in group)
    if not accepted:
        key, text = (keys.HAMI_USE_MODEL, use) if ours is None else (keys.GPU_MODELS, ours)
        field = f"metadata.annotations[{key}]"
        raise InputError("no model is left", field=field, value=text, expected="a model that is not avoided")
    return Accepted(tuple(sorted(accepted)), order)


def one_model_of(annotations: Mapping[str, str]) -> Models:
    """The models of which the pod's whole gang wants to be on one, in their order; none if it does not."""
    field = f"metadata.annotations[{keys.GANG_ONE_MODEL}]"
    said = annotations.get(keys.GANG_ONE_MODEL)
    if said is None or said == "false":
        return ()
    if said != "true":
        raise InputError("neither yes nor no", field=field, value=said, expected="true or false")
    order = accepted_models(annotations).order
    if not order:
        expected = f"{keys.GPU_MODELS} beside it, with the models in their order"
        raise InputError("one model of an unknown list", field=field, value=said, expected=expected)
    return tuple(model for group in order for model in group)


def _without_repeats(
    groups: Iterable[frozenset[GpuModelName]],
    wanted: frozenset[GpuModelName] | None,
    unwanted: frozenset[GpuModelName],
) -> Iterator[Models]:
    """The groups without what is not accepted, and each model where it is named first."""
    seen = set(unwanted)
    for group in groups:
        left = group - seen if wanted is None else group & wanted - seen
        seen |= left
        if left:
            yield tuple(sorted(left))


# Pods are made from templates, so that few lists are read again and again.
@functools.lru_cache(maxsize=1024)
def _models(text: str, key: str) -> frozenset[GpuModelName]:
    return frozenset[GpuModelName]().union(*_groups(text, key))


@functools.lru_cache(maxsize=1024)
def _groups(text: str, key: str) -> tuple[frozenset[GpuModelName], ...]:
    """For each name of a list the models that it stands for."""
    field = f"metadata.annotations[{key}]"
    if len(text) > MAXIMUM_LENGTH:
        raise InputError(f"{len(text)} characters", field=field, expected=f"at most {MAXIMUM_LENGTH}")
    names = [name.strip(" ") for name in text.split(",")]
    if len(names) > MAXIMUM_NAMES:
        raise InputError(f"{len(names)} models", field=field, expected=f"at most {MAXIMUM_NAMES}")
    for name in names:
        if not name or not name.isascii() or not name.isprintable():
            expected = "names such as A100, separated by commas"
            raise InputError("not a model of GPU", field=field, value=text, expected=expected)
    return tuple(frozenset(_named(name, key)) for name in names)


def _named(name: str, key: str) -> set[GpuModelName]:
    exact = {model.name for model in gpu_model.matching(name)}
    if exact and key == keys.GPU_MODELS:
        return exact
    part = name.casefold()
    containing = {
        model.name
        for model in CATALOGUE
        if any(part in spelling.casefold() for spelling in (model.name, *model.labels))
    }
    return exact | containing or {GpuModelName(name)}


@functools.cache
def _all_models() -> frozenset[GpuModelName]:
    return frozenset(model.name for model in CATALOGUE)
