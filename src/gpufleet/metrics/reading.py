"""Values as they pass from sources to answers, and when one is too old to be one.

A source says when something was measured, not when it was asked. Only here is decided what is served: an
autoscaler never looks at a time, so what is old has to be left out before it gets there.
"""

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

AHEAD_S = 5.0
"""Clocks of machines differ by less; a value from further ahead has a time that cannot be believed."""

AMOUNT_MAX = 2.0**53
"""More than any amount of requests, bytes, watts or seconds; above it a number is not exact any more."""


class ObjectKind(msgspec.Struct, frozen=True):
    """A kind of object that has metrics; ``resource`` is its plural with its group, as paths name it."""

    resource: str
    group: str
    version: str
    name: str
    namespaced: bool


POD_KIND = ObjectKind("pods", "", "v1", "Pod", namespaced=True)
NODE_KIND = ObjectKind("nodes", "", "v1", "Node", namespaced=False)
QUEUE_KIND = ObjectKind("fleetqueues.gpufleet.io", "gpufleet.io", "v1alpha1", "FleetQueue", namespaced=False)
KINDS = {kind.resource: kind for kind in (POD_KIND, NODE_KIND, QUEUE_KIND)}


class ObjectKey(NamedTuple):
    """An object by its resource, namespace ("" where it is in none) and name."""

    resource: str
    namespace: str
    name: str


class Reading(msgspec.Struct, frozen=True):
    """One series' amount, when it was measured (seconds since 1970), and the labels of the series."""

    amount: float
    at_s: float
    labels: Mapping[str, str] = {}


class MetricValue(msgspec.Struct, frozen=True):
    """What is served of one object."""

    kind: ObjectKind
    namespace: str
    name: str
    amount: float
    at_s: float


def why_not_served(one: Reading, now_s: float, old_after_s: float) -> str:
    """Why an amount is not served as a number; "" if it is."""
    if not math.isfinite(one.amount):
        return "its value is no number"
    if not 0 <= one.amount <= AMOUNT_MAX:
        return f"its value cannot be true: {one.amount:g}"
    age_s = now_s - one.at_s
    if math.isnan(age_s):
        return "its value has no time"
    if not math.isfinite(age_s) or age_s < -AHEAD_S:
        return "its value has a time that is not reached yet"
    if age_s > old_after_s:
        return f"its value is {age_s:.0f} s old, and none older than {old_after_s:.0f} s is served"
    return ""


def oldest(readings: Iterable[Reading]) -> float:
    """When the oldest was measured: a sum is as old as its oldest part."""
    return min(one.at_s for one in readings)
