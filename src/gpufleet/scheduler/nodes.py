"""The nodes as the engine was told of them, put together from Node, NodeDevices, CSINode and the volumes
attached to it.

A node whose objects cannot be understood is left out of what is new: it keeps its last good reading
while it runs pods, and is reported, with the field, until it is mended.
"""

import logging
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from gpufleet.engine.event import Event, NodeRemoved, NodeSet
from gpufleet.kube import resources
from gpufleet.kube.changes import Appeared, Changed, Vanished
from gpufleet.kube.codec.lookup import Lookup
from gpufleet.kube.codec.node import read_node
from gpufleet.kube.errors import ObjectError
from gpufleet.kube.objects.storage import VolumeAttachment
from gpufleet.model.device import Device
from gpufleet.model.identifiers import DeviceId, NodeName
from gpufleet.model.node import Node
from gpufleet.model.volumes import Attachment
from gpufleet.scheduler.node_trust import DISTRUST, NodeTrust

LOG = logging.getLogger(__name__)


class NodeBook:
    """What the engine knows of each node."""

    def __init__(self, cluster: Lookup) -> None:
        self.cluster = cluster
        self.trust = NodeTrust()
        self.known: dict[NodeName, Node] = {}
        self.problems: dict[NodeName, str] = {}
        self._attachments: dict[NodeName, dict[str, VolumeAttachment]] = {}

    def attach(self, change: Any) -> NodeName | None:
        """A volume is attached, or is no longer: the node that it is about."""
        match change:
            case Appeared(found) | Changed(_, found):
                name = NodeName(found.spec.node_name)
                self._attachments.setdefault(name, {})[found.metadata.name] = found
                return name
            case Vanished(found):
                name = NodeName(found.spec.node_name)
                self._attachments.get(name, {}).pop(found.metadata.name, None)
                return name
            case _:
                return None

    def _attached(self, name: NodeName) -> Iterator[Attachment]:
        """The volumes of CSI drivers that are attached to a node."""
        for one in self._attachments.get(name, {}).values():
            volume = self.cluster.find(resources.PERSISTENT_VOLUMES, one.spec.source.persistent_volume_name)
            if volume is not None and volume.spec.csi is not None:
                yield Attachment(one.spec.attacher, volume.spec.csi.volume_handle)

    def regard(self, name: NodeName, at_s: float) -> list[Event]:
        """One of a node's objects changed: what that means for the engine."""
        written = self.cluster.find(resources.NODES, name)
        if written is None:
            self.problems.pop(name, None)
            self.trust.forget(name)
            return [] if self.known.pop(name, None) is None else [NodeRemoved(name)]
        devices = self.cluster.find(resources.NODE_DEVICES, name)
        if devices is not None and self.trust.offered(name, devices.spec.offered_since, at_s):
            LOG.info("a node's devices are offered anew, and it is trusted again", extra={"node": str(name)})
        csi = self.cluster.find(resources.CSI_NODES, name)
        try:
            node = read_node(written, devices, csi, self._attached(name))
        except ObjectError as problem:
            self._report(name, str(problem))
            return []
        self.problems.pop(name, None)
        if self.trust.distrusted(name, at_s):
            node = msgspec.structs.replace(node, taints=(*node.taints, DISTRUST))
        if self.known.get(name) == node:
            return []
        self.known[name] = node
        return [NodeSet(node)]

    def devices(self, name: NodeName, ids: Sequence[DeviceId]) -> list[Device]:
        """The devices of a node by their ids, in the order of the ids."""
        by_id = {device.id: device for device in self.known[name].devices}
        return [by_id[one] for one in ids]

    def _report(self, name: NodeName, problem: str) -> None:
        if self.problems.get(name) != problem:
            LOG.error("a node cannot be read", extra={"node": str(name), "problem": problem})
        self.problems[name] = problem
