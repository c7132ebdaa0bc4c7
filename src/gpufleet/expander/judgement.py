"""What the engine starts with the nodes of some options, and would not start without them.

The fleet is read once for a question; nodes that were chosen before and are still coming count as there.
"""

import datetime as dt
import time
from collections.abc import Collection, Sequence
from functools import partial

import msgspec

from gpufleet.cluster.facts import Facts
from gpufleet.cluster.nodes.kept_nodes import TOLERATION
from gpufleet.cluster.pods.pod_entry import PodStage
from gpufleet.cluster.settings import Settings
from gpufleet.cluster.snapshots.decisions import Moment
from gpufleet.cluster.snapshots.document import engine_time_us
from gpufleet.cluster.waiting_reasons import UNSCHEDULABLE, is_postponed
from gpufleet.cluster.watching.picture import Picture
from gpufleet.expander.coming_nodes import JOINS_WITHIN, ComingNodes, Offered, still_coming
from gpufleet.expander.protocol.question import Option
from gpufleet.expander.template_nodes import template_of
from gpufleet.kube.codec.chosen_nodes import NodesComing, read_chosen_nodes
from gpufleet.kube.codec.times import whole_time
from gpufleet.kube.objects import pod as wire
from gpufleet.kube.objects.node import Node, Taint
from gpufleet.model.identifiers import PodUid
from gpufleet.model.model_errors import WorldError
from gpufleet.model.pod import Pod
from gpufleet.model.shape import Shape
from gpufleet.model.taint import PREFER_NO_SCHEDULE
from gpufleet.plan.purchased_nodes import PurchasedNodes
from gpufleet.plan.waiting_work import late_pods, on_time
from gpufleet.whatif.course import Course
from gpufleet.whatif.nodes import NodeTemplate, add_copies

NAMES = "of-expander-{}"
"""How the names of an option's nodes begin, while they are judged."""


OFFERED = "gpufleet.io/offered-node"
"""The taint of new nodes that are only a possibility."""


class Seen(msgspec.Struct, frozen=True):
    """The cluster at one moment, and the scheduler's settings there."""

    picture: Picture
    settings: Settings
    at: dt.datetime


class Start(msgspec.Struct, frozen=True):
    """Where a pod starts: its node, and the option that this is of; None for a node that is there."""

    node: str
    option: int | None


class Judgement:
    """One question. ``ends_at_s`` is when the autoscaler waits no longer, by the monotonic clock."""

    def __init__(
        self, seen: Seen, options: Sequence[Option], coming: Sequence[ComingNodes], ends_at_s: float
    ) -> None:
        self._ends_at_s = ends_at_s
        self._seen = seen
        self._now_us = engine_time_us(seen.at)
        self._option_counts = [one.node_count for one in options]
        facts = Facts(seen.picture.copied(), seen.settings, Moment(seen.at))
        entries = [one for one in facts.pods.entries.values() if one.place is PodStage.WAITING]
        self.waiting = {entry.name.uid: entry.object for entry in entries}
        offered = _offered(facts, options, self._now_us)
        waited_for = [one for one in coming if one.pods & offered.kinds.keys()]
        self.shown = offered.kinds.keys() | offered.pods
        self._coming_counts, is_unclear = still_coming(waited_for, offered, seen.picture, seen.at)
        self.coming = tuple(waited_for)
        types = [
            *(self._adding(index, _offered_node(one.node)) for index, one in enumerate(options)),
            *(
                self._adding(len(options) + index, _coming_node(one.node, seen.at))
                for index, one in enumerate(self.coming)
            ),
        ]
        self._read_once = PurchasedNodes(facts, types)
        base = self._course(())
        late = late_pods(base, self._now_us)
        self.pods: dict[PodUid, Pod] = {uid: base.meanings[uid] for uid in late if uid in base.meanings}
        # An autoscaler that has not heard of it yet may still offer such a pod.
        self.postponed = {
            uid
            for uid, pod in self.waiting.items()
            if uid not in offered.pods and is_postponed(pod, self._now_us)
        }
        remembered = frozenset[PodUid]().union(*(one.pods for one in coming))
        said = {uid for uid, pod in self.waiting.items() if _expects_nodes(pod, self._now_us)}
        recent = [one.pods for one in coming if seen.at - one.at <= JOINS_WITHIN]
        # What is remembered may not be written yet, and what was written before a restart is not remembered.
        self.expecting = said.union(*recent) & self.waiting.keys()
        self.kinds = {uid: kind_of(pod) for uid, pod in base.meanings.items()}
        # Of what was chosen before a restart it is not known here what is on its way.
        forgotten = {offered.kinds[uid] for uid in said - remembered if uid in offered.kinds}
        asked = {offered.kinds[uid] for uid in offered.pods if uid in offered.kinds}
        self.is_unclear = is_unclear or not forgotten.isdisjoint(asked)
        self.gangs = {uid: pod.gang for uid, pod in base.meanings.items() if pod.gang is not None}

    @property
    def coming_nodes(self) -> int:
        """How many nodes count as there though they have not joined."""
        return sum(self._coming_counts)

    def started(self, options: Collection[int]) -> dict[PodUid, Start]:
        """The pods that start with these options alone, of those that the autoscaler is asked for."""
        begins = {NAMES.format(index): index for index in options}
        places = on_time(self._course(options), self.pods, self._now_us)
        return {
            uid: Start(node, begins.get(node.rpartition("-")[0]))
            for uid, node in places.items()
            if uid not in self.postponed
        }

    def _adding(self, index: int, node: Node) -> "partial[list[str]]":
        return partial(_add, NAMES.format(index), template_of(node, self._seen.picture))

    def _course(self, options: Collection[int]) -> Course:
        if time.monotonic() > self._ends_at_s:
            raise WorldError("the engine needs longer for an answer than the autoscaler waits")
        chosen = [count if at in options else 0 for at, count in enumerate(self._option_counts)]
        counts = [*chosen, *self._coming_counts]
        return Course(self._read_once.facts_of(counts), self._now_us, 0)


def kind_of(pod: Pod) -> Shape:
    """What is alike for nodes: the shape of a pod, whether or not nodes are kept for it."""
    tolerations = tuple(one for one in pod.shape.tolerations if one != TOLERATION)
    return msgspec.structs.replace(pod.shape, tolerations=tolerations)


def _expects_nodes(pod: wire.Pod, now_us: int) -> bool:
    said = read_chosen_nodes(pod)
    return isinstance(said, NodesComing) and now_us < said.until_us


def _is_shown(pod: wire.Pod, now_us: int) -> bool:
    """Whether an autoscaler is asked for a node; so it is before anything was said of a pod."""
    said = pod.condition(wire.POD_SCHEDULED)
    return (said is None or said.reason == UNSCHEDULABLE) and not is_postponed(pod, now_us)


def _offered(facts: Facts, options: Sequence[Option], now_us: int) -> Offered:
    kinds = {
        uid: kind_of(entry.meaning)
        for uid, entry in facts.pods.entries.items()
        if entry.place is PodStage.WAITING and entry.meaning is not None and _is_shown(entry.object, now_us)
    }
    return Offered(kinds, frozenset(pod.uid for one in options for pod in one.pods))


def _offered_node(node: Node) -> Node:
    """What an option adds: used where nodes that are there or on their way are not enough."""
    taints = (*node.spec.taints, Taint(OFFERED, effect=PREFER_NO_SCHEDULE))
    return msgspec.structs.replace(
        node,
        metadata=msgspec.structs.replace(node.metadata, creation_timestamp=None),
        spec=msgspec.structs.replace(node.spec, taints=taints),
    )


def _coming_node(node: Node, at: dt.datetime) -> Node:
    """What is on its way: kept for those for which it was chosen, as soon as it joins."""
    metadata = msgspec.structs.replace(node.metadata, creation_timestamp=whole_time(at))
    return msgspec.structs.replace(node, metadata=metadata)


def _add(begin: str, template: NodeTemplate, picture: Picture, count: int) -> list[str]:
    return add_copies(picture, template, count, begin)
