"""The grant as text of the annotation ``gpufleet.io/grant``, and back.

The text is JSON: ``{"v": 2, "epoch": 7, "terms": {"queue": "vision", "atUs": ...}, "containers": {"train":
[{"id": "GPU-...", "kind": "whole", "gpuMilli": 1000, "memoryMiB": 80384}]}}``. Readers accept the version
they write and the one before, which has no terms (``bound_terms``), and refuse every other: a grant that is
guessed is a device given twice. Only the scheduler can write the annotation, but it is read as untrusted
text: its size is bounded before it is parsed, keys may not repeat, and no number is taken for what it is not.
"""

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from gpufleet.kube import keys
from gpufleet.kube.codec.bound_terms import WrittenTerms, read_terms, written_terms
from gpufleet.kube.codec.containers import GpuContainer
from gpufleet.kube.codec.field_path import inside
from gpufleet.kube.codec.node import is_anonymous
from gpufleet.kube.kube_errors import ObjectError
from gpufleet.kube.objects.structure import Structure
from gpufleet.model.bound_terms import BoundTerms
from gpufleet.model.device import WHOLE_GPU_MILLI, Device
from gpufleet.model.device_id import DeviceName, MigPlace, device_name
from gpufleet.model.grant import ContainerGrant, Grant, GrantedDevice, GrantKind
from gpufleet.model.identifiers import DeviceId
from gpufleet.model.mig_part import compute_part, part_milli
from gpufleet.model.model_errors import InputError
from gpufleet.model.shape import GpuRequest

# With the terms that a pod was bound with; an agent that knows only 1 refuses it.
VERSION = 2
WITHOUT_TERMS = 1
"""The version before: its grants name devices, and say nothing of queue, priority and gang."""

ACCEPTED_VERSIONS = (WITHOUT_TERMS, VERSION)
# An annotation may have 256 KiB; a pod of 1,000 devices needs half of that.
MAXIMUM_LENGTH = 256 * 1024
MAXIMUM_DEPTH = 6
"""A grant nests no deeper; text that does is refused before it is parsed."""

# Beyond these a number is no epoch of a Lease (a 32-bit integer), no memory of a device, no pod's devices.
MAXIMUM_EPOCH = 2**31 - 1
MAXIMUM_MEMORY_MIB = 2**31 - 1
MAXIMUM_DEVICES = 10_000
_FIELD = f"metadata.annotations[{keys.GRANT}]"


class _Device(Structure, frozen=True, forbid_unknown_fields=True):
    id: str
    kind: GrantKind = GrantKind.WHOLE
    gpu_milli: int = WHOLE_GPU_MILLI
    memory_mib: int | None = msgspec.field(default=None, name="memoryMiB")
    mig_profile: str | None = None
    mig_start: int | None = None


class _Grant(Structure, frozen=True, forbid_unknown_fields=True):
    v: int
    epoch: int
    terms: WrittenTerms | None = None
    containers: dict[str, tuple[_Device, ...]] = msgspec.field(default_factory=dict)


class _Version(Structure, frozen=True):
    v: int


_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(_Grant)
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')


def write_grant(grant: Grant) -> str:
    """The grant as the text of an annotation."""
    containers = {
        part.container: tuple(_written(device) for device in part.devices) for part in grant.containers
    }
    terms = None if grant.terms is None else written_terms(grant.terms)
    return _ENCODER.encode(_Grant(VERSION, grant.epoch, terms, containers)).decode()


def read_grant(text: str) -> Grant:
    """The grant of an annotation. Raises ObjectError, naming the place, for anything doubtful."""
    if len(text) > MAXIMUM_LENGTH:
        problem = f"{len(text)} characters"
        raise ObjectError(problem, field=_FIELD, expected=f"at most {MAXIMUM_LENGTH}")
    with inside(_FIELD):
        written = _as_we_write_it(text) or _checked(text)
        version = written.v
        if written.terms is not None and version == WITHOUT_TERMS:
            expected = f"terms with version {VERSION} only"
            raise InputError("terms in a grant without them", field="terms", expected=expected)
        _check_range(written.epoch, 0, MAXIMUM_EPOCH, "epoch")
        total = sum(len(devices) for devices in written.containers.values())
        _check_range(total, 0, MAXIMUM_DEVICES, "containers")
        containers = tuple(_read_container(name, part) for name, part in written.containers.items())
        terms = None if written.terms is None else read_terms(written.terms)
        return Grant(written.epoch, containers, terms)


def _as_we_write_it(text: str) -> _Grant | None:
    """The grant of a text that is to the letter what its reading would be written as; None for any other.

    Such a text has each key once, nests as a grant does and has a known version. So the checks of
    ``_checked``, which cost three quarters of the reading, would find nothing.
    """
    try:
        written: _Grant = _DECODER.decode(text)
        again = _ENCODER.encode(written).decode()
    # Whatever is wrong is told by the checks, each with its own words.
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return None
    return written if again == text and written.v in ACCEPTED_VERSIONS else None


def _checked(text: str) -> _Grant:
    """The grant of a text of which nothing is known. Raises InputError."""
    _check_depth(text)
    _check_keys(text)
    version = _decoded(text, _Version).v
    if version not in ACCEPTED_VERSIONS:
        expected = f"version {WITHOUT_TERMS} or {VERSION}; a newer gpufleet must have written it"
        raise InputError("an unknown version of the grant", field="v", value=version, expected=expected)
    written: _Grant = _decoded(text, _Grant)
    return written


def granted_devices(grant: Grant) -> tuple[GrantedDevice, ...]:
    """Each device of the pod once; init containers lend theirs to what comes after them."""
    found: dict[tuple[DeviceId, int | None], GrantedDevice] = {}
    for container in grant.containers:
        for device in container.devices:
            found.setdefault((device.id, device.mig_start), device)
    return tuple(found.values())


def make_grant(
    containers: Sequence[GpuContainer],
    request: GpuRequest,
    devices: Sequence[Device],
    epoch: int,
    terms: BoundTerms | None = None,
) -> Grant:
    """The grant of a pod that the engine placed on these devices.

    ``devices`` are as many as the request counts. Containers take them in the order in which the
    kubelet starts them: an init container gives its devices on to those after it, a sidecar keeps
    them. Devices without known ids make a grant without containers.
    """
    if any(is_anonymous(device.id) for device in devices):
        return Grant(epoch, terms=terms)
    granted = tuple(_granted(request, device) for device in devices)
    return Grant(epoch, tuple(_dealt(containers, granted)), terms)


def _dealt(
    containers: Iterable[GpuContainer], granted: tuple[GrantedDevice, ...]
) -> Iterable[ContainerGrant]:
    """Each container's devices, dealt as the kubelet's device manager does: first those that init containers
    left, then new ones.
    """
    fresh = list(granted)
    left: list[GrantedDevice] = []
    for container in containers:
        reused, left = left[: container.count], left[container.count :]
        added, fresh = (
            fresh[: container.count - len(reused)],
            fresh[container.count - len(reused) :],
        )
        taken = reused + added
        if len(taken) < container.count:
            problem = f"{len(granted)} devices for more containers"
            raise ObjectError(problem, field=f"containers[{container.name}]", expected="enough devices")
        if container.lends:
            left = taken + left
        yield ContainerGrant(container.name, tuple(taken))


def _granted(request: GpuRequest, device: Device) -> GrantedDevice:
    if request.whole:
        name = device_name(device.id)
        if name.place is not None:
            return _granted_instance(name, name.place, device)
        return GrantedDevice(device.id, GrantKind.WHOLE, WHOLE_GPU_MILLI, device.memory_mib)
    memory_mib = request.memory_mib
    if memory_mib is None and device.memory_mib is not None:
        memory_mib = device.memory_mib * request.gpu_milli // WHOLE_GPU_MILLI
    return GrantedDevice(device.id, GrantKind.SHARE, request.gpu_milli, memory_mib)


def _granted_instance(name: DeviceName, place: MigPlace, device: Device) -> GrantedDevice:
    """An instance that is asked for as a GPU: its card, and where on it; never MIG's UUID, which changes."""
    card = msgspec.structs.replace(name, place=None).id
    milli = part_milli(compute_part(device.model, place.profile))
    return GrantedDevice(card, GrantKind.MIG, milli, device.memory_mib, place.profile, place.start)


def _written(device: GrantedDevice) -> _Device:
    return _Device(
        device.id,
        device.kind,
        device.gpu_milli,
        device.memory_mib,
        device.mig_profile,
        device.mig_start,
    )


def _read_container(name: str, devices: tuple[_Device, ...]) -> ContainerGrant:
    found = []
    for position, device in enumerate(devices):
        with inside(f"containers[{name}][{position}]"):
            found.append(_read_device(device))
    ids = [(device.id, device.mig_start) for device in found]
    if len(set(ids)) != len(ids):
        raise InputError("a device twice", field=f"containers[{name}]", expected="each device once")
    return ContainerGrant(name, tuple(found))


def _read_device(device: _Device) -> GrantedDevice:
    if not device.id or is_anonymous(DeviceId(device.id)):
        raise InputError("not a device's id", field="id", value=device.id, expected="the GPU's UUID")
    least = 1 if device.kind is GrantKind.WHOLE else 0
    _check_range(device.gpu_milli, least, WHOLE_GPU_MILLI, "gpuMilli")
    if device.kind is GrantKind.WHOLE and device.gpu_milli != WHOLE_GPU_MILLI:
        raise InputError("a part of a whole GPU", field="gpuMilli", value=device.gpu_milli, expected="1000")
    if device.memory_mib is not None:
        _check_range(device.memory_mib, 0, MAXIMUM_MEMORY_MIB, "memoryMiB")
    # An instance is known by profile and place together, and only an instance has them.
    instance = device.mig_profile is not None and device.mig_start is not None
    if instance != (device.kind is GrantKind.MIG) or (device.mig_profile is None) != (
        device.mig_start is None
    ):
        expected = "migProfile and migStart with kind mig, and with no other"
        raise InputError("not a MIG instance", field="kind", value=device.kind.value, expected=expected)
    if device.mig_start is not None:
        # No card has more than eight slices of memory for an instance to start at.
        _check_range(device.mig_start, 0, 7, "migStart")
    return GrantedDevice(
        DeviceId(device.id),
        device.kind,
        device.gpu_milli,
        device.memory_mib,
        device.mig_profile,
        device.mig_start,
    )


def _check_range(number: int, least: int, most: int, field: str) -> None:
    if not least <= number <= most:
        raise InputError("out of range", field=field, value=number, expected=f"{least} to {most}")


def _decoded(text: str, kind: type[Any]) -> Any:
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        problem = f"not a grant ({error})" if isinstance(error, msgspec.ValidationError) else "not JSON"
        raise InputError(problem, value=text, expected="a grant as the scheduler writes it") from error


def _check_depth(text: str) -> None:
    """Counts brackets before any parser recurses, those within strings left out."""
    depth = deepest = 0
    for character in _STRING.sub("", text):
        if character in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif character in "]}":
            depth -= 1
    if deepest > MAXIMUM_DEPTH:
        raise InputError("nested too deep", value=text, expected=f"at most {MAXIMUM_DEPTH} levels")


def _check_keys(text: str) -> None:
    """Refuse equal keys: our decoder would take the last of them, and another reader may take the first."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise InputError("a key twice", value=text, expected="each key once")
        return found

    try:
        json.loads(text, object_pairs_hook=once)
    except (ValueError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError("not JSON", value=text, expected="a grant as the scheduler writes it") from error
