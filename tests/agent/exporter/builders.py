"""Cards, holders and readings for tests of the exporter; the cards are the simulated backend's."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
from prometheus_client.parser import text_string_to_metric_families

from gpufleet.agent.exporter.exporter import Exporter, Topics
from gpufleet.agent.exporter.options import ExporterOptions
from gpufleet.agent.exporter.usage import PodOf
from gpufleet.agent.mig.timed_driver import StepCounts
from gpufleet.agent.state.node_state import Gpu, GpuReading, Held, NodeGpus, NodePod
from gpufleet.agent.state.topic import Topic
from gpufleet.devices.facts import GpuFacts
from gpufleet.devices.sample import Memory, ProcessUse, Sample
from gpufleet.devices.sharing.plan import Mode, SharingPlan, unshared
from gpufleet.model.grant import ContainerGrant, Grant, GrantedDevice, GrantKind
from gpufleet.model.identifiers import DeviceId
from tests.agent.set_clock import SetClock
from tests.devices.fleets import fleet_of

NOW_S = 1000.0
CUT_H100 = "model: H100-80GB, mig: [{profile: 1g.10gb, start: 0}, {profile: 3g.40gb, start: 4}]"


def node_of(*groups: str, modes: Mapping[int, Mode] | None = None) -> NodeGpus:
    """The node "n1" with these GPUs; ``modes`` says how some are shared, by index."""
    fleet = fleet_of(*groups)
    chosen = modes or {}
    return NodeGpus(
        "n1",
        drivers=(fleet.driver,),
        gpus=tuple(offered(facts, chosen.get(facts.index)) for facts in fleet.gpus),
    )


def offered(facts: GpuFacts, mode: Mode | None = None) -> Gpu:
    """A healthy card under a plan; whole, or its instances, where none is given."""
    return Gpu(facts, SharingPlan(facts.uuid, mode or unshared(facts)))


def changed(gpus: NodeGpus, index: int, **fields: Any) -> NodeGpus:
    """The node with other facts of one card's health."""
    cards = list(gpus.gpus)
    cards[index] = msgspec.structs.replace(cards[index], **fields)
    return msgspec.structs.replace(gpus, gpus=tuple(cards))


def sample(at_s: float = NOW_S - 2, **fields: Any) -> Sample:
    """Readings of two seconds ago."""
    return Sample(at_s, **fields)


def memory(used_mib: int, free_mib: int = 1000) -> Memory:
    return Memory(used_mib, free_mib, 512)


def process(
    pid: int, memory_mib: int | None, busy_pct: int | None, mig_uuid: str | None = None
) -> ProcessUse:
    return ProcessUse(pid, memory_mib, busy_pct, mig_uuid)


def pod(name: str, namespace: str = "team-a", **fields: Any) -> NodePod:
    """A pod whose UID is its name with "uid-" in front."""
    return NodePod(f"uid-{name}", namespace, name, **fields)


def holds(name: str, *units: str, container: str = "main", resource: str = "nvidia.com/gpu") -> Held:
    """What the kubelet gave to a container of that pod."""
    return Held("team-a", name, container, resource, units, f"uid-{name}")


def granted_share(card: DeviceId, milli: int, memory_mib: int, container: str = "main") -> Grant:
    device = GrantedDevice(card, GrantKind.SHARE, milli, memory_mib)
    return Grant(1, (ContainerGrant(container, (device,)),))


async def happens(holds: Callable[[], bool]) -> None:
    """Wait until something holds."""
    async with asyncio.timeout(30):
        while not holds():  # noqa: ASYNC110  what is waited for tells nobody
            await asyncio.sleep(0.01)


class Page:
    """What a scrape got, read by Prometheus' own parser."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.families = {family.name: family for family in text_string_to_metric_families(text)}

    def __iter__(self) -> Iterator[tuple[str, dict[str, str], float]]:
        for family in self.families.values():
            for one in family.samples:
                # The parser gives every counter the ending that OpenMetrics asks for.
                name = one.name if f"{one.name}{{" in self.text else one.name.removesuffix("_total")
                yield name, one.labels, one.value

    def series(self, name: str, **labels: str) -> list[tuple[dict[str, str], float]]:
        """The series of a name that have these labels."""
        return [(own, value) for other, own, value in self if other == name and labels.items() <= own.items()]

    def values(self, name: str, **labels: str) -> list[float]:
        """The values of the series of a name that have these labels."""
        return [value for _, value in self.series(name, **labels)]

    def value(self, name: str, **labels: str) -> float:
        """The value of the one series of a name with these labels."""
        found = self.series(name, **labels)
        assert len(found) == 1, f"{name} {labels}: {found}"
        return found[0][1]

    def absent(self, name: str, **labels: str) -> bool:
        """Whether no series of a name has these labels."""
        return not self.series(name, **labels)


class Node:
    """An exporter and the topics that it follows, at a time that a test sets."""

    def __init__(
        self,
        gpus: NodeGpus,
        options: ExporterOptions | None = None,
        pod_of: PodOf | None = None,
        steps: StepCounts | None = None,
    ) -> None:
        self.now_s = NOW_S
        self.topics = Topics(Topic(gpus), Topic({}), Topic({}), Topic(()))
        self.exporter = Exporter(
            self.topics,
            SetClock(self),
            options,
            pod_of=pod_of,
            mig_steps=dict if steps is None else steps.told,
        )

    def card(self, index: int = 0) -> DeviceId:
        """The UUID of one of its cards."""
        return self.topics.gpus.value.gpus[index].uuid

    def reads(
        self,
        index: int,
        sample: Sample,
        instances: dict[str, Sample] | None = None,
        processes: tuple[ProcessUse, ...] | None = None,
    ) -> None:
        """A card answered."""
        reading = GpuReading(sample, instances or {}, processes)
        self.topics.readings.publish({**self.topics.readings.value, self.card(index): reading})

    def has(self, *pods: NodePod) -> None:
        """These are the pods of the node."""
        self.topics.pods.publish({one.uid: one for one in pods})

    def gave(self, *held: Held) -> None:
        """The kubelet gave these devices, and no others."""
        self.topics.holders.publish(held)

    def scrape(self) -> Page:
        """The page after all that happened."""
        self.exporter.draw()
        return Page(self.raw())

    def raw(self) -> str:
        """The page as it is sent, not drawn anew."""
        return b"".join(self.exporter.page(gzipped=False).parts).decode()
