"""The kubelet's own record of the devices that it gave, with the answers that it was given for them.

A JSON file that the kubelet replaces as a whole after each allocation and reads when it starts. It tells
more than the pod resources API: the pod by its UID, init containers that end, and the CDI names of our own
answers, so that an answer can be matched with its container even by an agent that has just started. Its
checksum is over Go's printed form of the data and differs between versions; it is not checked here, and
nothing is given on the word of this file alone.
"""

from pathlib import Path

import msgspec
from google.protobuf.message import DecodeError

from gpufleet.agent.kubelet.kubelet_api import device_plugin_pb2 as api
from gpufleet.agent.state.state_errors import KubeletError
from gpufleet.files.regular import UnfitFileError, read_regular

FILE = "kubelet_internal_checkpoint"
"""Beside the sockets of the device plugins."""

# Bounds what is read: the record grows with the containers of the node.
MAXIMUM_BYTES = 64 * 1024 * 1024


class CheckpointEntry(msgspec.Struct, frozen=True):
    """Units of one resource that one container of one pod has, and the CDI names it was given for them."""

    pod_uid: str
    container: str
    resource: str
    units: frozenset[str]
    cdi_devices: tuple[str, ...] = ()


class _Entry(msgspec.Struct, frozen=True, rename="pascal"):
    container_name: str
    resource_name: str
    pod_uid: str = msgspec.field(name="PodUID")
    device_ids: dict[str, list[str] | None] | None = msgspec.field(name="DeviceIDs", default=None)
    alloc_resp: bytes | None = None


class _Data(msgspec.Struct, frozen=True, rename="pascal"):
    pod_device_entries: list[_Entry] | None = None


class _File(msgspec.Struct, frozen=True, rename="pascal"):
    data: _Data


_DECODER = msgspec.json.Decoder(_File)


def read_checkpoint(folder: Path) -> tuple[CheckpointEntry, ...]:
    """What the kubelet wrote down; nothing where it has written nothing yet. Raises KubeletError."""
    try:
        data = read_regular(folder / FILE, MAXIMUM_BYTES)
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise KubeletError(f"the kubelet's record of devices cannot be read: {error.strerror}") from error
    except UnfitFileError as error:
        raise KubeletError(f"the kubelet's record of devices cannot be read: it {error.problem}") from error
    return decode_checkpoint(data)


def decode_checkpoint(data: bytes) -> tuple[CheckpointEntry, ...]:
    """The entries of a file's bytes, all of them or none. Raises KubeletError."""
    try:
        entries = _DECODER.decode(data).data.pod_device_entries or []
        return tuple(_recorded(entry) for entry in entries)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, DecodeError) as error:
        raise KubeletError(f"the kubelet's record of devices cannot be understood: {error}") from error


def _recorded(entry: _Entry) -> CheckpointEntry:
    """Units are listed by NUMA node, one that belongs to two nodes under both."""
    units = frozenset(unit for some in (entry.device_ids or {}).values() for unit in some or ())
    answer = api.ContainerAllocateResponse.FromString(entry.alloc_resp or b"")
    names = tuple(device.name for device in answer.cdi_devices)
    return CheckpointEntry(entry.pod_uid, entry.container_name, entry.resource_name, units, names)
