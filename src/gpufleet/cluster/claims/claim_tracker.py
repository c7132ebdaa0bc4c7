"""Claims and devices as they change, and what is new of them for the engine.

Objects are only noted as they are heard of and read once a round. A slice that cannot be read offers nothing.
A claim of which something cannot be read keeps all devices that its status names, so that no other claim gets
them.
"""

import logging
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from gpufleet.dra_allocation.claims import DeviceClass, ResourceClaim
from gpufleet.dra_allocation.results import AllocatedDevice, Allocation
from gpufleet.dra_allocation.slices import DeviceId, ResourceSlice
from gpufleet.dra_allocation.taint_rules import DeviceTaintRule, with_taint_rules
from gpufleet.engine.event import (
    DeviceClassRemoved,
    DeviceClassSet,
    Event,
    ResourceClaimRemoved,
    ResourceClaimSet,
    ResourceSliceRemoved,
    ResourceSliceSet,
)
from gpufleet.kube import resources
from gpufleet.kube.codec.lookup import Lookup
from gpufleet.kube.codec.resource_claims import read_allocation, read_resource_claim
from gpufleet.kube.codec.resource_slices import (
    read_device_class,
    read_resource_slice,
    read_taint_rule,
)
from gpufleet.kube.codec.special_claims import SpecialClaim
from gpufleet.kube.kube_errors import ObjectError
from gpufleet.kube.objects.resource_claims import ResourceClaimObject
from gpufleet.kube.resources import PODS, Kind
from gpufleet.model.identifiers import PodUid

LOG = logging.getLogger(__name__)
Read = TypeVar("Read", DeviceClass, ResourceSlice)
KINDS = (
    resources.RESOURCE_CLAIMS,
    resources.RESOURCE_SLICES,
    resources.DEVICE_CLASSES,
    resources.DEVICE_TAINT_RULES,
)
"""The kinds that are followed here."""


class HeardOf(NamedTuple):
    """An object that changed."""

    kind: Kind
    namespace: str
    name: str


class SeenClaim(NamedTuple):
    """A claim as it was read last. ``reserved_for`` are the uids of all that may use it.

    ``users`` are the pods among them; None where others than pods may use it.
    """

    uid: str
    claim: ResourceClaim
    allocation: Allocation | None
    users: tuple[PodUid, ...] | None
    reserved_for: tuple[str, ...]


class ClaimTracker:
    """Reads what changed, and tells what is new."""

    def __init__(self, cluster: Lookup) -> None:
        self.cluster = cluster
        self.claims: dict[str, SeenClaim] = {}
        self._slices: dict[str, ResourceSlice] = {}
        self._classes: dict[str, DeviceClass] = {}
        self._holders: dict[DeviceId, dict[str, AllocatedDevice]] = {}
        self.expected: dict[str, SpecialClaim] = {}
        self._expected_by_pod: dict[PodUid, str] = {}
        self._of_expected: list[Event] = []
        # Dictionaries without values stand for sets in order, so that every run tells in one order.
        self._changed: dict[HeardOf, None] = {}
        self._unreadable: dict[HeardOf, None] = {}

    def hear(self, key: HeardOf, *, is_readable: bool) -> None:
        """An object of one of ``KINDS`` changed, appeared or went."""
        self._changed[key] = None
        if is_readable:
            self._unreadable.pop(key, None)
        else:
            self._unreadable[key] = None

    def events(self) -> list[Event]:
        """What the engine is to hear of all that changed since the last call."""
        if not self._changed:
            return []
        changed, self._changed = self._changed, {}
        names: dict[Kind, list[HeardOf]] = {kind: [] for kind in KINDS}
        for key in changed:
            names[key.kind].append(key)
        slices = [key.name for key in names[resources.RESOURCE_SLICES]]
        if names[resources.DEVICE_TAINT_RULES]:
            every = (one.metadata.name for one in self.cluster.all(resources.RESOURCE_SLICES))
            slices = list(dict.fromkeys((*slices, *every)))
        events = [event for key in names[resources.DEVICE_CLASSES] for event in self._class(key.name)]
        events += self._slices_read(slices)
        for key in names[resources.RESOURCE_CLAIMS]:
            events += self._claim(key)
        return events

    def expect(self, claim: SpecialClaim) -> None:
        """A pod is to have this claim, which its scheduler makes when the pod has a place."""
        path = claim.asks.path
        if self.expected.get(path) != claim:
            self.expected[path] = claim
            self._expected_by_pod[claim.pod] = path
            if path not in self.claims:
                self._of_expected.append(ResourceClaimSet(claim.asks))

    def forget_pod(self, uid: PodUid) -> None:
        """A pod is gone, and needs no claim any more."""
        path = self._expected_by_pod.pop(uid, None)
        if path is not None:
            del self.expected[path]
            if path not in self.claims:
                self._of_expected.append(ResourceClaimRemoved(path))

    def take_expected(self) -> list[Event]:
        """What the engine is to hear of claims that are not made yet, before it hears of their pods."""
        told, self._of_expected = self._of_expected, []
        return told

    def others_with_devices_of(self, path: str) -> list[str]:
        """Other claims that hold a device of this claim which is not for several."""
        seen = self.claims.get(path)
        devices = () if seen is None or seen.allocation is None else seen.allocation.devices
        return [
            other
            for device in devices
            for other, theirs in self._holders.get(device.id, {}).items()
            if other != path and device.excludes(theirs)
        ]

    def _class(self, name: str) -> list[Event]:
        found = self.cluster.find(resources.DEVICE_CLASSES, name)
        read = None
        if found is not None and not self._is_unreadable(resources.DEVICE_CLASSES, name):
            try:
                read = read_device_class(found)
            except ObjectError as problem:
                LOG.warning("a device class cannot be read", extra={"problem": str(problem)})
        return _news(self._classes, name, read, DeviceClassSet, DeviceClassRemoved)

    def _slices_read(self, names: list[str]) -> list[Event]:
        if not names:
            return []
        found = (read_taint_rule(one) for one in self.cluster.all(resources.DEVICE_TAINT_RULES))
        rules = [one for one in found if one is not None]
        return [event for name in names for event in self._slice(name, rules)]

    def _slice(self, name: str, rules: list[DeviceTaintRule]) -> list[Event]:
        found = self.cluster.find(resources.RESOURCE_SLICES, name)
        read = None
        if found is not None and not self._is_unreadable(resources.RESOURCE_SLICES, name):
            try:
                (read,) = with_taint_rules([read_resource_slice(found)], rules)
            except ObjectError as problem:
                LOG.warning("a slice of devices cannot be read", extra={"problem": str(problem)})
        return _news(self._slices, name, read, ResourceSliceSet, ResourceSliceRemoved)

    def _is_unreadable(self, kind: Kind, name: str) -> bool:
        return HeardOf(kind, "", name) in self._unreadable

    def _claim(self, key: HeardOf) -> list[Event]:
        found: ResourceClaimObject | None = self.cluster.find(key.kind, key.name, key.namespace)
        path = f"{key.namespace}/{key.name}"
        before = self.claims.pop(path, None)
        if before is not None:
            self._release(path, before)
        if found is None:
            if path in self.expected:
                return [ResourceClaimSet(self.expected[path].asks)]
            return [] if before is None else [ResourceClaimRemoved(path)]
        consumers = found.status.reserved_for
        reserved = tuple(consumer.uid for consumer in consumers)
        are_pods = all(one.resource == PODS.plural and not one.api_group for one in consumers)
        users = tuple(map(PodUid, reserved)) if are_pods else None
        seen = SeenClaim(found.metadata.uid, _asked(found), _held(found), users, reserved)
        self.claims[path] = seen
        for device in () if seen.allocation is None else seen.allocation.devices:
            if not device.admin_access:
                self._holders.setdefault(device.id, {})[path] = device
        if before is not None and before[1:4] == seen[1:4]:
            return []
        return [ResourceClaimSet(seen.claim, seen.allocation, seen.users)]

    def _release(self, path: str, seen: SeenClaim) -> None:
        for device in () if seen.allocation is None else seen.allocation.devices:
            holders = self._holders.get(device.id, {})
            holders.pop(path, None)
            if not holders:
                self._holders.pop(device.id, None)


def _news(
    known: dict[str, Read],
    name: str,
    read: Read | None,
    appears: Callable[[Read], Event],
    goes: Callable[[str], Event],
) -> list[Event]:
    """What is new of an object that is read as a whole; None where it is gone or cannot be read."""
    if read is None:
        return [goes(name)] if known.pop(name, None) is not None else []
    if known.get(name) == read:
        return []
    known[name] = read
    return [appears(read)]


def _asked(found: ResourceClaimObject) -> ResourceClaim:
    """What a claim asks for; nothing where that cannot be read, and its pods are held back."""
    try:
        return read_resource_claim(found)
    except ObjectError:
        return ResourceClaim(found.metadata.namespace, found.metadata.name, ())


def _held(found: ResourceClaimObject) -> Allocation | None:
    """What a claim has; where that cannot be read, the devices that it names, as a whole."""
    try:
        return read_allocation(found)
    except ObjectError as problem:
        LOG.warning("an allocation cannot be read", extra={"problem": str(problem)})
        results = () if found.status.allocation is None else found.status.allocation.devices.results
        return Allocation(
            tuple(AllocatedDevice(one.request, DeviceId(one.driver, one.pool, one.device)) for one in results)
        )
