"""One pod that waits, with everything that is known of why: what the modules of causes look at."""

import re
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cached_property

from gpufleet.engine.instruction import Verdict
from gpufleet.engine.reason import Reason
from gpufleet.kube import resources
from gpufleet.model.errors import printable
from gpufleet.model.identifiers import NodeName
from gpufleet.model.node import Node
from gpufleet.model.pod import Pod
from gpufleet.model.shape import Shape
from gpufleet.scheduler.places import Entry, Place
from gpufleet.scheduler.questions.answer import Finding
from gpufleet.scheduler.questions.facts import Facts
from gpufleet.scheduler.questions.judgement import ReasonsByNode
from gpufleet.scheduler.questions.rooms import Room, rooms_of

NAMED_MAX = 3
_PLAIN = re.compile(r"[\x20-\x7e]{1,512}")


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
        from gpufleet.engine.hurdles import HEIGHTS, NAMES

        heights = dict(zip(NAMES, (HEIGHTS[one] for one in Reason), strict=True))
        counts = Counter(reasons for reasons in self.by_node.values() if reasons)
        if not counts:
            return ()
        lowest = min(counts, key=lambda one: (sum(heights[name] for name in one), -counts[one], one))
        return tuple(sorted(lowest, key=lambda name: (-heights[name], NAMES.index(name))))

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
    def rooms(self) -> dict[NodeName, Room]:
        """What is free on every node."""
        return rooms_of(self.nodes, self.placed)

    @cached_property
    def near_rooms(self) -> list[Room]:
        """What is free on the nodes that need the least change."""
        return [self.rooms[node.name] for node in self.near]

    def labels_of(self, namespace: str) -> dict[str, str]:
        """The labels of a namespace."""
        found = self.facts.picture.find(resources.NAMESPACES, namespace)
        return {} if found is None else found.metadata.labels


Explain = Callable[[Case], Finding]
"""Puts words to one reason."""


def listed(names: Iterable[str], most: int = NAMED_MAX) -> str:
    """Some names and how many more: "a, b and 3 more". What could forge a line is quoted."""
    every = [name if _PLAIN.fullmatch(name) else printable(name) for name in names]
    if len(every) <= most:
        return " and ".join([", ".join(every[:-1]), every[-1]]) if len(every) > 1 else "".join(every)
    return f"{', '.join(every[:most])} and {len(every) - most} more"


def end(number: int) -> str:
    """The verb for so many pods."""
    return "ends" if number == 1 else "end"


def counted(number: int, noun: str) -> str:
    """A number with its noun: "1 node", "3 nodes"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
