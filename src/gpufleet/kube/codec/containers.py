"""A pod's containers: what they ask for, and in which order the kubelet hands out devices.

``model.requests`` adds the amounts up. Resources that only describe a share of a GPU (HAMi's and
Volcano's) are taken out before: no node offers them, and ``meanings.shares`` reads them.
"""

from collections.abc import Iterable, Iterator

import msgspec

from gpufleet.kube import keys
from gpufleet.kube.meanings.shares import without_share_resources
from gpufleet.kube.objects.pod import Container, PodSpec
from gpufleet.model.requests import ContainerAmounts, PodAmounts, device_count, effective_requests
from gpufleet.model.resource_names import GPU_RESOURCES

# The resources of which the kubelet hands out devices: whole GPUs and slots for shares.
DEVICE_RESOURCES = (*GPU_RESOURCES, keys.GPU_SHARE)


class GpuContainer(msgspec.Struct, frozen=True):
    """A container that uses ``count`` devices. One that ``lends`` leaves them to those after it."""

    name: str
    count: int
    lends: bool = False


def pod_amounts(spec: PodSpec) -> PodAmounts:
    """All resource maps of the pod that count, for ``model.requests``."""
    return without_share_resources(written_amounts(spec))


def written_amounts(spec: PodSpec) -> PodAmounts:
    """All resource maps of the pod as written."""
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


def devices_held(spec: PodSpec, names: Iterable[str]) -> int:
    """How many devices of these resources the pod holds at most at one time. Raises InputError."""
    wanted = tuple(names)
    containers = [{"": _count(one, wanted, "containers")} for one in spec.containers]
    starting = [
        ({"": _count(one, wanted, "initContainers")}, one.restartable) for one in spec.init_containers
    ]
    return effective_requests(containers, starting).get("", 0)


def _in_order(spec: PodSpec) -> Iterator[GpuContainer]:
    for container in spec.init_containers:
        count = _count(container, DEVICE_RESOURCES, "initContainers")
        yield GpuContainer(container.name, count, lends=not container.restartable)
    for container in spec.containers:
        yield GpuContainer(container.name, _count(container, DEVICE_RESOURCES, "containers"))


def _count(container: Container, names: Iterable[str], part: str) -> int:
    written = container.resources
    return device_count(written.requests, written.limits, names, f"spec.{part}[{container.name}]")


def _amounts(container: Container, *, restartable: bool = False) -> ContainerAmounts:
    written = container.resources
    return ContainerAmounts(container.name, written.requests, written.limits, restartable=restartable)
