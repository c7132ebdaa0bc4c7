"""Which node has a device that several nodes report.

A report is one node's word, and a node that was taken over can name any device. So the reports of nodes that
name a device in common are weighed against each other, by what the API says and in no order of reading:

- A report that names a device which an unfinished pod was granted on another of these nodes, and none on its
  own, is not believed. Grants are the scheduler's word, which a node cannot write.
- Of the others the older report is believed: the API server notes when it was made, so a node that begins to
  name devices of a node at work takes none from it. Were such devices closed on both, one node could
  close a whole cluster by naming them. A node that was taken over wins only against a report that was made
  after its own and for devices without a grant, until its own report is corrected or deleted.

A node without a readable report claims what its unfinished pods were granted.
"""

from collections.abc import Callable, Iterable

import msgspec

from gpufleet.kube.codec.node import is_anonymous
from gpufleet.kube.objects.node_devices import NodeDevices
from gpufleet.model.identifiers import DeviceId, NodeName


class _Claim(msgspec.Struct, frozen=True):
    """The devices that a node claims, and when its report was made: none sorts behind all."""

    ids: frozenset[DeviceId]
    made: tuple[bool, str, str] = (True, "", "")


class Rival(msgspec.Struct, frozen=True):
    """A node that has a device which another node claims too."""

    node: NodeName
    device: DeviceId


class DisputedDevices:
    """What each node claims. ``granted`` tells what unfinished pods were granted on a node."""

    def __init__(
        self, exists: Callable[[NodeName], bool], granted: Callable[[NodeName], frozenset[DeviceId]]
    ) -> None:
        self.exists = exists
        self.granted = granted
        self._claims: dict[NodeName, _Claim] = {}
        self._by_id: dict[DeviceId, tuple[NodeName, ...]] = {}
        self._shared: set[DeviceId] = set()

    def report(self, name: NodeName, report: NodeDevices) -> set[NodeName]:
        """A node's report is this now: the other nodes that it concerns, or concerned."""
        ids = frozenset(DeviceId(one.id) for one in report.spec.devices)
        metadata = report.metadata
        return self._put(name, _Claim(ids, (False, str(metadata.creation_timestamp), metadata.uid)))

    def without_report(self, name: NodeName, granted: Iterable[DeviceId]) -> set[NodeName]:
        """A node has no readable report, and its pods these devices: the other nodes that it concerns."""
        return self._put(name, _Claim(frozenset(one for one in granted if not is_anonymous(one))))

    def _put(self, name: NodeName, claim: _Claim) -> set[NodeName]:
        before = self._claims.get(name)
        if before == claim or (before is None and not claim.ids):
            return set()
        concerned = self.group(name)
        if claim.ids:
            self._claims[name] = claim
        else:
            self._claims.pop(name, None)
        known = frozenset() if before is None else before.ids
        for one in known ^ claim.ids:
            others = tuple(other for other in self._by_id.get(one, ()) if other != name)
            names = (*others, name) if one in claim.ids else others
            if names:
                self._by_id[one] = names
            else:
                self._by_id.pop(one, None)
            (self._shared.add if len(names) > 1 else self._shared.discard)(one)
        return (concerned | self.group(name)) - {name}

    def shared(self, name: NodeName) -> frozenset[DeviceId]:
        """The devices of a node's claim that other nodes claim too."""
        claim = self._claims.get(name)
        if not self._shared or claim is None:
            return frozenset()
        return frozenset(claim.ids & self._shared)

    def sharing(self, name: NodeName) -> set[NodeName]:
        """The other nodes that claim a device of this one."""
        return {other for one in self.shared(name) for other in self._by_id[one]} - {name}

    def rival(self, name: NodeName) -> Rival | None:
        """A node that has a device which this node claims; None where the claim is believed."""
        if not self.sharing(name):
            return None
        group = self.group(name)
        granted = {one: self.granted(one) & self.shared(one) for one in group}
        refuted = {one: self._refuted(one, granted) for one in group}
        if refuted[name] is not None:
            return refuted[name]
        believed: dict[DeviceId, NodeName] = {}
        # By the age of the reports and then by name, so that every process comes to one answer.
        for one in sorted(group, key=lambda one: (self._claims[one].made, one)):
            taken = sorted(device for device in self.shared(one) if device in believed)
            if one == name:
                return Rival(believed[taken[0]], taken[0]) if taken else None
            if refuted[one] is None and not taken:
                believed |= dict.fromkeys(self.shared(one), one)
        return None

    def group(self, name: NodeName) -> set[NodeName]:
        """A node and all nodes that claim a device of its own: directly, or by way of other nodes."""
        found, new = {name}, {name}
        while new:
            new = {other for one in new for other in self.sharing(one) if self.exists(other)} - found
            found |= new
        return found

    def _refuted(self, name: NodeName, granted: dict[NodeName, frozenset[DeviceId]]) -> Rival | None:
        """A node on which a pod was granted a device of this node's claim that was granted to none here."""
        for device in sorted(self.shared(name) - granted[name]):
            for other in sorted(granted):
                if device in granted[other]:
                    return Rival(other, device)
        return None
