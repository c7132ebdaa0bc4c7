"""The fleet with nodes of some types beside it, as facts for one judgement after the other.

A large fleet takes seconds to be read, and a search judges it again and again with other numbers of new
nodes. So the fleet is read once, and its trackers are told of new nodes as a watch would tell them. What they
say is kept: node three of a type is read once, however often three or more of that type are judged.
"""

import copy
from collections.abc import Sequence

import msgspec

from gpufleet.cluster.facts import Facts
from gpufleet.cluster.watching.change_queue import Seen
from gpufleet.cluster.watching.picture import Picture
from gpufleet.engine.event import DevicesOffered, Event, NodeSet
from gpufleet.kube import resources
from gpufleet.kube.mirror_changes import Appeared
from gpufleet.whatif.nodes import add_nodes
from gpufleet.whatif.request import AddNodes

KINDS = (resources.NODES, resources.NODE_DEVICES, resources.CSI_NODES)


class PurchasedNodes:
    """One fleet, and what is said of the new nodes of each type.

    ``facts`` are those of the fleet without new nodes. ``wanted`` describes one node of each type.
    """

    def __init__(self, facts: Facts, wanted: Sequence[AddNodes]) -> None:
        self._facts = facts
        self._wanted = tuple(wanted)
        self._before = facts.picture.copied()
        self._events: list[list[Event]] = [[] for _ in self._wanted]

    def facts_with(self, counts: Sequence[int]) -> Facts | None:
        """The facts with so many nodes of each type.

        None where new nodes change more than themselves, as the levels of a topology: the fleet is then to be
        read anew with them.
        """
        if self._facts.gangs.levels():
            return None
        new: list[Event] = []
        for index, count in enumerate(counts):
            if count and not self._know(index, count):
                return None
            ends = [at for at, event in enumerate(self._events[index], 1) if isinstance(event, NodeSet)]
            new += self._events[index][: ends[count - 1]] if count else ()
        first, *later = self._facts.waves
        # With the nodes of the fleet: gangs and pods come after all nodes.
        place = 1 + max((at for at, event in enumerate(first) if isinstance(event, NodeSet)), default=-1)
        if new and not place:
            return None
        changed = copy.copy(self._facts)
        changed.waves = [[*first[:place], *new, *first[place:]], *later]
        return changed

    def _know(self, index: int, count: int) -> bool:
        """Let the trackers read nodes of a type until so many are known; whether each is news of itself
        alone: first which devices it offers, then itself.
        """
        known = self._events[index]
        nodes = sum(isinstance(event, NodeSet) for event in known)
        if nodes < count:
            wanted = msgspec.structs.replace(self._wanted[index], count=count)
            said = self._facts.appeared(_seen(self._before, wanted, nodes))
            known += said
            nodes += sum(isinstance(event, NodeSet) for event in said)
        return nodes >= count and all(isinstance(event, (DevicesOffered, NodeSet)) for event in known)


def _seen(before: Picture, wanted: AddNodes, known: int) -> list[Seen]:
    """The objects of new nodes beyond those that are known, as a watch tells of them."""
    picture = before.copied()
    add_nodes(picture, wanted)
    names = [
        key for key in picture.objects[resources.NODES] if key not in before.objects.get(resources.NODES, {})
    ]
    return [
        Seen(kind, Appeared(picture.objects[kind][key]))
        for key in names[known:]
        for kind in KINDS
        if key in picture.objects.get(kind, {})
    ]
