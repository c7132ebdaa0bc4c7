"""How soon devices are read and chosen: 100,000 devices in slices, and one claim for 8 of 64 devices.

Run as a program it reads the devices and prints what that took, so that the memory is that of reading alone.
"""

import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator

import msgspec

from bench.dra_bursts import CARDS, DRIVER, whole_cards
from bench.figures import Figure, figure
from gpufleet.dra_allocation.allocator import Allocator
from gpufleet.dra_allocation.claims import (
    DeviceChoice,
    DeviceClass,
    DeviceConstraint,
    DeviceRequest,
    ResourceClaim,
)
from gpufleet.dra_allocation.held import HeldDevices
from gpufleet.dra_allocation.pools import SliceIndex
from gpufleet.dra_allocation.preference import LeastLoss
from gpufleet.dra_allocation.results import Refusal
from gpufleet.dra_allocation.slices import Device, NodeFacts, NodeReach, PoolPart, ResourceSlice
from gpufleet.engine.arrays.tables import TableStore
from gpufleet.engine.place.relations.device_claims import DeviceClaims
from gpufleet.engine.state.fleet import Fleet
from gpufleet.kube.codec.resource_slices import read_resource_slice
from gpufleet.kube.objects.resource_slices import ResourceSliceObject

DEVICES = 100_000
DEVICES_OF_NODE = 64
ASKED = 8
CHOICES = 200
PCIE_ROOT = "resource.kubernetes.io/pcieRoot"


class Reading(msgspec.Struct, frozen=True):
    """What it took to read all devices. The memory is all that the process had at most."""

    took_s: float
    peak_mib: float


def read_all() -> Reading:
    """Decode slices as the watch delivers them, read them, and take them into the engine's catalogue."""
    claims = DeviceClaims(Fleet(TableStore()))
    objects: list[ResourceSliceObject] = []
    took_s = 0.0
    for number in range(DEVICES // CARDS):
        (written,) = whole_cards(f"node-{number:05}")
        text = json.dumps(written).encode()
        began_s = time.perf_counter()
        decoded = msgspec.json.decode(text, type=ResourceSliceObject)
        objects.append(decoded)
        claims.catalogue.set_slice(read_resource_slice(decoded))
        took_s += time.perf_counter() - began_s
    return Reading(took_s, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def devices_of_node() -> Iterator[Device]:
    """Devices of one node, so many under each switch as a claim asks for."""
    for number in range(DEVICES_OF_NODE):
        # Neighbours in the list stand under different switches, so the first eight are not the answer.
        switch = f"pci0000:{number % (DEVICES_OF_NODE // ASKED):02}"
        yield Device(f"gpu-{number:02}", {"type": "gpu", PCIE_ROOT: switch})


def choice_ms() -> float:
    """The median time to choose eight devices under one switch, every choice by an allocator of its own."""
    listed = tuple(devices_of_node())
    one = ResourceSlice("node", DRIVER, PoolPart("node", 1, 1), NodeReach("node"), listed)
    pools = SliceIndex([one]).pools(NodeFacts("node"))
    of_class = DeviceClass("gpu", (f'device.attributes["{DRIVER}"].type == "gpu"',))
    request = DeviceRequest("gpus", (DeviceChoice("gpu", count=ASKED),))
    claim = ResourceClaim("default", "one", (request,), (DeviceConstraint(PCIE_ROOT),))
    times_ms = []
    for _ in range(CHOICES):
        allocator = Allocator("node", pools, {"gpu": of_class}, order=LeastLoss())
        began_s = time.perf_counter()
        found = allocator.allocate([claim], HeldDevices())
        times_ms.append(1000 * (time.perf_counter() - began_s))
        if isinstance(found, Refusal) or len(found[0].devices) != ASKED:
            raise RuntimeError("eight devices under one switch were to be had")
    return statistics.median(times_ms)


def measured() -> Iterator[Figure]:
    """The figures of both."""
    yield figure(
        f"one claim, {ASKED} of {DEVICES_OF_NODE} devices under one switch", choice_ms(), "ms", "lower", 2
    )
    text = subprocess.run([sys.executable, "-m", "bench.dra_devices"], check=True, capture_output=True).stdout
    reading = msgspec.json.decode(text, type=Reading)
    yield figure(f"{DEVICES:,} devices read", reading.took_s, "s", "lower", 5)
    yield figure(f"{DEVICES:,} devices read, memory at most", reading.peak_mib, "MiB", "lower", 300)


if __name__ == "__main__":
    sys.stdout.buffer.write(msgspec.json.encode(read_all()))
