"""What an agent's page says of the pods and the GPUs of its node, as readings. Pure.

Each card tells how old its measurement is, and a reading is as old as that. A card that does not tell has no
readings. A pod's power is that of its whole cards; for parts of cards it follows from their energy, between
this page and an earlier one.
"""

from collections.abc import Mapping
from typing import NamedTuple

from gpufleet.metrics import catalogue
from gpufleet.metrics.reading import NODE_KIND, POD_KIND, ObjectKey, Reading
from gpufleet.metrics.sources.pages import Page
from gpufleet.usage.agent_series import (
    BUSY,
    HELD,
    MEMORY_USED,
    POD_ENERGY,
    POD_MEMORY_USED,
    POD_USED,
    POWER,
    SAMPLE_AGE,
    is_possible,
)
from gpufleet.usage.metrics_page import SeriesValue
from gpufleet.usage.prometheus.labels import named_pod

NAMES = frozenset({SAMPLE_AGE, BUSY, MEMORY_USED, POWER, HELD, POD_USED, POD_MEMORY_USED, POD_ENERGY})
"""The series that are read; a page has many more."""

OF_PODS = {catalogue.POD_USED: POD_USED, catalogue.POD_MEMORY: POD_MEMORY_USED}
OF_NODES = {catalogue.NODE_BUSY: BUSY, catalogue.NODE_MEMORY: MEMORY_USED, catalogue.NODE_POWER: POWER}
APART_S = (2.0, 60.0)
"""Two pages that power is worked out from are at least, and at most, so far apart."""


class Device(NamedTuple):
    """A card, or an instance of MIG on it, as a pod holds it."""

    pod: ObjectKey
    uuid: str
    instance: str


class AgentUse(NamedTuple):
    """An agent's page by what it is about."""

    at_s: float
    ages_s: Mapping[str, float]
    cards: Mapping[str, Mapping[str, float]]
    devices: Mapping[Device, Mapping[str, float]]


def read_use(page: Page) -> AgentUse:
    """The page, sorted by cards and by devices of pods."""
    ages: dict[str, float] = {}
    cards: dict[str, dict[str, float]] = {}
    devices: dict[Device, dict[str, float]] = {}
    for one in page.samples:
        uuid, instance = one.labels.get("uuid", ""), one.labels.get("mig_id", "")
        if one.name == SAMPLE_AGE:
            about, name = ages, uuid
        elif one.name in {HELD, POD_USED, POD_MEMORY_USED, POD_ENERGY}:
            about, name = devices.setdefault(_device(one, uuid, instance), {}), one.name
        elif not instance:
            about, name = cards.setdefault(uuid, {}), one.name
        else:
            # An instance of MIG tells of itself too; a node's figures are those of its cards.
            continue
        # A card is there even if its value cannot be true: a sum without it would be too small.
        if is_possible(one.name, one.value):
            about[name] = one.value
    return AgentUse(page.at_s, ages, cards, devices)


def readings_of(
    metric: str, key: ObjectKey, node: str, use: AgentUse, before: AgentUse | None
) -> tuple[list[Reading], str]:
    """The readings of an object, or why one of its GPUs has none: a sum without one would be too small."""
    if key.resource == NODE_KIND.resource:
        series = OF_NODES[metric]
        amounts = {uuid: card.get(series) for uuid, card in use.cards.items()}
        return _readings(amounts, use, f"a GPU of node {node} tells nothing of it")
    devices = [device for device in use.devices if device.pod == key]
    if not devices:
        return [], "the agent of its node knows of no GPU that it holds"
    of_devices = {device: _amount(metric, device, use, before) for device in devices}
    return _readings(of_devices, use, "one of its GPUs tells nothing of it")


def _amount(metric: str, device: Device, use: AgentUse, before: AgentUse | None) -> float | None:
    if metric == catalogue.POD_POWER:
        return _power(device, use, before)
    return use.devices[device].get(OF_PODS[metric])


def _readings(
    amounts: Mapping[Device, float | None] | Mapping[str, float | None], use: AgentUse, missing: str
) -> tuple[list[Reading], str]:
    found = []
    for one, amount in amounts.items():
        uuid = one.uuid if isinstance(one, Device) else one
        age_s = use.ages_s.get(uuid)
        if amount is None or age_s is None:
            return [], missing
        labels = {"uuid": uuid}
        if isinstance(one, Device) and one.instance:
            labels["mig_id"] = one.instance
        found.append(Reading(amount, use.at_s - age_s, labels))
    return found, "" if found else missing


def _power(device: Device, use: AgentUse, before: AgentUse | None) -> float | None:
    """What the pod draws of the device; None while it cannot be told."""
    if use.devices[device].get(HELD) == 1:
        return use.cards.get(device.uuid, {}).get(POWER)
    energy = use.devices[device].get(POD_ENERGY)
    earlier = None if before is None else before.devices.get(device, {}).get(POD_ENERGY)
    if before is None or energy is None or earlier is None:
        return None
    since_s = use.at_s - before.at_s
    # A counter that went back belongs to an agent that began anew.
    return (energy - earlier) / since_s if energy >= earlier and since_s > 0 else None


def _device(one: SeriesValue, uuid: str, instance: str) -> Device:
    pod = named_pod(one.labels)
    return Device(ObjectKey(POD_KIND.resource, pod.namespace, pod.name), uuid, instance)
