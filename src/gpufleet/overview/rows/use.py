"""What agents measured of GPUs and of the pods on them, by node; made of samples of their metrics.

A page of an agent and a Prometheus server tell the same series, so both end here. What has no series is None,
and so is a value that no card can have: a rule or a relabelling may put other numbers under these names.
"""

from collections.abc import Iterable
from typing import NamedTuple

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
    """What a pod uses of one card, or of an instance of it. ``energy_joules`` only grows."""

    card: str
    held_ratio: float | None = None
    used_ratio: float | None = None
    memory_used_bytes: float | None = None
    energy_joules: float | None = None


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


class PodUse(NamedTuple):
    """What a pod uses over all its devices: the mean ratio, and sums. None where a device does not tell."""

    used_ratio: float | None = None
    memory_used_bytes: float | None = None
    power_watts: float | None = None


NOTHING = PodUse()
"""Nothing is known of what the pod uses."""


def node_uses(samples: Iterable[SeriesValue], at_s: float, node: str = "") -> dict[str, NodeUse]:
    """What the samples say, by node; ``node`` is where they are from if they do not name one."""
    found: dict[str, NodeUse] = {}
    for name, labels, value in samples:
        uuid = labels.get("uuid")
        where = node or labels.get("node") or labels.get("exported_node")
        if uuid is None or not where or not is_possible(name, value):
            continue
        use = found.setdefault(where, NodeUse(at_s))
        if name in CARD_FIELDS:
            # An instance of MIG tells of itself too; a line about a node sums cards.
            if not labels.get("mig_id"):
                setattr(use.cards.setdefault(uuid, CardUse()), CARD_FIELDS[name], value)
        elif name in POD_FIELDS:
            pod = named_pod(labels)
            devices = use.pods.setdefault((pod.namespace, pod.name), {})
            device = devices.setdefault(f"{uuid}/{labels.get('mig_id', '')}", DeviceUse(uuid))
            setattr(device, POD_FIELDS[name], value)
    return found


def pod_use(pod: PodKey, use: NodeUse | None, before: NodeUse | None = None) -> PodUse:
    """What a pod uses. ``before`` is an earlier measurement, from which the power of parts of cards
    follows.
    """
    if use is None or pod not in use.pods:
        return NOTHING
    devices = use.pods[pod]
    earlier = {} if before is None else before.pods.get(pod, {})
    since_s = 0.0 if before is None else use.at_s - before.at_s
    ratios = total(device.used_ratio for device in devices.values())
    return PodUse(
        None if ratios is None else ratios / len(devices),
        total(device.memory_used_bytes for device in devices.values()),
        total(_power(device, use, earlier.get(key), since_s) for key, device in devices.items()),
    )


def total(amounts: Iterable[float | None]) -> float | None:
    """The sum; None where one of them is not known, or where there are none."""
    found = None
    for amount in amounts:
        if amount is None:
            return None
        found = amount + (found or 0.0)
    return found


def _power(device: DeviceUse, use: NodeUse, before: DeviceUse | None, since_s: float) -> float | None:
    card = use.cards.get(device.card)
    if device.held_ratio == 1 and card is not None:
        return card.power_watts
    if before is None or device.energy_joules is None or before.energy_joules is None or since_s <= 0:
        return None
    joules = device.energy_joules - before.energy_joules
    # A counter that went back belongs to an agent that began anew.
    return joules / since_s if joules >= 0 else None
