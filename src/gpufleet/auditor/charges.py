"""What a granted pod takes of a resource that quotas name, exact and never rounded up: in doubt less."""

import re
from collections.abc import Iterator, Mapping
from fractions import Fraction

from gpufleet.auditor import amounts, grants, pods
from gpufleet.auditor.grants import MIG, WHOLE, WHOLE_MILLI, Part
from gpufleet.auditor.reading import mapping, number, rows
from gpufleet.auditor.record import Document
from gpufleet.auditor.world import World

MIB = 2**20
Prices = Mapping[str, Fraction]


class Devices:
    """Model and memory of every device that was ever reported."""

    def __init__(self, world: World) -> None:
        self._by_id: dict[str, Document] = {}
        for report in world.reports.values():
            for one in rows(report, "spec", "devices"):
                self._by_id[str(one.get("id"))] = one

    def model(self, device: str) -> str:
        """The model, "" where it is not known."""
        return str(self._by_id.get(device, {}).get("model") or "")

    def memory_mib(self, device: str) -> int:
        """The whole memory, 0 where it is not known."""
        return number(self._by_id.get(device, {}).get("memoryMiB"))


def is_model(asked: str, told: str) -> bool:
    """Whether a device's model is the one that a quota names: all parts of its name are in that of the
    device.
    """
    return bool(told) and _words(asked) <= _words(told)


def _words(model: str) -> set[str]:
    return set(re.findall(r"[A-Z0-9]+", model.upper()))


def charge(pod: Document, resource: str, devices: Devices, prices: Prices) -> Fraction:
    """How much of a resource the pod takes."""
    grant = grants.of_pod(pod)
    parts = grant.parts if grant is not None else ()
    if resource == "gpu":
        return sum((_milli(part, devices) for part in parts), Fraction(0)) or _unnamed(pod)
    if resource.startswith("gpu/"):
        model = resource.removeprefix("gpu/")
        of_model = (part for part in parts if is_model(model, devices.model(part.device)))
        return sum((_milli(part, devices) for part in of_model), Fraction(0))
    if resource == "gpu-memory":
        return Fraction(sum(part.memory_mib for part in parts) * MIB)
    if resource == "mig-slices":
        return Fraction(sum(part.slices for part in parts if part.kind == MIG))
    if resource == "cost":
        costs = (_milli(part, devices) * _price(devices.model(part.device), prices) for part in parts)
        return sum(costs, Fraction(0)) or _unnamed(pod)
    return host_request(pod, resource)


def _milli(part: Part, devices: Devices) -> Fraction:
    """GPUs: a share is its milli or its part of the memory, whichever is larger."""
    if part.kind == WHOLE:
        return Fraction(1)
    total = devices.memory_mib(part.device)
    by_memory = Fraction(part.memory_mib, total) if total and part.gpu_milli == 0 else Fraction(0)
    return max(Fraction(part.gpu_milli, WHOLE_MILLI), by_memory)


def _unnamed(pod: Document) -> Fraction:
    """GPUs of a grant that names none."""
    found = (
        host_request(pod, resource)
        for resource in pods.GPU_RESOURCES
    )  # fmt: skip
    return sum(found, Fraction(0))


def _price(model: str, prices: Prices) -> Fraction:
    """The price of a GPU of this model, 1 where none is said."""
    said = [price for asked, price in prices.items() if is_model(asked, model)]
    return said[0] if said else Fraction(1)


def host_request(pod: Document, resource: str) -> Fraction:
    """What a pod asks for, as kube-scheduler adds it up."""
    own = mapping(pod, "spec", "resources", "requests")
    overhead = _read(mapping(pod, "spec", "overhead").get(resource))
    if resource in own:
        return _read(own[resource]) + overhead
    sidecars = most = Fraction(0)
    for one in rows(pod, "spec", "initContainers"):
        asked = _read(pods.requested(one).get(resource))
        # A sidecar goes on beside the init containers that come after it.
        if one.get("restartPolicy") == "Always":
            sidecars += asked
            most = max(most, sidecars)
        else:
            most = max(most, sidecars + asked)
    running = sum(_each(pod, resource), sidecars)
    return max(running, most) + overhead


def _each(pod: Document, resource: str) -> Iterator[Fraction]:
    return (_read(pods.requested(one).get(resource)) for one in rows(pod, "spec", "containers"))


def _read(amount: str | None) -> Fraction:
    try:
        return amounts.read(amount) if amount is not None else Fraction(0)
    except ValueError:
        return Fraction(0)
