"""The fleet with nodes of some types beside it, as facts for one judgement after the other.

A large fleet takes seconds to be read, and a search judges it again and again with other numbers of new
nodes. So the fleet is read once, and its trackers are told of new nodes as a watch would tell them. What they
say is kept: node three of a type is read once, however often three or more of that type are judged.
"""

import copy
from collections.abc import Callable, Sequence

from gpufleet.cluster.facts import Facts
from gpufleet.cluster.watching.change_queue import Seen
from gpufleet.cluster.watching.picture import Picture
from gpufleet.engine.event import DevicesOffered, Event, NodeSet
from gpufleet.kube import resources
from gpufleet.kube.mirror_changes import Appeared

KINDS = (resources.NODES, resources.NODE_DEVICES, resources.CSI_NODES)

Adding = Callable[[Picture, int], object]
"""Puts so many new nodes of a type into a picture; the first ones are the same however many there are."""


class PurchasedNodes:
    """One fleet, and what is said of the new nodes of each type.

    ``facts`` are those of the fleet without new nodes.
    """

    def __init__(self, facts: Facts, types: Sequence[Adding]) -> None:
        self._facts = facts
        self._types = tuple(types)
        self._before = facts.picture.copied()
        self._said: list[list[list[Event]]] = [[] for _ in self._types]
        """What the engine hears of each new node, by type."""

        self._says_more = bool(facts.gangs.levels())
        """Whether a new node is news of more than itself: what is kept is then not all of it."""

    def facts_of(self, counts: Sequence[int]) -> Facts:
        """The facts with so many nodes of each type, read anew where new nodes change more than these."""
        return self.facts_with(counts) or self.read_anew(self._before.copied(), counts)

    def read_anew(self, picture: Picture, counts: Sequence[int]) -> Facts:
        """The facts of another picture, into which so many nodes of each type are put."""
        for add, count in zip(self._types, counts, strict=True):
            if count:
                add(picture, count)
        return Facts(picture, self._facts.settings, self._facts.clock)

    def facts_with(self, counts: Sequence[int]) -> Facts | None:
        """The facts with so many nodes of each type.

        None where new nodes change more than themselves, as the levels of a topology: the fleet is then to be
        read anew with them.
        """
        for index, count in enumerate(counts):
            if len(self._said[index]) < count and not self._says_more:
                self._read(index, count)
        if self._says_more:
            return None
        of_nodes = (said[:count] for said, count in zip(self._said, counts, strict=True))
        new = [event for nodes in of_nodes for node in nodes for event in node]
        first, *later = self._facts.waves
        # With the nodes of the fleet: gangs and pods come after all nodes.
        place = 1 + max((at for at, event in enumerate(first) if isinstance(event, NodeSet)), default=-1)
        if new and not place:
            return None
        changed = copy.copy(self._facts)
        changed.waves = [[*first[:place], *new, *first[place:]], *later]
        return changed

    def _read(self, index: int, count: int) -> None:
        """Let the trackers read nodes of a type until so many are known. Of each they say which devices it
        offers, and then the node itself.
        """
        known = self._said[index]
        seen = _seen(self._before, self._types[index], count, len(known))
        of_node: list[Event] = []
        for event in self._facts.appeared(seen):
            self._says_more |= not isinstance(event, (DevicesOffered, NodeSet))
            of_node.append(event)
            if isinstance(event, NodeSet):
                known.append(of_node)
                of_node = []
        self._says_more |= len(known) < count


def _seen(before: Picture, add: Adding, count: int, known: int) -> list[Seen]:
    """The objects of new nodes beyond those that are known, as a watch tells of them."""
    picture = before.copied()
    add(picture, count)
    old = before.objects.get(resources.NODES, {})
    names = [key for key in picture.objects[resources.NODES] if key not in old]
    return [
        Seen(kind, Appeared(picture.objects[kind][key]))
        for key in names[known:]
        for kind in KINDS
        if key in picture.objects.get(kind, {})
    ]
