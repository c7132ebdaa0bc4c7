"""Which models of GPU a pod accepts, from HAMi's annotations.

``nvidia.com/use-gputype: A100,H100`` lists models or families, ``nvidia.com/nouse-gputype`` those to
keep off. As there, a name stands for every model whose name contains it. A name of no known model
is taken for a model that only the fleet knows, because refusing it would refuse new hardware.
Selection by node labels is node affinity and stays that.
"""

import functools

from gpufleet.kube import keys
from gpufleet.model import gpu_model
from gpufleet.model.errors import InputError
from gpufleet.model.gpu_catalogue import CATALOGUE
from gpufleet.model.identifiers import GpuModelName

MAXIMUM_NAMES = 64
MAXIMUM_LENGTH = 4096


def accepted_models(annotations: dict[str, str]) -> tuple[GpuModelName, ...]:
    """The models that the pod accepts, sorted; none listed means any."""
    use, avoid = annotations.get(keys.HAMI_USE_MODEL), annotations.get(keys.HAMI_AVOID_MODEL)
    if use is None and avoid is None:
        return ()
    wanted = _all_models() if use is None else _models(use, keys.HAMI_USE_MODEL)
    unwanted = frozenset[GpuModelName]() if avoid is None else _models(avoid, keys.HAMI_AVOID_MODEL)
    accepted = wanted - unwanted
    if not accepted:
        field = f"metadata.annotations[{keys.HAMI_USE_MODEL}]"
        raise InputError("no model is left", field=field, value=use, expected="a model that is not avoided")
    return tuple(sorted(accepted))


@functools.lru_cache(maxsize=1024)
def _models(text: str, key: str) -> frozenset[GpuModelName]:
    field = f"metadata.annotations[{key}]"
    if len(text) > MAXIMUM_LENGTH:
        raise InputError(f"{len(text)} characters", field=field, expected=f"at most {MAXIMUM_LENGTH}")
    names = [name.strip(" ") for name in text.split(",")]
    if len(names) > MAXIMUM_NAMES:
        raise InputError(f"{len(names)} models", field=field, expected=f"at most {MAXIMUM_NAMES}")
    found: set[GpuModelName] = set()
    for name in names:
        if not name or not name.isascii() or not name.isprintable():
            expected = "names such as A100, separated by commas"
            raise InputError("not a model of GPU", field=field, value=text, expected=expected)
        found |= _named(name)
    return frozenset(found)


def _named(name: str) -> set[GpuModelName]:
    exact = {model.name for model in gpu_model.matching(name)}
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
