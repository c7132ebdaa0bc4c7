"""The kubelet's record of devices, written as a kubelet writes it."""

import base64
import json
from pathlib import Path

from gpufleet.agent.kubelet.kubelet_api import device_plugin_pb2 as api
from gpufleet.agent.kubelet.kubelet_checkpoint import FILE, CheckpointEntry


def record_bytes(*entries: CheckpointEntry) -> bytes:
    """The file's bytes."""
    written = [
        {
            "PodUID": one.pod_uid,
            "ContainerName": one.container,
            "ResourceName": one.resource,
            "DeviceIDs": {"-1": sorted(one.units)},
            "AllocResp": base64.b64encode(_answer(one.cdi_devices)).decode("ascii"),
        }
        for one in entries
    ]
    data: dict[str, object] = {"PodDeviceEntries": written or None, "RegisteredDevices": {}}
    return json.dumps({"Data": data, "Checksum": 1}).encode()


def write_record(folder: Path, *entries: CheckpointEntry) -> None:
    """Put it where the kubelet has it."""
    (folder / FILE).write_bytes(record_bytes(*entries))


def _answer(names: tuple[str, ...]) -> bytes:
    made = api.ContainerAllocateResponse(cdi_devices=[api.CDIDevice(name=name) for name in names])
    return made.SerializeToString()
