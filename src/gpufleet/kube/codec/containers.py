"""A pod's containers: what they ask for, and in which order the kubelet hands out devices.

``model.requests`` adds the amounts up. Resources that only describe a share of a GPU (HAMi's and
Volcano's) are taken out before: no node offers them, and ``shares`` reads them.
"""

from collections.abc import Iterable, Iterator

import msgspec

from gpufleet.kube import keys
from gpufleet.kube.objects.pod import Container, PodSpec
from gpufleet.model.errors import InputError
from gpufleet.model.quantity import parse_quantity
from gpufleet.model.requests import MAXIMUM_DEVICES, ContainerAmounts, PodAmounts
from gpufleet.model.resource_names import GPU_RESOURCES

# The resources of which the kubelet hands out devices: whole GPUs and slots for shares.
DEVICE_RESOURCES = (*GPU_RESOURCES, keys.GPU_SHARE)
_SHARES = frozenset(keys.SHARE_RESOURCES)


class GpuContainer(msgspec.Struct, frozen=True):
    """A container that uses ``count`` devices. One that ``lends`` leaves them to those after it."""

    name: str
    count: int
    lends: bool = False


def pod_amounts(spec: PodSpec) -> PodAmounts:
    """All resource maps of the pod as written, for ``model.requests``."""
    whole = spec.resources
    return PodAmounts(
        containers=tuple(_amounts(container) for container in spec.containers),
        init_containers=tuple(
            _amounts(container, restartable=container.restartable) for container in spec.init_containers
        ),
        pod_requests={} if whole is None else whole.requests,
        pod_limits={} if whole is None else whole.limits,
        overhead=spec.overhead,
    )


def gpu_containers(spec: PodSpec) -> tuple[GpuContainer, ...]:
    """The containers that use GPUs or shares of them, in the order in which the kubelet serves them."""
    return tuple(container for container in _in_order(spec) if container.count)


def places(spec: PodSpec) -> Iterator[tuple[str, Container]]:
    """Every container with its path, as a person finds it in the pod."""
    for container in spec.init_containers:
        yield f"spec.initContainers[{container.name}]", container
    for container in spec.containers:
        yield f"spec.containers[{container.name}]", container


def device_count(container: Container, names: Iterable[str], field: str) -> int:
    """How many devices a container asks for under these resource names; a limit is a request too."""
    total = 0
    for name in names:
        text = container.resources.limits.get(name, container.resources.requests.get(name))
        if text is None:
            continue
        place = f"{field}.resources.limits[{name}]"
        amount = parse_quantity(text, field=place)
        if not amount.is_whole() or not 0 <= amount.value() <= MAXIMUM_DEVICES:
            expected = f"a whole number from 0 to {MAXIMUM_DEVICES}"
            raise InputError("not a number of devices", field=place, value=text, expected=expected)
        total += amount.value()
    return total


def _in_order(spec: PodSpec) -> Iterator[GpuContainer]:
    for container in spec.init_containers:
        count = device_count(container, DEVICE_RESOURCES, f"spec.initContainers[{container.name}]")
        yield GpuContainer(container.name, count, lends=not container.restartable)
    for container in spec.containers:
        count = device_count(container, DEVICE_RESOURCES, f"spec.containers[{container.name}]")
        yield GpuContainer(container.name, count)


def _amounts(container: Container, *, restartable: bool = False) -> ContainerAmounts:
    written = container.resources
    return ContainerAmounts(
        container.name,
        _without_shares(written.requests),
        _without_shares(written.limits),
        restartable=restartable,
    )


def _without_shares(amounts: dict[str, str]) -> dict[str, str]:
    if _SHARES.isdisjoint(amounts):
        return amounts
    return {name: text for name, text in amounts.items() if name not in _SHARES}
