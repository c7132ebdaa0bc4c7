"""What the engine starts with the nodes of some options, and would not start without them.

The fleet is read once for a question; nodes that were chosen before and are still coming count as there.
"""

import datetime as dt
import time
from collections.abc import Collection, Sequence
from functools import partial

import msgspec

from gpufleet.cluster.facts import Facts
from gpufleet.cluster.settings import Settings
from gpufleet.cluster.snapshots.decisions import Moment
from gpufleet.cluster.snapshots.document import engine_time_us
from gpufleet.cluster.watching.picture import Picture
from gpufleet.expander.coming_nodes import ComingNodes
from gpufleet.expander.protocol.question import Option
from gpufleet.expander.template_nodes import template_of
from gpufleet.kube.objects.node import Node
from gpufleet.model.identifiers import PodUid
from gpufleet.model.model_errors import WorldError
from gpufleet.model.pod import Pod
from gpufleet.plan.purchased_nodes import PurchasedNodes
from gpufleet.plan.waiting_work import late_pods, on_time
from gpufleet.whatif.course import Course
from gpufleet.whatif.nodes import NodeTemplate, add_copies

NAMES = "of-expander-{}"
"""How the names of an option's nodes begin, while they are judged."""


class Seen(msgspec.Struct, frozen=True):
    """The cluster at one moment, and the scheduler's settings there."""

    picture: Picture
    settings: Settings
    at: dt.datetime


class Judgement:
    """One question. ``ends_at_s`` is when the autoscaler waits no longer, by the monotonic clock."""

    def __init__(
        self, seen: Seen, options: Sequence[Option], coming: Sequence[ComingNodes], ends_at_s: float
    ) -> None:
        self._ends_at_s = ends_at_s
        self._seen = seen
        self._now_us = engine_time_us(seen.at)
        self._option_counts = [one.node_count for one in options]
        offered = {pod.uid for one in options for pod in one.pods}
        still = [(one, one.still_coming(seen.picture, offered, seen.at)) for one in coming]
        self.coming = tuple(one for one, count in still if count)
        self._coming_counts = [count for _, count in still if count]
        nodes = [*(one.node for one in options), *(one.node for one in self.coming)]
        types = [self._adding(index, node) for index, node in enumerate(nodes)]
        facts = Facts(seen.picture.copied(), seen.settings, Moment(seen.at))
        self._read_once = PurchasedNodes(facts, types)
        base = self._course(())
        late = late_pods(base, self._now_us)
        self.pods: dict[PodUid, Pod] = {uid: base.meanings[uid] for uid in late if uid in base.meanings}

    @property
    def coming_nodes(self) -> int:
        """How many nodes count as there though they have not joined."""
        return sum(self._coming_counts)

    def started(self, options: Collection[int]) -> dict[PodUid, int | None]:
        """The pods that start with these options alone, each with the option that its node is of."""
        begins = {NAMES.format(index): index for index in options}
        places = on_time(self._course(options), self.pods, self._now_us)
        return {uid: begins.get(node.rpartition("-")[0]) for uid, node in places.items()}

    def _adding(self, index: int, node: Node) -> "partial[list[str]]":
        return partial(_add, NAMES.format(index), template_of(node, self._seen.picture))

    def _course(self, options: Collection[int]) -> Course:
        if time.monotonic() > self._ends_at_s:
            raise WorldError("the engine needs longer for an answer than the autoscaler waits")
        chosen = [count if at in options else 0 for at, count in enumerate(self._option_counts)]
        counts = [*chosen, *self._coming_counts]
        return Course(self._read_once.facts_of(counts), self._now_us, 0)


def _add(begin: str, template: NodeTemplate, picture: Picture, count: int) -> list[str]:
    return add_copies(picture, template, count, begin)
