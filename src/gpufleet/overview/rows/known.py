"""What is known of a cluster at one moment: objects, measured use, and what the engine says.

Each part may be missing; ``unread`` has a sentence for each part that is, by its name in ``FleetPart``.
"""

import dataclasses
import datetime as dt
import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from gpufleet.kube.objects.node import Node
from gpufleet.kube.objects.node_devices import NodeDevices
from gpufleet.kube.objects.pod import Pod
from gpufleet.overview.rows.engine_report import EngineReport
from gpufleet.usage.agent_use import NodeUse

Key = tuple[str, str]
"""The namespace, "" for objects of the cluster, and the name of an object."""


class FleetPart(enum.Enum):
    """A part of what is known, in the words of messages."""

    PODS = "pods"
    NODES = "nodes"
    DEVICES = "nodedevices"
    ENGINE = "reasons"
    USE = "use"


@dataclass(frozen=True)
class Known:
    """The parts, and when they were looked at. ``before`` has earlier measurements, by node.

    ``quiet_since_s`` says since when a pod was seen without use, in seconds since 1970.
    """

    now: dt.datetime
    scheduler_name: str
    pods: Mapping[Key, Pod] = field(default_factory=dict)
    nodes: Mapping[Key, Node] = field(default_factory=dict)
    devices: Mapping[Key, NodeDevices] = field(default_factory=dict)
    engine_report: EngineReport | None = None
    use: Mapping[str, NodeUse] = field(default_factory=dict)
    before: Mapping[str, NodeUse] = field(default_factory=dict)
    quiet_since_s: Mapping[Key, float] = field(default_factory=dict)
    unread: Mapping[FleetPart, str] = field(default_factory=dict)
    namespaces: tuple[str, ...] = ()

    def reads(self, part: FleetPart) -> bool:
        """Whether the part was read, at least once."""
        return part not in self.unread

    def without(self, part: FleetPart, why: str) -> "Known":
        """What is known, as a person without the right to read a part knows it."""
        return dataclasses.replace(self, unread={**self.unread, part: why})

    @property
    def has_all_pods(self) -> bool:
        """Whether the pods of all namespaces were read."""
        return self.reads(FleetPart.PODS) and not self.namespaces

    def with_report(self, engine_report: EngineReport) -> "Known":
        """What is known, with another answer of the engine."""
        return dataclasses.replace(self, engine_report=engine_report)

    def shows(self, namespace: str) -> bool:
        """Whether objects of a namespace are wanted; all are where none is named."""
        return not self.namespaces or namespace in self.namespaces
