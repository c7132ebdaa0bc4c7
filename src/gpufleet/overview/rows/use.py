"""What pods use over all their devices, from what agents measured (``usage.agent_use``)."""

from collections.abc import Iterable
from typing import NamedTuple

from gpufleet.usage.agent_use import NodeUse, PodKey, power_of


class PodUse(NamedTuple):
    """What a pod uses over all its devices: the mean ratio, and sums. None where a device does not tell."""

    used_ratio: float | None = None
    memory_used_bytes: float | None = None
    power_watts: float | None = None


NOTHING = PodUse()
"""Nothing is known of what the pod uses."""


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
        total(power_of(device, use, earlier.get(key), since_s) for key, device in devices.items()),
    )


def total(amounts: Iterable[float | None]) -> float | None:
    """The sum; None where one of them is not known, or where there are none."""
    found = None
    for amount in amounts:
        if amount is None:
            return None
        found = amount + (found or 0.0)
    return found
