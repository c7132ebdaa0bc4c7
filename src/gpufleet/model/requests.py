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
from typing import TypeVar

import msgspec

from gpufleet.model.device import WHOLE_GPU_MILLI
from gpufleet.model.gpu_share import GpuShare
from gpufleet.model.model_errors import InputError
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
GPUS_A_POD_MAX = 256
"""No node of the engine has more GPUs, so a pod that asks for more could never run."""

MAXIMUM_WORDS = "at most 2^63-1"

Amounts = dict[str, Quantity]
Number = TypeVar("Number", int, Quantity)


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
        (container_requests(init, f"initContainers[{init.name}].resources"), init.restartable)
        for init in pod.init_containers
    ]
    total = requests_of_containers(containers, starting)
    overhead = _amounts(pod.overhead, "overhead")
    limits = _amounts(pod.pod_limits, "resources.limits", pod_level=True)
    requests = _amounts(pod.pod_requests, "resources.requests", pod_level=True)
    for name, request in requests.items():
        field = f"resources.requests[{name}]"
        _check_limit(name, request, limits.get(name), field)
        if request < total.get(name, ZERO):
            expected = f"at least the containers' {total[name]}"
            raise InputError("less than its containers", field=field, value=str(request), expected=expected)
    return requests_of_pod(total, requests, limits, overhead)


def effective_requests(
    containers: Iterable[Mapping[str, Number]],
    init_containers: Iterable[tuple[Mapping[str, Number], bool]],
    pod_requests: Mapping[str, Number] | None = None,
    pod_limits: Mapping[str, Number] | None = None,
    overhead: Mapping[str, Number] | None = None,
) -> dict[str, Number]:
    """The sum that kube-scheduler reserves for a pod, from amounts that were read already.

    An init container comes with whether it is a sidecar, in the order in which they start.
    """
    total = requests_of_containers(containers, init_containers)
    return requests_of_pod(total, pod_requests or {}, pod_limits or {}, overhead or {})


def requests_of_containers(
    containers: Iterable[Mapping[str, Number]], init_containers: Iterable[tuple[Mapping[str, Number], bool]]
) -> dict[str, Number]:
    """The most that is in use at one moment: while the containers run, or while one of the others starts.

    Each resource has its own moment: an init container may need most of the CPU, the containers most GPUs.
    """
    starting: tuple[tuple[Mapping[str, Number], bool], ...] = tuple(init_containers)
    together: list[Mapping[str, Number]] = list(containers)
    together.extend(amounts for amounts, is_sidecar in starting if is_sidecar)
    moments: list[dict[str, Number]] = [_sum(together)]
    moments.extend(_moments_of_start(starting))
    return _maximum(moments)


def requests_of_pod(
    total: Mapping[str, Number],
    requests: Mapping[str, Number],
    limits: Mapping[str, Number],
    overhead: Mapping[str, Number],
) -> dict[str, Number]:
    """What a pod asks for as a whole replaces the containers' total; its overhead comes on top.

    A limit of the pod stands for its request where neither the pod nor a container requests any.
    """
    defaults = {name: total.get(name, limit) for name, limit in limits.items() if is_pod_level(name)}
    return _sum([{**total, **defaults, **requests}, overhead])


def container_requests(container: ContainerAmounts, field: str) -> Amounts:
    """One container's requests; where it only sets a limit, the limit is the request."""
    limits = _amounts(container.limits, f"{field}.limits")
    requests = _amounts(container.requests, f"{field}.requests")
    for name, request in requests.items():
        _check_limit(name, request, limits.get(name), f"{field}.requests[{name}]")
    return {**limits, **requests}


def device_count(
    requests: Mapping[str, str], limits: Mapping[str, str], names: Iterable[str], field: str
) -> int:
    """How many devices a container asks for under these resource names; a limit is a request too."""
    total = 0
    for name in names:
        text = limits.get(name, requests.get(name))
        if text is None:
            continue
        place = f"{field}.resources.limits[{name}]"
        amount = parse_quantity(text, field=place)
        if not amount.is_whole() or not 0 <= amount.value() <= MAXIMUM_DEVICES:
            expected = f"a whole number from 0 to {MAXIMUM_DEVICES}"
            raise InputError("not a number of devices", field=place, value=text, expected=expected)
        total += amount.value()
    return total


def _moments_of_start(starting: Iterable[tuple[Mapping[str, Number], bool]]) -> Iterator[dict[str, Number]]:
    """What is in use while each init container runs: itself and the sidecars begun before it."""
    sidecars: dict[str, Number] = {}
    for amounts, is_sidecar in starting:
        moment = _sum([sidecars, amounts])
        if is_sidecar:
            sidecars = moment
        yield moment


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
    if count > GPUS_A_POD_MAX:
        expected = f"at most {GPUS_A_POD_MAX} GPUs in one pod; several pods can start together as a gang"
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


def _sum(parts: Iterable[Mapping[str, Number]]) -> dict[str, Number]:
    total: dict[str, Number] = {}
    for part in parts:
        for name, amount in part.items():
            total[name] = total[name] + amount if name in total else amount
    return total


def _maximum(parts: Iterable[Mapping[str, Number]]) -> dict[str, Number]:
    largest: dict[str, Number] = {}
    for part in parts:
        for name, amount in part.items():
            largest[name] = max(largest.get(name, amount), amount)
    return largest
