"""How much is served where cards are cut for claims as they come: `make bench-claims`.

Eight H100 are offered as partitionable devices; claims for one MIG profile each come and go at random. Three
rules allocate the same claims: the first device by name, as kube-scheduler does over the slices of NVIDIA's
driver; the first device in the order in which gpufleet's driver lists a card; and the device whose loss is
least. A claim that finds no device is gone, so the choice of devices alone makes the difference.
"""

import heapq
import random
import time
from collections.abc import Callable, Iterator

import msgspec

from bench.figures import figure, publish
from gpufleet.agent.dra.mig_partitions import partitions
from gpufleet.devices.facts import Driver
from gpufleet.dra_allocation.allocator import Allocator
from gpufleet.dra_allocation.claims import DeviceChoice, DeviceClass, DeviceRequest, ResourceClaim
from gpufleet.dra_allocation.held import HeldDevices
from gpufleet.dra_allocation.pools import SliceIndex
from gpufleet.dra_allocation.preference import CandidateOrder, LeastLoss, first_fit
from gpufleet.dra_allocation.results import Allocation, Refusal
from gpufleet.dra_allocation.slices import NodeFacts
from gpufleet.kube.codec.resource_slices import read_resource_slice
from gpufleet.kube.objects.metadata import Metadata
from gpufleet.kube.objects.resource_slices import (
    ResourceSliceObject,
    ResourceSliceSpec,
    WrittenDevice,
    WrittenPool,
)
from gpufleet.model.gpu_catalogue import Vendor
from gpufleet.model.identifiers import GpuModelName
from gpufleet.model.mig_boards import BOARDS
from tests.agent.node_values import a_gpu

NODE = "node-1"
DRIVER = "gpu.nvidia.com"
CARDS = 8
SLICES = 7
"""Compute slices of a card, by which work is counted."""

ARRIVALS = 3_000
"""Claims of one run: two runs of so many differ by less than a hundredth."""

SEEDS = (1, 2)
MIX = {
    "1g.10gb": (35, 1),
    "1g.20gb": (8, 1),
    "2g.20gb": (20, 2),
    "3g.40gb": (20, 3),
    "4g.40gb": (7, 4),
    "7g.80gb": (10, 7),
}
"""Of a hundred claims so many ask for the profile, which has so many compute slices."""

LEAST_SERVED_BY_LOAD = {0.6: 0.928, 0.8: 0.820, 1.0: 0.720}
"""Slices asked for at a time, as a part of those that there are, and which part of them is to be served."""


class Run(msgspec.Struct):
    """What came of one run."""

    asked: int = 0
    served: int = 0
    decision_s: float = 0.0


def devices_by_name(devices: tuple[WrittenDevice, ...]) -> tuple[WrittenDevice, ...]:
    """The order in which NVIDIA's driver lists a card."""
    return tuple(sorted(devices, key=lambda one: one.name))


def devices_as_listed(devices: tuple[WrittenDevice, ...]) -> tuple[WrittenDevice, ...]:
    """The order in which gpufleet's driver lists a card."""
    return devices


LEAST_LOSS = "least loss"
"""The rule that is judged; the others are what it is compared with."""

Listing = Callable[[tuple[WrittenDevice, ...]], tuple[WrittenDevice, ...]]
RULES: dict[str, tuple[Listing, Callable[[], CandidateOrder]]] = {
    "first by name": (devices_by_name, lambda: first_fit),
    "first as gpufleet lists them": (devices_as_listed, lambda: first_fit),
    LEAST_LOSS: (devices_as_listed, LeastLoss),
}


def slices(order: Listing) -> Iterator[ResourceSliceObject]:
    """The slices of all cards: a pool for each."""
    geometry = BOARDS[GpuModelName("H100-80GB")]
    driver = Driver(Vendor.NVIDIA, "580.95.05", "13.0")
    for number in range(CARDS):
        counters, devices = partitions(a_gpu(f"GPU-{number}", index=number), geometry, driver)
        pool = WrittenPool(f"{NODE}/gpu-{number}", 1, 2)
        written = order(tuple(one.written for one in devices))
        for name, spec in (
            ("counters", ResourceSliceSpec(DRIVER, pool, node_name=NODE, shared_counters=(counters,))),
            ("devices", ResourceSliceSpec(DRIVER, pool, node_name=NODE, devices=written)),
        ):
            yield ResourceSliceObject(Metadata(f"{number}-{name}"), spec)


def allocator_of(rule: str) -> Allocator:
    """The node's allocator under a rule."""
    listed, order = RULES[rule]
    read = [read_resource_slice(one) for one in slices(listed)]
    pools = SliceIndex(read).pools(NodeFacts(NODE))
    return Allocator(NODE, pools, {"mig": DeviceClass("mig")}, order=order())


def claim(profile: str) -> ResourceClaim:
    """A claim for one instance of a profile."""
    selector = f'device.attributes["{DRIVER}"].?profile.orValue("") == "{profile}"'
    choice = DeviceChoice("mig", selectors=(selector,))
    return ResourceClaim("default", profile, (DeviceRequest("mig", (choice,)),))


def churn(rule: str, load: float, seed: int) -> Run:
    """Claims come and go; each stays for a time of its own, one unit of time in the mean."""
    chance = random.Random(seed)
    allocator = allocator_of(rule)
    claims = {profile: claim(profile) for profile in MIX}
    weights = [weight for weight, _ in MIX.values()]
    mean_slices = sum(weight * size for weight, size in MIX.values()) / sum(weights)
    rate = load * CARDS * SLICES / mean_slices
    held: dict[int, Allocation] = {}
    ends: list[tuple[float, int]] = []
    now, run = 0.0, Run()
    for number in range(ARRIVALS):
        now += chance.expovariate(rate)
        while ends and ends[0][0] <= now:
            del held[heapq.heappop(ends)[1]]
        (profile,) = chance.choices(list(MIX), weights)
        stays = chance.expovariate(1.0)
        run.asked += MIX[profile][1]
        begin_s = time.perf_counter()
        found = allocator.allocate([claims[profile]], HeldDevices.of(held.values()))
        run.decision_s += time.perf_counter() - begin_s
        if not isinstance(found, Refusal):
            run.served += MIX[profile][1]
            held[number] = found[0]
            heapq.heappush(ends, (now + stays, number))
    return run


def main() -> None:
    """Measure each rule under each load."""
    figures = []
    for load, least in LEAST_SERVED_BY_LOAD.items():
        reference = 0.0
        for rule in RULES:
            runs = [churn(rule, load, seed) for seed in SEEDS]
            served = sum(one.served for one in runs) / sum(one.asked for one in runs)
            decision_ms = sum(one.decision_s for one in runs) / (ARRIVALS * len(SEEDS)) * 1000
            reference = reference or served
            name = f"load {load:g}, {rule}"
            figures += [
                figure(
                    f"{name}: slices served",
                    served,
                    "of those asked for",
                    "higher",
                    least if rule == LEAST_LOSS else None,
                ),
                figure(f"{name}: beside the first by name", served / reference, "times", "higher"),
                figure(f"{name}: a decision", decision_ms, "ms", "lower"),
            ]
    publish("claims", figures)


if __name__ == "__main__":
    main()
