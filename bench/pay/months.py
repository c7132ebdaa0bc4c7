"""A made-up month of a fleet, as the ledger's daemon would have written it.

A thousand GPUs of 156 nodes are held at a time, by 10,000 pods a day of 2.4 hours in the mean: 34,000
pairs of a pod and an hour a day, which is 12.4 million in a year. Each pod is seen bound, started and
ended, and its deletion is seen. Use is not measured, as by the daemon.
"""

import datetime as dt
import heapq
import random
from collections.abc import Iterator
from pathlib import Path

from gpufleet.ledger.log_file import heading_line, observation_line
from gpufleet.ledger.price_book import Price, PriceBook, PricedNode, PriceScope, PriceUnit
from gpufleet.ledger.versions import (
    DeviceState,
    DevicesVersion,
    Followed,
    Gone,
    NodeVersion,
    ObjectKind,
    Observation,
    PodVersion,
)
from gpufleet.model.grant import GrantedDevice
from gpufleet.model.identifiers import DeviceId, NodeName, PodUid, QueueName

NODES, CARDS = 156, 8
PODS_PER_DAY, MEAN_HOURS = 10_000, 2.4
QUEUES = 12
DAY_US, HOUR_US, SECOND_US = 86_400_000_000, 3_600_000_000, 1_000_000
START_US = int(dt.datetime(2026, 10, 1, tzinfo=dt.UTC).timestamp()) * SECOND_US
CLUSTER = "6f1d2c4e-0b7a-4a53-9a0e-5d1c7b3e8f42"
SEED = 23


def book() -> PriceBook:
    """One price of every node."""
    return PriceBook(
        [Price("p", PriceScope(), PriceUnit.NODE_HOUR, 98_320_000, "USD", 0, gpu_micro=82_100_000)]
    )


def write_month(path: Path, days: int) -> None:
    """The file of so many days from the begin of October 2026 on."""
    with path.open("wb") as file:
        file.write(heading_line(CLUSTER))
        file.writelines(observation_line(seen) for seen in observations(days))


def observations(days: int) -> Iterator[Observation]:
    """All that was seen, in order of pods."""
    end_us = START_US + days * DAY_US
    yield from (Followed(kind, START_US, end_us) for kind in (ObjectKind.POD, ObjectKind.NODE))
    for number in range(NODES):
        yield from _node(number)
    chance = random.Random(SEED)
    free_us = [(START_US, node, card) for node in range(NODES) for card in range(CARDS)]
    heapq.heapify(free_us)
    for number in range(days * PODS_PER_DAY):
        bound_us = START_US + int((number + chance.random()) * DAY_US / PODS_PER_DAY)
        at_us, node, card = heapq.heappop(free_us)
        bound_us = max(bound_us, at_us)
        until_us = bound_us + SECOND_US * int(chance.expovariate(1 / (MEAN_HOURS * 3600)) + 120)
        heapq.heappush(free_us, (until_us, node, card))
        yield from _pod(number, node, card, bound_us, until_us)


def _node(number: int) -> Iterator[Observation]:
    node = NodeName(f"gpu-{number:04}")
    priced_as = PricedNode("aws", "eu-central-1", "eu-central-1a", "p5.48xlarge", "H100-80GB", "on-demand")
    yield NodeVersion(
        f"node-{number}", number + 1, START_US, node, START_US, priced_as=priced_as, cpu_milli=192_000,
        memory_bytes=2 << 40, provider_id=f"aws:///eu-central-1a/i-{number:017x}",
    )  # fmt: skip
    devices = tuple(DeviceState(_card(number, card), "H100-80GB", 81_559) for card in range(CARDS))
    yield DevicesVersion(f"devices-{number}", number + 1, START_US, node, devices, created_us=START_US)


def _card(node: int, card: int) -> DeviceId:
    return DeviceId(f"GPU-{node:08x}-0000-4000-8000-{card:012x}")


def _pod(number: int, node: int, card: int, bound_us: int, until_us: int) -> Iterator[Observation]:
    queue = f"team-{number % QUEUES}"
    version = PodVersion(
        PodUid(f"{number:08x}-5d1c-4a53-9a0e-7b3e8f420000"), 1_000 + 5 * number, bound_us, namespace=queue,
        name=f"train-{number}", queue=QueueName(queue), labels=(("team", queue), ("app", f"a-{number % 97}")),
        owner=f"Job/run-{number // 4}", node=NodeName(f"gpu-{node:04}"), bound_us=bound_us, epoch=1,
        devices=(GrantedDevice(_card(node, card)),), cpu_milli=16_000, memory_bytes=128 << 30,
    )  # fmt: skip
    yield version
    started_us = (bound_us // SECOND_US + 40) * SECOND_US
    for place, at_us, ended_us in ((1, started_us, None), (2, until_us, until_us)):
        yield PodVersion(
            **{name: getattr(version, name) for name in version.__struct_fields__}
            | {
                "number": version.number + place,
                "at_us": at_us,
                "started_us": started_us,
                "ended_us": ended_us,
            }
        )
    yield Gone(ObjectKind.POD, version.uid, version.number + 3, until_us + 60 * SECOND_US)
