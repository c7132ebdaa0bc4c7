"""Amounts of resources as they are written: what is no amount counts for nothing here."""

from collections.abc import Mapping
from functools import lru_cache

from gpufleet.lint.source.fields import Field
from gpufleet.model.model_errors import InputError
from gpufleet.model.quantity import Quantity, parse_quantity
from gpufleet.model.requests import Amounts, ContainerAmounts, PodAmounts, effective_requests


# Thousands of containers ask for the same few amounts.
@lru_cache(maxsize=4096)
def amount(text: str | None) -> Quantity | None:
    """The quantity, or None where the text is none."""
    if text is None:
        return None
    try:
        return parse_quantity(text)
    except InputError:
        return None


def container_amounts(container: Field) -> ContainerAmounts:
    """All amounts of a container as they are written."""
    return ContainerAmounts(
        container.text_at("name") or "",
        container.texts_at("resources", "requests"),
        container.texts_at("resources", "limits"),
        restartable=container.text_at("restartPolicy") == "Always",
    )


def effective_amounts(pod: PodAmounts) -> Amounts:
    """What a pod asks for, as kube-scheduler adds it up."""
    return dict(_effective(_HashablePod(pod)))


class _HashablePod:
    """The amounts of a pod as a key: of thousands of pods a few ask for something else."""

    __slots__ = ("_key", "pod")

    def __init__(self, pod: PodAmounts) -> None:
        self.pod = pod
        self._key = (
            tuple(map(_key_of, pod.containers)),
            tuple(map(_key_of, pod.init_containers)),
            *(tuple(one.items()) for one in (pod.pod_requests, pod.pod_limits, pod.overhead)),
        )

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _HashablePod) and self._key == other._key


def _key_of(container: ContainerAmounts) -> tuple[object, ...]:
    return (container.restartable, tuple(container.requests.items()), tuple(container.limits.items()))


@lru_cache(maxsize=4096)
def _effective(key: _HashablePod) -> Amounts:
    pod = key.pod
    return effective_requests(
        [_of_container(one) for one in pod.containers],
        [(_of_container(one), one.restartable) for one in pod.init_containers],
        _read(pod.pod_requests),
        _read(pod.pod_limits),
        _read(pod.overhead),
    )


def _of_container(container: ContainerAmounts) -> Amounts:
    """A limit stands for the request where that is missing."""
    return {**_read(container.limits), **_read(container.requests)}


def _read(texts: Mapping[str, str]) -> Amounts:
    found = ((name, amount(text)) for name, text in texts.items())
    return {name: one for name, one in found if one is not None and one.nano >= 0} if texts else {}
