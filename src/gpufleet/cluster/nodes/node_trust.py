"""Nodes with a kubelet that turns pods away although they should fit.

A kubelet has the last word: it may reject a pod that was bound to its node (OutOfcpu,
UnexpectedAdmissionError, ...). That pod is lost and its controller makes another, which would be
placed on the same node again. So a node that rejected several pods in short time is left alone for
a while, longer each time, and trusted again after that.

A kubelet that knows of no devices turns every pod away that was granted some, be it that their agent is
starting anew or that it did so itself. The agent's report says when it was told of them; what was rejected
before that is forgiven at once. Not so where that happens again and again: then it is no excuse.
"""

import msgspec

from gpufleet.kube.objects.pod import FAILED, Pod
from gpufleet.model.identifiers import NodeName
from gpufleet.model.taint import Taint

DISTRUST = Taint(key="gpufleet.io/rejects-pods", effect="NoSchedule")
"""Stands in the engine, not in the API, for a node that is left alone."""

# One rejection may be chance, several in ten minutes are the node; pauses double up to an hour.
REJECTIONS_MAX = 3
WINDOW_S = 600.0
PAUSE_FIRST_S = 60.0
PAUSE_MOST_S = 3600.0
OFFERS_MAX = 3
"""So many offers within ``WINDOW_S`` excuse rejections; more mean an agent or a kubelet that flaps."""

SETTLING_S = 3.0
"""Several resources are made known one after the other, and a rejection may be heard of later than that."""

_REASONS = frozenset({"UnexpectedAdmissionError", "TopologyAffinityError", "NodeAffinity", "AdmissionFailed"})
"""Reasons that only a kubelet gives; "OutOf..." with a resource's name counts as well."""


def rejection(pod: Pod) -> str | None:
    """The kubelet's reason if it turned the pod away, None for any other end."""
    reason = pod.status.reason
    if pod.status.phase != FAILED or not (reason in _REASONS or reason.lower().startswith("outof")):
        return None
    return reason


class _Record(msgspec.Struct):
    rejected_at_s: list[float] = []
    pause_s: float = PAUSE_FIRST_S
    until_s: float = 0.0


class _Offers(msgspec.Struct):
    """When the devices of a node were made known to its kubelet, as far as that was seen to happen."""

    since: str
    at_s: list[float] = []

    def excuse(self, at_s: float) -> bool:
        """Whether that is a reason for rejections, and not itself what is wrong."""
        return len([then for then in self.at_s if at_s - then < WINDOW_S]) <= OFFERS_MAX


class NodeTrust:
    """Counts rejections by node and says which nodes are left alone."""

    def __init__(self) -> None:
        self._records: dict[NodeName, _Record] = {}
        self._offers: dict[NodeName, _Offers] = {}

    def offered(self, node: NodeName, since: str, at_s: float) -> bool:
        """The node's report tells since when its kubelet knows the devices; True if it is trusted again."""
        offers = self._offers.get(node)
        if offers is None:
            self._offers[node] = _Offers(since)
            return False
        if not since or since == offers.since:
            return False
        offers.since = since
        if not offers.at_s or at_s - offers.at_s[-1] >= SETTLING_S:
            offers.at_s = [then for then in offers.at_s if at_s - then < WINDOW_S] + [at_s]
        record = self._records.get(node)
        if record is None or not offers.excuse(at_s):
            return False
        was_distrusted = self.distrusted(node, at_s)
        record.rejected_at_s, record.until_s = [], 0.0
        return was_distrusted

    def reject(self, node: NodeName, at_s: float) -> bool:
        """A kubelet turned a pod away; True if its node is left alone from now on."""
        if self._just_offered(node, at_s):
            return False
        record = self._records.setdefault(node, _Record())
        record.rejected_at_s = [then for then in record.rejected_at_s if at_s - then < WINDOW_S] + [at_s]
        if at_s < record.until_s or len(record.rejected_at_s) < REJECTIONS_MAX:
            return False
        record.rejected_at_s = []
        record.until_s = at_s + record.pause_s
        record.pause_s = min(PAUSE_MOST_S, 2 * record.pause_s)
        return True

    def distrusted(self, node: NodeName, at_s: float) -> bool:
        """True while nothing new shall go to the node."""
        record = self._records.get(node)
        return record is not None and at_s < record.until_s

    def regained(self, at_s: float) -> list[NodeName]:
        """Nodes with a pause that has ended, each told once."""
        found = [name for name, record in self._records.items() if 0.0 < record.until_s <= at_s]
        for name in found:
            self._records[name].until_s = 0.0
        return found

    def next_regained_s(self) -> float | None:
        """When the next pause ends."""
        return min((record.until_s for record in self._records.values() if record.until_s), default=None)

    def forget(self, node: NodeName) -> None:
        """The node is gone."""
        self._records.pop(node, None)
        self._offers.pop(node, None)

    def _just_offered(self, node: NodeName, at_s: float) -> bool:
        offers = self._offers.get(node)
        if offers is None or not offers.at_s or not offers.excuse(at_s):
            return False
        return at_s - offers.at_s[-1] < SETTLING_S
