"""The day that the page of costs shows: two nodes, three queues, and what a day has of waste.

``python -m tests.ledger.example_day`` writes it to ``examples/cost``, as ``gpufleet cost --save`` would have.
"""

import datetime as dt

from gpufleet.ledger.buckets import BusySpan
from gpufleet.ledger.interval_log import IntervalLog
from gpufleet.ledger.log_file import written
from gpufleet.ledger.price_book import PricedNode
from gpufleet.ledger.spans import Span
from gpufleet.ledger.versions import (
    DeviceState,
    DevicesVersion,
    Followed,
    NodeVersion,
    ObjectKind,
    PodVersion,
)
from gpufleet.model.grant import GrantedDevice
from gpufleet.model.identifiers import DeviceId, NodeName, PodUid, QueueName
from tests.conventions.project import ROOT

FILE = ROOT / "examples/cost/day.ledger"
BILL = ROOT / "examples/cost/bill.csv"
START_US = int(dt.datetime(2026, 11, 27, tzinfo=dt.UTC).timestamp()) * 1_000_000
MINUTE_US = 60_000_000
DAY_MINUTES = 24 * 60
H100, A100 = NodeName("h100-1"), NodeName("a100-1")
MODELS = {H100: "H100-80GB", A100: "A100-80GB"}
CLUSTER = "6f1d2c4e-0b7a-4a53-9a0e-5d1c7b3e8f42"
INSTANCES = {H100: "i-0a1b2c3d4e5f60001", A100: "i-0a1b2c3d4e5f60002"}
BILLED_HOURS = 18
"""The bill of the last hours has not come yet."""

CPU_MILLI, MEMORY_BYTES = 96_000, 1 << 40


def at(minute: int) -> int:
    """A moment of the day."""
    return START_US + minute * MINUTE_US


def card(node: NodeName, number: int) -> DeviceId:
    """One of the eight GPUs of a node."""
    return DeviceId(f"GPU-{node}-{number}")


class ExampleDay:
    """The log of the day, built pod by pod."""

    def __init__(self) -> None:
        self.log = IntervalLog()
        self._number = 0
        for node in MODELS:
            self._node(node)
        self.training()
        self.serving()
        self.notebooks()
        for kind in (ObjectKind.POD, ObjectKind.NODE):
            self.log.take(Followed(kind, START_US, at(DAY_MINUTES)))

    def _next(self) -> int:
        self._number += 1
        return self._number

    def _node(self, node: NodeName) -> None:
        """A node of eight GPUs; the A100s have one that falls ill at four in the afternoon."""
        priced_as = PricedNode(gpu_model=MODELS[node])
        self.log.take(
            NodeVersion(
                f"uid-{node}",
                self._next(),
                START_US,
                node,
                START_US,
                priced_as=priced_as,
                cpu_milli=CPU_MILLI,
                memory_bytes=MEMORY_BYTES,
                provider_id=f"aws:///eu-central-1a/{INSTANCES[node]}",
            )
        )
        ill = {0: "", 16 * 60: "xid-79"} if node == A100 else {0: ""}
        for minute, state in ill.items():
            devices = tuple(
                DeviceState(
                    card(node, number),
                    MODELS[node],
                    ill=state if number == 7 else "",
                    ill_since_us=at(minute) if state and number == 7 else None,
                )
                for number in range(8)
            )
            version = DevicesVersion(
                f"devices-{node}", self._next(), at(minute), node, devices, created_us=START_US
            )
            self.log.take(version)

    def pod(
        self,
        name: str,
        queue: str,
        node: NodeName,
        number: int,
        bound: int,
        end: int,
        *,
        starts_in: int = 2,
        loads_for: int = 0,
        busy: float | None = None,
        gang: str = "",
        members: int = 1,
        owner: str = "",
    ) -> None:
        """A pod on one whole GPU, and how busy it keeps it once it runs; None is not measured."""
        started = bound + starts_in
        ready = started + loads_for
        uid = PodUid(f"uid-{name}")
        self.log.take(
            PodVersion(
                uid,
                self._next(),
                at(end),
                namespace=queue,
                name=name,
                queue=QueueName(queue),
                owner=owner,
                node=node,
                bound_us=at(bound),
                epoch=1,
                devices=(GrantedDevice(card(node, number)),),
                gang=gang,
                gang_members=members,
                cpu_milli=10_000,
                memory_bytes=100 << 30,
                started_us=at(started),
                ready_us=at(ready) if loads_for else None,
                has_readiness_probe=bool(loads_for),
                ended_us=at(end),
            )
        )
        if busy is not None:
            span = Span(at(ready), at(end))
            self.log.measure(BusySpan(card(node, number), uid, span, round(busy * 1_000_000)))

    def training(self) -> None:
        """A gang of eight whose last member comes 25 minutes late, and then computes for nine hours."""
        for number in range(8):
            self.pod(
                f"llm-{number}",
                "research",
                H100,
                number,
                60 if number < 6 else 85,
                85 + 9 * 60,
                starts_in=4 if number < 6 else 6,
                busy=0.94,
                gang="llm",
                members=8,
                owner="Job/llm",
            )
        for number in range(4):
            self.pod(
                f"sweep-{number}",
                "research",
                H100,
                number,
                11 * 60,
                20 * 60,
                busy=0.81,
                owner="Job/sweep",
            )

    def serving(self) -> None:
        """Two replicas all day, which load their weights for six minutes, and one whose use is not known."""
        for number in range(2):
            self.pod(
                f"chat-{number}",
                "serving",
                A100,
                number,
                5,
                DAY_MINUTES,
                loads_for=6,
                busy=0.38,
                owner="Deployment/chat",
            )
        self.pod("rerank-0", "serving", A100, 2, 7 * 60, 19 * 60, loads_for=3, owner="Deployment/rerank")

    def notebooks(self) -> None:
        """Three notebooks that are opened in the morning and left open."""
        for number, (name, busy) in enumerate((("ann", 0.12), ("bob", 0.02), ("eve", 0.31)), start=3):
            self.pod(f"notebook-{name}", "notebooks", A100, number, 8 * 60, DAY_MINUTES, busy=busy)


def example() -> bytes:
    """The file of the day."""
    return b"".join(written(ExampleDay().log, CLUSTER))


HEADING = (
    "BilledCost,BillingCurrency,ChargeCategory,ChargePeriodEnd,ChargePeriodStart,CommitmentDiscountStatus,"
)
"""The first columns of the bill; those that are not read could be more."""


def bill() -> str:
    """What the provider billed: instances by the hour, traffic of one, a volume, and an unused commitment."""
    lines = [f"{HEADING}EffectiveCost,ResourceId,ServiceName"]
    for hour in range(BILLED_HOURS):
        for node, cost in ((H100, "27.3456789012"), (A100, "16.8123456789")):
            lines.append(
                _line(hour, 1, cost, f"arn:aws:ec2:eu-central-1:123456789012:instance/{INSTANCES[node]}")
            )
        lines.append(_line(hour, 1, "0.0071428571", INSTANCES[H100], "AWSDataTransfer"))
    lines.append(_line(0, 24, "3.2", "vol-0f00", "AmazonEBS"))
    lines.append(_line(3, 1, "1.5", "arn:aws:ec2:eu-central-1::reservation/r-1", unused="Unused"))
    return "\n".join([*lines, ""])


def _line(
    hour: int, hours: int, cost: str, resource: str, service: str = "AmazonEC2", unused: str = ""
) -> str:
    begin, end = (
        dt.datetime.fromtimestamp(at(60 * one) // 1_000_000, dt.UTC) for one in (hour, hour + hours)
    )
    period = f"{end:%Y-%m-%dT%H:%M:%SZ},{begin:%Y-%m-%dT%H:%M:%SZ}"
    return f"0,EUR,Usage,{period},{unused},{cost},{resource},{service}"


if __name__ == "__main__":
    FILE.write_bytes(example())
    BILL.write_text(bill(), encoding="utf-8")
