"""The nodes as the engine was told of them, put together from Node, NodeDevices, CSINode and the volumes
attached to it.

A Node that cannot be understood is left out of what is new: it keeps its last good reading while it runs
pods, and is reported, with the field, until it is mended. A report of devices that is missing or cannot be
understood costs the node its work with GPUs and nothing else (``node_gpus``).
"""

import logging
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import msgspec

from gpufleet.cluster.nodes import replacement_records
from gpufleet.cluster.nodes.cuts_for_pods import CutsForPods
from gpufleet.cluster.nodes.cuts_to_come import with_cuts_to_come
from gpufleet.cluster.nodes.disputed_devices import DisputedDevices
from gpufleet.cluster.nodes.kept_nodes import KeptNodes, group_of, joined_at_us
from gpufleet.cluster.nodes.node_gpus import (
    HeldOnNode,
    UnknownHeld,
    agent_reports,
    missing,
    unreported,
    with_missing,
    with_unknown,
)
from gpufleet.engine.event import (
    DevicesOffered,
    Event,
    NodeDistrustRecalled,
    NodeRemoved,
    NodeSet,
    ReplacementsRecalled,
)
from gpufleet.engine.instruction import ReplacementPlace
from gpufleet.kube import resources
from gpufleet.kube.codec.data_copies import data_copies
from gpufleet.kube.codec.field_path import harmless
from gpufleet.kube.codec.lasting_conditions import Distrust, read_distrust
from gpufleet.kube.codec.lookup import Lookup
from gpufleet.kube.codec.node import is_anonymous, read_node
from gpufleet.kube.kube_errors import ObjectError
from gpufleet.kube.meanings.taken_back import is_taken_back
from gpufleet.kube.mirror_changes import Appeared, Changed, Listed, Unreadable, Vanished
from gpufleet.kube.objects import node as wire
from gpufleet.kube.objects.node_devices import NodeDevices
from gpufleet.kube.objects.storage import VolumeAttachment
from gpufleet.model.data import DataCopy
from gpufleet.model.device import Device
from gpufleet.model.identifiers import DeviceId, NodeName, PodUid
from gpufleet.model.model_errors import printable
from gpufleet.model.node import Node
from gpufleet.model.pod import Pod
from gpufleet.model.volumes import Attachment

LOG = logging.getLogger(__name__)


class OnNodes(Protocol):
    """What the pods of nodes hold: ``pods`` knows."""

    def held_on(self, node: NodeName) -> HeldOnNode:
        """What the pods of a node hold."""
        ...

    def promised_on(self, node: NodeName) -> tuple[DeviceId, ...]:
        """The devices of pods that are on their way to a node."""
        ...

    def granted_on(self, node: NodeName) -> frozenset[DeviceId]:
        """What the unfinished pods of a node were granted."""
        ...

    def unknown_on(self, node: NodeName) -> UnknownHeld:
        """What a node reports as held by pods that the API does not know there."""
        ...

    def waiting_pod(self, uid: PodUid) -> Pod | None:
        """A pod that waits, as it is understood."""
        ...

    def node_read(self, node: NodeName, *, taken_back: bool) -> None:
        """Hear whether a node goes away for good within minutes."""
        ...


class NoPods:
    """Nodes on which nothing runs."""

    def held_on(self, _node: NodeName) -> HeldOnNode:
        """Nothing is held where pods are not known yet."""
        return HeldOnNode()

    def promised_on(self, _node: NodeName) -> tuple[DeviceId, ...]:
        """No device is promised where pods are not known yet."""
        return ()

    def granted_on(self, _node: NodeName) -> frozenset[DeviceId]:
        """No device is granted where pods are not known yet."""
        return frozenset()

    def unknown_on(self, _node: NodeName) -> UnknownHeld:
        """No holder is unknown where pods are not known yet."""
        return UnknownHeld()

    def waiting_pod(self, _uid: PodUid) -> None:
        """No pod waits where pods are not known yet."""

    def node_read(self, _node: NodeName, *, taken_back: bool) -> None:
        """No pod is on the node."""


class NodeTracker:
    """What the engine knows of each node."""

    def __init__(self, cluster: Lookup) -> None:
        self.cluster = cluster
        self.distrusted_before: dict[NodeName, Distrust] = {}
        self.known: dict[NodeName, Node] = {}
        self.problems: dict[NodeName, str] = {}
        self.unread_reports: dict[NodeName, str] = {}
        self.pods: OnNodes = NoPods()
        self.kept = KeptNodes()
        # Nodes of which the words of an earlier leader were taken in; kept apart from ``known``, which lacks
        # nodes that cannot be read.
        self._seen: set[NodeName] = set()
        # None once it was asked for: later conditions are our own words.
        self._kept_before: list[ReplacementPlace] | None = []
        self._offered_since: dict[NodeName, str] = {}
        self._attachments: dict[NodeName, dict[str, VolumeAttachment]] = {}
        self._unreadable: dict[NodeName, str] = {}
        # Devices of the last report that was believed: what a node keeps when its report goes away.
        self._last: dict[NodeName, tuple[Device, ...]] = {}
        self._lacking: dict[NodeName, list[DeviceId]] = {}
        # Which node shows a device now; a device is never shown by two, or it would be given twice.
        self._shown_by: dict[DeviceId, NodeName] = {}
        self._unknown: dict[NodeName, UnknownHeld] = {}
        self.claims = DisputedDevices(
            lambda name: cluster.find(resources.NODES, name) is not None,
            self._granted_on,
        )
        self._renamed: set[NodeName] = set()
        self._cuts = CutsForPods(cluster, self._waiting_pod)

    @property
    def unreported_count(self) -> int:
        """How many nodes get no work with GPUs for want of a report."""
        return sum(node.unreported for node in self.known.values())

    def reporting(self) -> list[NodeName]:
        """The nodes of which an agent reports the GPUs, readably."""
        return [
            name
            for name in self.known
            if name not in self._unreadable and self.cluster.find(resources.NODE_DEVICES, name) is not None
        ]

    def _granted_on(self, name: NodeName) -> frozenset[DeviceId]:
        """Devices that unfinished pods of a node were granted. Each call reads ``pods``: it is set later."""
        return self.pods.granted_on(name)

    def _waiting_pod(self, uid: PodUid) -> Pod | None:
        """A pod that waits. Each call reads ``pods``: it is set later."""
        return self.pods.waiting_pod(uid)

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

    def hear_report(self, name: NodeName, change: Any) -> set[NodeName]:
        """The node's report changed, or cannot be read any more, or can again: other nodes it concerns."""
        if isinstance(change, Unreadable):
            self._unreadable[name] = f"NodeDevices {harmless(name)}: {printable(change.problem)}"
        # Listed says nothing of a single report; any other change means that it is readable again, or gone.
        elif not isinstance(change, Listed):
            self._unreadable.pop(name, None)
        match change:
            case Appeared(found) | Changed(_, found):
                return self.claims.report(name, found)
            case _:
                return self.claims.without_report(name, ())

    def take_kept(self, now_us: int) -> list[NodeName]:
        """The nodes that are kept for chosen work since this was asked, or no longer are."""
        changed = self.kept.take_changed(now_us)
        found = self.cluster.all(resources.NODES) if changed else ()
        kept = [one for one in found if joined_at_us(one) >= changed.get(group_of(one), math.inf)]
        return [NodeName(one.metadata.name) for one in kept]

    def joining(self) -> dict[str, list[PodUid]]:
        """The nodes that joined for chosen work that still waits, and that work."""
        if not self.kept.keeps_any:
            return {}
        joined = {one.metadata.name: self.kept.joined_for(one) for one in self.cluster.all(resources.NODES)}
        return {name: uids for name, uids in joined.items() if uids}

    def depends_on(self, name: NodeName, devices: set[DeviceId]) -> bool:
        """Whether pods with these devices, which came or went, change what the node has to give."""
        known = self.known.get(name)
        # Here devices are shown for the sake of pods, so every pod that comes or goes counts.
        if known is None or known.unreported or name in self._lacking:
            return known is not None
        if self.claims.shared(name) or self._unknown.get(name, UnknownHeld()) != self.pods.unknown_on(name):
            return True
        if not devices:
            return False
        # A device that the node shows anyway is booked by the engine itself; only an unknown one changes the
        # node.
        shown = {device.id for device in known.devices}
        return any(one not in shown and not is_anonymous(one) for one in devices)

    def update(self, name: NodeName) -> list[Event]:
        """One of a node's objects changed: what that means for the engine."""
        written = self.cluster.find(resources.NODES, name)
        taints = () if written is None else written.spec.taints
        self.pods.node_read(name, taken_back=is_taken_back(taint.key for taint in taints))
        if written is None:
            return self._forget(name)
        devices = self.cluster.find(resources.NODE_DEVICES, name)
        # Before the node is read: whether it may show a device depends on the claims of all.
        concerned = self._claim_grants(name, devices) | self._cuts.hear(name, written, devices)
        own = [*self._recalled(name, written), *self._offered(name, devices)]
        changed = self._update_own(name, written, devices)
        own += [*changed, *(self._cuts.room_made(name) if changed else ())]
        # Sorted, because a set has another order in each process, and a rerun needs the same one.
        return [*own, *(event for other in sorted(concerned) for event in self.update(other))]

    def _recalled(self, name: NodeName, written: wire.Node) -> list[Event]:
        """What an earlier leader wrote of a node. Once we know the node, the engine knows it better."""
        if name in self._seen:
            return []
        self._seen.add(name)
        if self._kept_before is not None:
            self._kept_before += replacement_records.read(written)
        distrust = read_distrust(written)
        if distrust is None:
            return []
        self.distrusted_before[name] = distrust
        return [NodeDistrustRecalled(name, distrust.until_us, distrust.next_pause_us)]

    def moved_before(self) -> list[Event]:
        """The places that an earlier leader kept for moved pods, once.

        What stands for a moved pod may be immune, so this comes before what is said of immunity.
        """
        kept, self._kept_before = self._kept_before, None
        return [ReplacementsRecalled(tuple(kept))] if kept else []

    def _offered(self, name: NodeName, report: NodeDevices | None) -> list[Event]:
        """Since when the node's kubelet knows of the devices, where its report says so anew."""
        since = self._offered_since.get(name)
        if report is None or report.spec.offered_since == since:
            return []
        self._offered_since[name] = report.spec.offered_since
        return [DevicesOffered(name, report.spec.offered_since)]

    def _claim_grants(self, name: NodeName, report: NodeDevices | None) -> set[NodeName]:
        """A node without a readable report claims what its pods were granted: other nodes it concerns."""
        # A readable report claims for itself; grants speak only where there is none.
        if report is not None and report.spec.devices and name not in self._unreadable:
            return set()
        return self.claims.without_report(name, self.pods.granted_on(name))

    def _update_own(self, name: NodeName, written: wire.Node, report: NodeDevices | None) -> list[Event]:
        """What a node's objects mean for itself, and for those that showed what it has."""
        try:
            node = self._read(name, written, report)
            node = self.kept.read(written, msgspec.structs.replace(node, data=self._data(name)))
        except ObjectError as problem:
            self._report(name, str(problem))
            return []
        # Most changes of a Node are heartbeats, which change nothing that the engine knows.
        if self.known.get(name) == node:
            return []
        # This and the steps below compare with what was known, so they come before it is replaced.
        self._tell(name, node)
        before = self.known.get(name)
        if before is not None and {one.id for one in before.devices} != {one.id for one in node.devices}:
            self._renamed.add(name)
        self._release(name, {device.id for device in node.devices})
        self.known[name] = node
        # The former owner loses the device before the new one shows it, so that the engine never has it
        # twice.
        return [*self._given_up(node), NodeSet(node)]

    def take_renamed(self, name: NodeName) -> bool:
        """Whether a node shows devices of other names since this was asked."""
        renamed = name in self._renamed
        self._renamed.discard(name)
        return renamed

    def _forget(self, name: NodeName) -> list[Event]:
        # What is kept elsewhere for the same pods is given when those nodes are read next, with a heartbeat.
        self._cuts.hear(name, None, None)
        self.problems.pop(name, None)
        self.unread_reports.pop(name, None)
        self._seen.discard(name)
        self._offered_since.pop(name, None)
        self.distrusted_before.pop(name, None)
        self._last.pop(name, None)
        self._lacking.pop(name, None)
        self._unknown.pop(name, None)
        # A report that is still there keeps its claim: the Node may only have been made anew.
        if self.cluster.find(resources.NODE_DEVICES, name) is None:
            self.claims.without_report(name, ())
        self._release(name, set())
        return [NodeRemoved(name)] if self.known.pop(name, None) is not None else []

    def _release(self, name: NodeName, kept: set[DeviceId]) -> None:
        """What a node showed and does not keep may be another node's."""
        known = self.known.get(name)
        for device in () if known is None else known.devices:
            if device.id not in kept and self._shown_by.get(device.id) == name:
                del self._shown_by[device.id]

    def _claimed(self, name: NodeName) -> str:
        """Why a report is not believed: it names a device that another node has; else empty."""
        rival = self.claims.rival(name)
        if rival is None:
            return ""
        return (
            f"NodeDevices {harmless(name)}: spec.devices names {printable(rival.device)}, which is a device "
            f"of node {harmless(rival.node)} by a pod's grant or an older report: correct the report of the "
            "node that does not have it"
        )

    def _read(self, name: NodeName, written: wire.Node, report: NodeDevices | None) -> Node:
        """The node as its objects and its pods tell it. Raises ObjectError where the Node cannot be read."""
        csi = self.cluster.find(resources.CSI_NODES, name)
        attached = tuple(self._attached(name))
        held = self.pods.held_on(name)
        problem = self._unreadable.get(name, "")
        if report is not None and not problem:
            try:
                node = read_node(written, report, csi, attached)
            except ObjectError as bad:
                problem = str(bad)
            else:
                # A report can be well written and still name another node's device.
                problem = self._claimed(name)
                # An empty report is not believed where pods hold devices by id: they cannot hold what is not
                # there.
                if not problem and (node.devices or not held.by_id):
                    self.problems.pop(name, None)
                    self._report_unread(name, "")
                    return self._reported(name, node, written, report, held)
        node = read_node(written, None, csi, attached)
        self._lacking.pop(name, None)
        self.problems.pop(name, None)
        self._report_unread(name, problem)
        # Each of these says that this node's GPUs are named; a node without any of them is one of a plain
        # device plugin, which only counts.
        if problem or report is not None or held.by_id or agent_reports(written):
            others = self._of_others(name)
            last = [one for one in self._last.get(name, ()) if not others(one.id)]
            # A grant may be forged or old: what another node shows is not shown here for its sake.
            own = [one for one in held.ids if not others(one)]
            kept = msgspec.structs.replace(held, ids=tuple(own), promised=self.pods.promised_on(name))
            return unreported(node, written, kept, last)
        # Devices of a report that nothing refers to any more would come back when an agent is installed
        # again.
        self._last.pop(name, None)
        return node

    def _data(self, name: NodeName) -> tuple[DataCopy, ...]:
        """The models and datasets in the node's folders; none where its agent reads no folders."""
        report = self.cluster.find(resources.NODE_DATA, name)
        return () if report is None else data_copies(report)

    def _of_others(self, name: NodeName) -> Callable[[DeviceId], bool]:
        """Tells of the devices of a node without a readable report which are another node's."""
        shared, beaten = self.claims.shared(name), self.claims.rival(name) is not None
        return lambda one: beaten if one in shared else self._shown_by.get(one, name) != name

    def _reported(
        self, name: NodeName, node: Node, written: wire.Node, report: NodeDevices, held: HeldOnNode
    ) -> Node:
        # Before anything is added or closed below: the next fallback starts from what was reported.
        self._last[name] = node.devices
        # Told with each change, but not when the last of them is gone.
        if self._unknown.get(name, UnknownHeld()) != held.unknown != UnknownHeld():
            LOG.warning(
                "devices are given to no pod while they are held by what no pod's request is charged for",
                extra={
                    "node": str(name),
                    "devices": [printable(one) for one in sorted(held.unknown.devices)],
                    "instances": [
                        printable(f"{one.resource} of {one.device}") for one in held.unknown.instances
                    ],
                },
            )
        self._unknown[name] = held.unknown
        node = with_cuts_to_come(with_unknown(node, held), written, report)
        node = self._cuts.without_kept(name, node)
        lacking = missing(held.ids, node.devices)
        if not lacking:
            self._lacking.pop(name, None)
            return node
        if self._lacking.get(name) != lacking:
            LOG.warning(
                "the report of a node lacks devices that its pods hold",
                extra={"node": str(name), "devices": [printable(one) for one in lacking]},
            )
        self._lacking[name] = lacking
        taken = frozenset(one for one in lacking if self._shown_by.get(one, name) != name)
        promised = msgspec.structs.replace(held, promised=self.pods.promised_on(name))
        return with_missing(node, written, promised, taken)

    def _given_up(self, node: Node) -> list[Event]:
        """What this node has is no other node's: those that showed it until now do so no more."""
        events: list[Event] = []
        for device in node.devices:
            owner = self._shown_by.get(device.id)
            # Set before the former owner is read again, which then no longer shows the device.
            self._shown_by[device.id] = node.name
            if owner not in {None, node.name}:
                events += self.update(NodeName(str(owner)))
        return events

    def _tell(self, name: NodeName, node: Node) -> None:
        """Say in the log when a node stops to report its GPUs, and when it does so again."""
        before = self.known.get(name)
        was = before is not None and before.unreported
        if node.unreported and not was:
            words = "a node does not report its GPUs: no pod that asks for any is placed there until it does"
            LOG.warning(words, extra={"node": str(name)})
        elif was and not node.unreported:
            LOG.info("a node reports its GPUs again", extra={"node": str(name)})

    def shown(self, name: NodeName) -> frozenset[DeviceId]:
        """The ids of a node's devices as the engine knows them; none of a node that is gone."""
        node = self.known.get(name)
        return frozenset() if node is None else frozenset(device.id for device in node.devices)

    def devices(self, name: NodeName, ids: Sequence[DeviceId]) -> list[Device]:
        """The devices of a node by their ids, in the order of the ids."""
        by_id = {device.id: device for device in self.known[name].devices}
        return [by_id[one] for one in ids]

    def _report_unread(self, name: NodeName, problem: str) -> None:
        """Note why a node's report cannot be read; "" if it can, or there is none."""
        if not problem:
            self.unread_reports.pop(name, None)
            return
        if self.unread_reports.get(name) != problem:
            LOG.error("a node's report cannot be read", extra={"node": str(name), "problem": problem})
        self.unread_reports[name] = problem

    def _report(self, name: NodeName, problem: str) -> None:
        if self.problems.get(name) != problem:
            LOG.error("a node cannot be read", extra={"node": str(name), "problem": problem})
        self.problems[name] = problem
