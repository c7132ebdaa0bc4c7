"""What agents measured of GPUs and of the pods on them, by node; made of samples of their metrics.

A page of an agent and a Prometheus server tell the same series, so both end here, for those who look and for
autoscalers. What has no series is None, and so is a value that no card can have: a rule or a relabelling may
put other numbers under these names. ``overview.rows.use`` sums it up for pods, and
``metrics.sources.agent_readings`` serves it.
"""

from collections.abc import Iterable

import msgspec

from gpufleet.usage.agent_series import (
    BUSY,
    HELD,
    MEMORY,
    MEMORY_USED,
    POD_ENERGY,
    POD_MEMORY_USED,
    POD_USED,
    POWER,
    SAMPLE_AGE,
    TEMPERATURE,
    is_possible,
)
from gpufleet.usage.metrics_page import SeriesValue
from gpufleet.usage.prometheus.labels import named_pod

CARD_FIELDS = {
    BUSY: "busy_ratio",
    MEMORY: "memory_bytes",
    MEMORY_USED: "memory_used_bytes",
    POWER: "power_watts",
    TEMPERATURE: "temperature_celsius",
    SAMPLE_AGE: "sample_age_s",
}
POD_FIELDS = {
    HELD: "held_ratio",
    POD_MEMORY_USED: "memory_used_bytes",
    POD_USED: "used_ratio",
    POD_ENERGY: "energy_joules",
}
NAMES = frozenset({*CARD_FIELDS, *POD_FIELDS})
"""The series that are read; a page has many more."""

PodKey = tuple[str, str]
"""The namespace and the name of a pod."""


class CardUse(msgspec.Struct):
    """What a card tells of itself; ratios are from 0 to 1. ``sample_age_s`` is how old that was when its node
    was measured.
    """

    busy_ratio: float | None = None
    memory_bytes: float | None = None
    memory_used_bytes: float | None = None
    power_watts: float | None = None
    temperature_celsius: float | None = None
    sample_age_s: float | None = None


class DeviceUse(msgspec.Struct):
    """What a pod uses of one card, or of an instance of it, which MIG names. ``energy_joules`` only grows."""

    card: str
    held_ratio: float | None = None
    used_ratio: float | None = None
    memory_used_bytes: float | None = None
    energy_joules: float | None = None
    instance: str = ""


class NodeUse(msgspec.Struct):
    """The cards of a node by UUID, and the devices of its pods, as measured at ``at_s`` (seconds since
    1970).
    """

    at_s: float
    cards: dict[str, CardUse] = {}
    pods: dict[PodKey, dict[str, DeviceUse]] = {}

    def age_s(self, card: str, now_s: float) -> float | None:
        """How old what is known of a card is; None where it does not tell."""
        found = self.cards.get(card)
        if found is None or found.sample_age_s is None:
            return None
        return max(0.0, now_s - self.at_s + found.sample_age_s)


def node_uses(samples: Iterable[SeriesValue], at_s: float, node: str = "") -> dict[str, NodeUse]:
    """What the samples say, by node; ``node`` is where they are from if they do not name one."""
    found: dict[str, NodeUse] = {}
    for name, labels, value, _ in samples:
        uuid, instance = labels.get("uuid"), labels.get("mig_id", "")
        where = node or labels.get("node") or labels.get("exported_node")
        if uuid is None or not where:
            continue
        use = found.setdefault(where, NodeUse(at_s))
        of_card, of_pod = CARD_FIELDS.get(name, ""), POD_FIELDS.get(name, "")
        about: CardUse | DeviceUse
        # An instance of MIG tells of itself too; a line about a node sums cards.
        if of_card and not instance:
            about = use.cards.setdefault(uuid, CardUse())
        elif of_pod:
            pod = named_pod(labels)
            devices = use.pods.setdefault((pod.namespace, pod.name), {})
            about = devices.setdefault(f"{uuid}/{instance}", DeviceUse(uuid, instance=instance))
        else:
            continue
        # What is measured is there even if its value cannot be true: a sum without it would be too small.
        if is_possible(name, value):
            setattr(about, of_card or of_pod, value)
    return found


def power_of(device: DeviceUse, use: NodeUse, before: DeviceUse | None, since_s: float) -> float | None:
    """The watts that a pod draws of a device: those of a whole card; of a part what follows from its energy
    now and ``since_s`` before. None while that cannot be told.
    """
    card = use.cards.get(device.card)
    if device.held_ratio == 1 and card is not None:
        return card.power_watts
    if before is None or device.energy_joules is None or before.energy_joules is None or since_s <= 0:
        return None
    joules = device.energy_joules - before.energy_joules
    # A counter that went back belongs to an agent that began anew.
    return joules / since_s if joules >= 0 else None
