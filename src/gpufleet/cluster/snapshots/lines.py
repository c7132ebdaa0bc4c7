"""One object of a snapshot as a line of JSON, with what decides and nothing else.

The types of ``kube.objects`` hold only fields that our code reads, so environment, arguments and secrets of
pods were dropped when the object was read. What is left to drop here is free text: annotations that no code
of ours reads (other tools keep whole manifests in them), messages of conditions, versions of the server.
"""

from typing import Any

import msgspec

from gpufleet.cluster.watching.change_queue import Seen
from gpufleet.cluster.watching.mirrors import WATCHED, Watched
from gpufleet.cluster.watching.picture import Picture
from gpufleet.kube import keys, resources
from gpufleet.kube.codec.salvage import salvage_pod
from gpufleet.kube.mirror_changes import Unreadable
from gpufleet.kube.objects.fleet_queues import FleetQueue, FleetQueueStatus, status_of
from gpufleet.kube.objects.pod import Pod
from gpufleet.kube.objects.resource_claims import ResourceClaimObject
from gpufleet.kube.objects.resource_slices import DeviceClassObject
from gpufleet.kube.resources import Kind
from gpufleet.mig.periods import PERIODS_ANNOTATION
from gpufleet.mig.wanted import DEMAND_ANNOTATION, LAYOUTS_ANNOTATION, STATES_ANNOTATION
from gpufleet.model.model_errors import InputError

KEPT_ANNOTATIONS = keys.POD_ANNOTATIONS | {
    keys.BIND_COMPLETED,
    keys.SELECTED_NODE,
    keys.BETA_STORAGE_CLASS,
    keys.LEADER_WORKER_SET_EXCLUSIVE,
    DEMAND_ANNOTATION,
    LAYOUTS_ANNOTATION,
    PERIODS_ANNOTATION,
    STATES_ANNOTATION,
}
"""All annotations, of pods and of what they speak of, that a codec reads."""

# A snapshot holds the kinds that decisions depend on, so a line is read as the live mirrors read it.
_WATCHED = {(one.kind.api_version, one.kind.name): one for one in WATCHED}
_DECODERS = {one.kind: msgspec.json.Decoder(one.type) for one in WATCHED}
_ENCODE = msgspec.json.Encoder().encode


class UnreadableLine(msgspec.Struct, frozen=True):
    """An object that could not be read: its names, why, and of a pod the fields that could."""

    unreadable: str
    kind: str
    uid: str
    problem: str
    namespace: str = ""
    name: str = ""
    rest: msgspec.Raw = msgspec.Raw(b"{}")


class _Named(msgspec.Struct, frozen=True, rename="camel"):
    """The fields of a line that tell what the line is."""

    api_version: str = ""
    kind: str = ""
    unreadable: str | None = None


_NAMED = msgspec.json.Decoder(_Named)
_UNREADABLE = msgspec.json.Decoder(UnreadableLine)


def object_line(kind: Kind, found: Any) -> bytes:
    """A line for an object that could be read."""
    head = f'{{"apiVersion":"{kind.api_version}","kind":"{kind.name}",'.encode()
    return head + _ENCODE(spared(found))[1:] + b"\n"


def spared(found: Any) -> Any:
    """The object without what no decision depends on."""
    metadata = found.metadata
    annotations = {key: text for key, text in metadata.annotations.items() if key in KEPT_ANNOTATIONS}
    kept = msgspec.structs.replace(metadata, annotations=annotations, resource_version="", generation=0)
    found = msgspec.structs.replace(found, metadata=kept)
    if isinstance(found, FleetQueue):
        status = status_of(found)
        kept_status = FleetQueueStatus(past_use=status.past_use, reservation=status.reservation)
        return msgspec.structs.replace(found, status=msgspec.Raw(_ENCODE(kept_status)))
    if isinstance(found, ResourceClaimObject | DeviceClassObject):
        return without_parameters(found)
    if isinstance(found, Pod) and found.status.conditions:
        silent = tuple(msgspec.structs.replace(one, message="") for one in found.status.conditions)
        return msgspec.structs.replace(found, status=msgspec.structs.replace(found.status, conditions=silent))
    return found


def without_parameters(
    found: ResourceClaimObject | DeviceClassObject,
) -> ResourceClaimObject | DeviceClassObject:
    """A claim or a class without what it says to drivers, which may be anything."""
    replace = msgspec.structs.replace
    if isinstance(found, DeviceClassObject):
        return replace(found, spec=replace(found.spec, config=()))
    spec = replace(found.spec, devices=replace(found.spec.devices, config=()))
    allocation = found.status.allocation
    if allocation is not None:
        allocation = replace(allocation, devices=replace(allocation.devices, config=()))
    # A driver's message about a device may be anything, too.
    devices = tuple(
        replace(one, conditions=tuple(replace(each, message="") for each in one.conditions))
        for one in found.status.devices
    )
    return replace(found, spec=spec, status=replace(found.status, allocation=allocation, devices=devices))


def unreadable_line(seen: Seen) -> bytes:
    """A line for an object that could not be read."""
    change = seen.change
    if not isinstance(change, Unreadable):
        raise TypeError(change)
    is_pod = seen.kind == resources.PODS
    rest = _ENCODE(spared(salvage_pod(change.raw))) if is_pod else b"{}"
    line = UnreadableLine(
        seen.kind.api_version,
        seen.kind.name,
        change.uid,
        change.problem,
        change.namespace,
        change.name,
        msgspec.Raw(rest),
    )
    return _ENCODE(line) + b"\n"


def read_line(line: bytes, picture: Picture, where: str) -> None:
    """Put what a line tells into the picture. Raises InputError for what cannot be."""
    try:
        named = _NAMED.decode(line)
        if named.unreadable is not None:
            _read_unreadable(line, picture, where)
            return
        watched = _watched(named.api_version, named.kind, where)
        found = _DECODERS[watched.kind].decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as problem:
        raise InputError(f"not an object of a snapshot: {problem}", where=where) from problem
    key = (found.metadata.namespace, found.metadata.name)
    if key in picture.objects[watched.kind]:
        raise InputError("there twice", field=watched.kind.name, value=found.metadata.path, where=where)
    picture.objects[watched.kind][key] = found


def _read_unreadable(line: bytes, picture: Picture, where: str) -> None:
    read = _UNREADABLE.decode(line)
    kind = _watched(read.unreadable, read.kind, where).kind
    bad = Unreadable(read.namespace, read.name, read.uid, read.problem, bytes(read.rest))
    picture.unreadable.append(Seen(kind, bad))


def _watched(api_version: str, kind: str, where: str) -> Watched:
    found = _WATCHED.get((api_version, kind))
    if found is None:
        raise InputError(
            "a kind that no decision depends on",
            field="kind",
            value=f"{api_version} {kind}".strip(),
            expected="the gpufleet that wrote the snapshot, or a newer one",
            where=where,
        )
    return found
