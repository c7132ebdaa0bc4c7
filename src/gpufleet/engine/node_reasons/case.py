"""One pod that waits, with all that the engine knows of why: what the words of a reason are made from."""

from collections import Counter
from collections.abc import Mapping
from functools import cached_property

import msgspec

from gpufleet.engine.node_reasons.free_room import FreeRoom, PlacedPod, free_room_of
from gpufleet.engine.node_reasons.object_details import NoObjectDetails, ObjectDetails
from gpufleet.model.gpu_unit import GpuUnit, gpu_unit
from gpufleet.model.identifiers import NodeName
from gpufleet.model.node import Node
from gpufleet.model.phrases import listed
from gpufleet.model.pod import Pod
from gpufleet.model.shape import Shape

MODELS_NAMED_MAX = 5
"""Of more models a person reads only the first."""

ReasonsByNode = Mapping[NodeName, tuple[str, ...]]
"""The names of every node's reasons, the first to be told first; none for a node that would do."""


class Finding(msgspec.Struct, frozen=True):
    """A reason in words, and the ways out of it, the nearest first."""

    why: str
    way_out: tuple[str, ...] = ()


class Case:
    """A pod that fits on no node now.

    ``by_node`` has every node's reasons against it, ``lacking`` those of the nodes that need the least
    change, the hardest first. ``placed`` are all pods that have a node, ``namespaces`` the labels of
    namespaces, ``words`` those of each reason by its name.
    """

    def __init__(
        self,
        pod: Pod,
        by_node: ReasonsByNode,
        lacking: tuple[str, ...],
        nodes: list[Node],
        placed: list[PlacedPod],
        namespaces: Mapping[str, dict[str, str]],
        details: ObjectDetails | None = None,
        words: Mapping[str, str] | None = None,
    ) -> None:
        self.pod = pod
        self.by_node = by_node
        self.lacking = lacking
        self.nodes = nodes
        self.placed = placed
        self.namespaces = namespaces
        self.details: ObjectDetails = details or NoObjectDetails()
        self.words = words or {}

    @property
    def shape(self) -> Shape:
        """What the pod asks for."""
        return self.pod.shape

    @cached_property
    def near(self) -> list[Node]:
        """The nodes that need the least change."""
        wanted = set(self.lacking)
        return [node for node in self.nodes if set(self.by_node.get(node.name, ())) == wanted]

    @cached_property
    def unit(self) -> GpuUnit:
        """What the nodes that need the least change give out as GPUs."""
        return gpu_unit(self.near)

    @property
    def near_names(self) -> str:
        """The nodes that need the least change, by name."""
        return listed(node.name for node in self.near)

    @cached_property
    def rooms(self) -> dict[NodeName, FreeRoom]:
        """What is free on every node."""
        return free_room_of(self.nodes, self.placed)

    @cached_property
    def near_rooms(self) -> list[FreeRoom]:
        """What is free on the nodes that need the least change."""
        return [self.rooms[node.name] for node in self.near]

    @cached_property
    def gpus_by_model(self) -> Counter[str]:
        """How many GPUs of each model the cluster has."""
        return Counter(str(device.model) or "unknown" for node in self.nodes for device in node.devices)

    @property
    def gpus_of_its_resource_in_words(self) -> str:
        """The models that can be asked for by the name that the pod uses, the most frequent first."""
        asked = self.shape.gpu_resource
        nodes = [node for node in self.nodes if not asked or asked in node.gpu_resources] or self.nodes
        models = Counter(str(device.model) or "unknown" for node in nodes for device in node.devices)
        return listed((f"{model} ({count})" for model, count in models.most_common()), MODELS_NAMED_MAX)

    @property
    def gpus_in_words(self) -> str:
        """The models that the cluster has, the most frequent first."""
        by_model = self.gpus_by_model.most_common()
        return listed((f"{model} ({count})" for model, count in by_model), MODELS_NAMED_MAX)

    def labels_of(self, namespace: str) -> dict[str, str]:
        """The labels of a namespace."""
        return self.namespaces.get(namespace, {})
