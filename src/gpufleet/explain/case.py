"""One pod that waits, with everything that is known of why: what the modules of causes look at."""

from collections import Counter
from collections.abc import Callable
from functools import cached_property

from gpufleet.cluster.facts import Facts
from gpufleet.cluster.pods.pod_entry import Entry, Place
from gpufleet.engine.instruction import Verdict
from gpufleet.engine.place.refusal.hurdles import lowest
from gpufleet.engine.reasons.table import TABLE
from gpufleet.explain.answer import Finding
from gpufleet.explain.engine_answer import ReasonsByNode
from gpufleet.explain.free_room import FreeRoom, free_room_of
from gpufleet.kube import resources
from gpufleet.model.identifiers import NodeName
from gpufleet.model.node import Node
from gpufleet.model.pod import Pod
from gpufleet.model.shape import Shape


class Case:
    """A pod that fits on no node now. ``by_node`` has every node's reasons against it."""

    def __init__(
        self, facts: Facts, entry: Entry, meaning: Pod, verdict: Verdict, by_node: ReasonsByNode
    ) -> None:
        self.facts = facts
        self.entry = entry
        self.meaning = meaning
        self.verdict = verdict
        self.by_node = by_node

    @property
    def shape(self) -> Shape:
        """What the pod asks for."""
        return self.meaning.shape

    @cached_property
    def hurdle(self) -> tuple[str, ...]:
        """The reasons of the nodes that need the least change, the hardest first.

        By the same measure as in a verdict, but of the reasons given here: those of a gang's next member
        hold when the others have their place.
        """
        counts = Counter(reasons for reasons in self.by_node.values() if reasons)
        bits = {sum(TABLE.by_name[name].bit for name in one): nodes for one, nodes in counts.items()}
        found = lowest(bits)
        return () if found is None else found.reasons

    @cached_property
    def near(self) -> list[Node]:
        """The nodes that need the least change."""
        wanted = set(self.hurdle)
        return [node for node in self.nodes if set(self.by_node.get(node.name, ())) == wanted]

    @cached_property
    def nodes(self) -> list[Node]:
        """All nodes by name."""
        return sorted(self.facts.nodes.known.values(), key=lambda node: node.name)

    @cached_property
    def placed(self) -> list[Entry]:
        """All pods that have a node."""
        return [entry for entry in self.facts.pods.entries.values() if entry.place is Place.PLACED]

    @cached_property
    def rooms(self) -> dict[NodeName, FreeRoom]:
        """What is free on every node."""
        return free_room_of(self.nodes, self.placed)

    @cached_property
    def near_rooms(self) -> list[FreeRoom]:
        """What is free on the nodes that need the least change."""
        return [self.rooms[node.name] for node in self.near]

    def labels_of(self, namespace: str) -> dict[str, str]:
        """The labels of a namespace."""
        found = self.facts.picture.find(resources.NAMESPACES, namespace)
        return {} if found is None else found.metadata.labels


Explain = Callable[[Case], Finding]
"""Puts words to one reason."""
