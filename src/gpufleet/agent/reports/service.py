"""Whether a device is in service, as NodeDevices says it: a state, a sentence, and a taint for machines.

All three are made here from one verdict, so that they cannot differ. The taint has the shape of those of
``resource.k8s.io``; since when it is there is carried over from one report to the next, because health itself
knows no wall time.
"""

from datetime import UTC, datetime

import msgspec

from gpufleet.agent.gpus.health_reason import reason_slug
from gpufleet.agent.state.node_state import Gpu
from gpufleet.devices.facts import MigFacts
from gpufleet.devices.health import Verdict
from gpufleet.kube.objects import node_devices as wire

# As long as the definition of NodeDevices takes.
REASON_LENGTH = 1024
KEYS = {Verdict.UNHEALTHY: wire.UNHEALTHY_TAINT, Verdict.UNKNOWN: wire.UNKNOWN_TAINT}


def with_service(
    device: wire.ReportedDevice, gpu: Gpu, instance: MigFacts | None = None
) -> wire.ReportedDevice:
    """The device with the health of its GPU, or that of the instance that it is where the GPU is well."""
    verdict, reason = gpu.health, gpu.reason
    if verdict is Verdict.HEALTHY and instance is not None and instance.uuid in gpu.sick_instances:
        verdict, reason = Verdict.UNHEALTHY, gpu.sick_instances[instance.uuid]
    if verdict is Verdict.HEALTHY:
        return msgspec.structs.replace(device, health=wire.HEALTHY, health_reason="", taints=())
    taint = wire.DeviceTaint(KEYS[verdict], wire.NO_SCHEDULE, reason_slug(verdict, reason))
    return msgspec.structs.replace(
        device, health=verdict.value, health_reason=reason[:REASON_LENGTH], taints=(taint,)
    )


def dated(
    wanted: wire.NodeDevicesSpec, seen: wire.NodeDevicesSpec | None, now: datetime
) -> wire.NodeDevicesSpec:
    """The report with the time of each taint: that which it has had so far, or now.

    A taint whose value alone changes (a GPU that recovers says so) is as old as before.
    """
    if not any(device.taints for device in wanted.devices):
        return wanted
    since = {
        (device.id, taint.key, taint.effect): taint.time_added
        for device in (() if seen is None else seen.devices)
        for taint in device.taints
    }
    now_text = now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def with_times(device: wire.ReportedDevice) -> wire.ReportedDevice:
        taints = tuple(
            msgspec.structs.replace(
                taint, time_added=since.get((device.id, taint.key, taint.effect)) or now_text
            )
            for taint in device.taints
        )
        return msgspec.structs.replace(device, taints=taints)

    return msgspec.structs.replace(wanted, devices=tuple(map(with_times, wanted.devices)))
