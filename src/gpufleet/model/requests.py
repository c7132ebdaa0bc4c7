"""What a pod needs, from the resource maps that its containers write.

The total is the one that kube-scheduler computes, or two schedulers on one cluster would not
agree what is free: containers and sidecars add up, each init container counts together with the
sidecars started before it and the largest moment wins, pod-level amounts replace those of the
containers, and overhead comes on top. Amounts stay exact until the end. What the API server
refuses is refused here with the same verdict, so that a file can be judged without a server.
``quantity`` reads the texts, ``gpu_share`` the parts of a GPU; kube's codec finds the maps in a
pod and puts the result into its shape.
"""

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from gpufleet.model.device import WHOLE_GPU_MILLI
from gpufleet.model.errors import InputError
from gpufleet.model.gpu_share import GpuShare
from gpufleet.model.quantity import MAXIMUM_INT64, ZERO, Quantity, parse_quantity
from gpufleet.model.resource_names import (
    CPU,
    EPHEMERAL_STORAGE,
    GPU_RESOURCES,
    MEMORY,
    check_container_resource,
    check_pod_level_resource,
    is_extended,
    is_overcommittable,
    is_pod_level,
)
from gpufleet.model.resources import Resources
from gpufleet.model.shape import GpuRequest

# More than any machine will hold; it keeps thousandths of all devices within 64 bits.
MAXIMUM_DEVICES = 1_000_000
MAXIMUM_WORDS = "at most 2^63-1"

Amounts = dict[str, Quantity]


class ContainerAmounts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One container's ``resources`` as written. A restartable init container is a sidecar."""

    name: str
    requests: dict[str, str] = {}
    limits: dict[str, str] = {}
    restartable: bool = False


class PodAmounts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All resource maps of a pod as written."""

    containers: tuple[ContainerAmounts, ...] = ()
    init_containers: tuple[ContainerAmounts, ...] = ()
    pod_requests: dict[str, str] = {}
    pod_limits: dict[str, str] = {}
    overhead: dict[str, str] = {}


class Needs(msgspec.Struct, frozen=True):
    """What a pod needs. ``gpu_resource`` is the name under which GPUs are asked for, or ""."""

    resources: Resources
    gpu: GpuRequest
    gpu_resource: str = ""


def pod_needs(pod: PodAmounts, share: GpuShare | None = None, *, several_kinds: bool = False) -> Needs:
    """What the pod needs; ``share`` is the part of each GPU it asks for, None for whole ones.

    A pod with GPUs of several kinds is refused unless ``several_kinds`` says that it runs already: then
    all of them count, without a name.

    Raises InputError, naming the field, for whatever the API server or we refuse.
    """
    total = total_requests(pod)
    for name, amount in total.items():
        _check_countable(name, amount, f"the sum of {name}")
    gpu_resource, count = _gpu_count(total, several_kinds=several_kinds)
    return Needs(_resources(total), gpu_request(count, share), gpu_resource)


def gpu_request(count: int, share: GpuShare | None = None) -> GpuRequest:
    """The request for ``count`` GPUs or for the same share of each of them."""
    if share is None:
        return GpuRequest(count, WHOLE_GPU_MILLI if count else 0)
    if count == 0:
        problem = "a share of a GPU, but no GPU is asked for"
        raise InputError(problem, field="GPU count", value=0, expected="1 or more GPUs")
    return GpuRequest(count, share.gpu_milli, share.memory_mib)


def total_requests(pod: PodAmounts) -> Amounts:
    """The exact sum that kube-scheduler reserves for the pod, by resource name."""
    containers = [
        container_requests(container, f"containers[{container.name}].resources")
        for container in pod.containers
    ]
    starting = [
        (container, container_requests(container, f"initContainers[{container.name}].resources"))
        for container in pod.init_containers
    ]
    running = _sum([*containers, *(amounts for init, amounts in starting if init.restartable)])
    total = _maximum([running, *_moments_of_start(starting)])
    overhead = _amounts(pod.overhead, "overhead")
    return _sum([_with_pod_level(pod, total), overhead])


def container_requests(container: ContainerAmounts, field: str) -> Amounts:
    """One container's requests; where it only sets a limit, the limit is the request."""
    limits = _amounts(container.limits, f"{field}.limits")
    requests = _amounts(container.requests, f"{field}.requests")
    for name, request in requests.items():
        _check_limit(name, request, limits.get(name), f"{field}.requests[{name}]")
    return {**limits, **requests}


def _moments_of_start(starting: Iterable[tuple[ContainerAmounts, Amounts]]) -> Iterator[Amounts]:
    """What is in use while each init container runs: itself and the sidecars begun before it."""
    sidecars: Amounts = {}
    for container, amounts in starting:
        moment = _sum([sidecars, amounts])
        if container.restartable:
            sidecars = moment
        yield moment


def _with_pod_level(pod: PodAmounts, total: Amounts) -> Amounts:
    """The total after pod-level requests, which default to the containers' sum, then the limit."""
    limits = _amounts(pod.pod_limits, "resources.limits", pod_level=True)
    requests = _amounts(pod.pod_requests, "resources.requests", pod_level=True)
    for name, request in requests.items():
        field = f"resources.requests[{name}]"
        _check_limit(name, request, limits.get(name), field)
        if request < total.get(name, ZERO):
            expected = f"at least the containers' {total[name]}"
            raise InputError("less than its containers", field=field, value=str(request), expected=expected)
    defaults = {name: total.get(name, limit) for name, limit in limits.items() if is_pod_level(name)}
    return {**total, **defaults, **requests}


def _amounts(written: Mapping[str, str], field: str, *, pod_level: bool = False) -> Amounts:
    read = {}
    for name, text in written.items():
        place = f"{field}[{name}]"
        (check_pod_level_resource if pod_level else check_container_resource)(name, field)
        amount = parse_quantity(text, field=place)
        if amount < ZERO:
            raise InputError("a negative amount", field=place, value=text, expected="0 or more")
        if is_extended(name) and not amount.is_whole():
            expected = "a whole number of devices"
            raise InputError("a part of a device", field=place, value=text, expected=expected)
        _check_countable(name, amount, place)
        read[name] = amount
    return read


def _check_limit(name: str, request: Quantity, limit: Quantity | None, field: str) -> None:
    if is_overcommittable(name):
        if limit is not None and limit < request:
            problem, expected = "a request above its limit", f"at most the limit, {limit}"
            raise InputError(problem, field=field, value=str(request), expected=expected)
    elif limit is None:
        expected = "a limit of the same amount (or the limit alone)"
        raise InputError("a request without a limit", field=field, value=str(request), expected=expected)
    elif limit != request:
        problem, expected = "a request that differs from its limit", f"the limit, {limit}"
        raise InputError(problem, field=field, value=str(request), expected=expected)


def _check_countable(name: str, amount: Quantity, field: str) -> None:
    """The server keeps larger amounts, but sums of them do not fit 64 bits."""
    if _counted(name, amount) > MAXIMUM_INT64:
        unit = "thousandths" if name == CPU else "whole units"
        expected = f"{MAXIMUM_WORDS} {unit}"
        raise InputError("too large", field=field, value=str(amount), expected=expected)


def _counted(name: str, amount: Quantity) -> int:
    return amount.milli_value() if name == CPU else amount.value()


def _gpu_count(total: Amounts, *, several_kinds: bool) -> tuple[str, int]:
    counts = {name: total[name].value() for name in GPU_RESOURCES if total.get(name, ZERO) != ZERO}
    if len(counts) > 1 and several_kinds:
        counts = {"": sum(counts.values())}
    if len(counts) > 1:
        kinds = " and ".join(counts)
        expected = "GPUs of one kind in one pod"
        raise InputError("several kinds of GPU", field="limits", value=kinds, expected=expected)
    name, count = next(iter(counts.items()), ("", 0))
    if count > MAXIMUM_DEVICES:
        expected = f"at most {MAXIMUM_DEVICES} GPUs"
        raise InputError("too many GPUs", field=f"the sum of {name}", value=count, expected=expected)
    return name, count


def _resources(total: Amounts) -> Resources:
    named = (CPU, MEMORY, EPHEMERAL_STORAGE, *GPU_RESOURCES)
    counted = {name: _counted(name, amount) for name, amount in total.items()}
    rest = ((name, count) for name, count in counted.items() if name not in named and count)
    return Resources(
        cpu_milli=counted.get(CPU, 0),
        memory_bytes=counted.get(MEMORY, 0),
        ephemeral_storage_bytes=counted.get(EPHEMERAL_STORAGE, 0),
        other=tuple(sorted(rest)),
    )


def _sum(parts: Iterable[Amounts]) -> Amounts:
    total: Amounts = {}
    for part in parts:
        for name, amount in part.items():
            total[name] = total[name] + amount if name in total else amount
    return total


def _maximum(parts: Iterable[Amounts]) -> Amounts:
    largest: Amounts = {}
    for part in parts:
        for name, amount in part.items():
            largest[name] = max(largest.get(name, amount), amount)
    return largest
