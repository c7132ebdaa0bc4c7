"""Nodes that were chosen and have not joined yet: they count as there, so that nothing is bought twice.

The autoscaler counts them too, and offers no pods that fit them. Which pods these are is its choice: of pods
that are alike it may offer those for which nodes were chosen, and leave out others. So pods are counted and
not named. Where fewer pods of a kind are left out than have nodes on their way, it has given nodes up, and
they count no more.
"""

import datetime as dt
from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from gpufleet.cluster.watching.picture import Picture
from gpufleet.expander.template_nodes import joined
from gpufleet.kube.objects.node import Node
from gpufleet.model.identifiers import PodUid
from gpufleet.model.shape import Shape

JOINS_WITHIN = dt.timedelta(minutes=15)
"""The autoscaler's --max-node-provision-time: it gives up nodes that did not join by then."""


class ComingNodes(msgspec.Struct, frozen=True):
    """What was chosen ``at``: so many nodes for these pods."""

    group: str
    node: Node
    node_count: int
    pods: frozenset[PodUid]
    at: dt.datetime


class Offered(msgspec.Struct, frozen=True):
    """Which kind each pod is of that is shown as one that nodes would help, and which are offered."""

    kinds: Mapping[PodUid, Shape]
    pods: frozenset[PodUid]


def still_coming(
    coming: Sequence[ComingNodes], offered: Offered, picture: Picture, now: dt.datetime
) -> tuple[list[int], bool]:
    """How many nodes of each purchase, the oldest first, will still come, and whether that is unclear.

    It is where pods are offered for which nodes are on their way, or more that are alike are left out than
    these nodes explain: pods beyond what a group may have then hide that nodes were given up.

    A node that joined is of the oldest purchase that lacks one. Pods that the autoscaler leaves out have room
    on nodes that joined first, and then on those that it still counts.
    """
    own = [one.pods - _chosen_again(coming, at) for at, one in enumerate(coming)]
    expected = [_share(one.node_count, len(pods), one) for one, pods in zip(coming, own, strict=True)]
    there = _joined_of_each(coming, expected, picture)
    left_out = Counter(kind for uid, kind in offered.kinds.items() if uid not in offered.pods)
    without: list[Counter[Shape]] = []
    for one, pods, nodes in zip(coming, own, there, strict=True):
        waiting = [offered.kinds[uid] for uid in sorted(pods) if uid in offered.kinds]
        # Pods that run have the first places.
        running = len(pods) - len(waiting)
        placed = max(0, _share(nodes, len(one.pods), one, of=one.node_count) - running)
        left_out -= Counter(waiting[:placed])
        without.append(Counter(waiting[placed:]))
    counts = []
    # What did not join in time is given up, and says nothing of what the autoscaler leaves out.
    late = [now - one.at > JOINS_WITHIN for one in coming]
    for one, lacking, count, nodes, is_late in zip(coming, without, expected, there, late, strict=True):
        counted = lacking & left_out
        left_out -= counted
        given_up = _share(one.node_count, (lacking - counted).total(), one)
        counts.append(0 if is_late else max(0, count - nodes - given_up))
    waited_for = [at for at, is_late in enumerate(late) if not is_late]
    expecting = frozenset(kind for at in waited_for for kind in without[at])
    offers_expecting = any(uid in offered.pods for at in waited_for for uid in own[at])
    return counts, offers_expecting or not expecting.isdisjoint(left_out)


def _chosen_again(coming: Sequence[ComingNodes], at: int) -> frozenset[PodUid]:
    """The pods for which nodes were chosen after this purchase: their first nodes have failed."""
    return frozenset[PodUid]().union(*(one.pods for one in coming[at + 1 :]))


def _share(amount: int, part: int, one: ComingNodes, *, of: int = 0) -> int:
    """So much of an amount as a part is of the purchase's pods, or of its nodes, rounded up."""
    return -(-amount * part // max(1, of or len(one.pods)))


def _joined_of_each(coming: Sequence[ComingNodes], expected: Sequence[int], picture: Picture) -> list[int]:
    counted = set[str]()
    found = []
    for one, count in zip(coming, expected, strict=True):
        there = [name for name in joined(one.node, picture, one.at) if name not in counted][:count]
        counted.update(there)
        found.append(len(there))
    return found
