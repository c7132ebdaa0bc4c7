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

from gpufleet.model.identifiers import NodeName

# One rejection may be chance, several in ten minutes are the node; pauses double up to an hour.
REJECTIONS_MAX = 3
WINDOW_US = 600_000_000
PAUSE_FIRST_US = 60_000_000
PAUSE_MOST_US = 3_600_000_000
OFFERS_MAX = 3
"""So many offers within ``WINDOW_US`` excuse rejections; more mean an agent or a kubelet that flaps."""

SETTLING_US = 3_000_000
"""Several resources are made known one after the other, and a rejection may be heard of later than that."""

US_PER_S = 1_000_000


class _Record(msgspec.Struct):
    rejected_at_us: list[int] = []
    pause_us: int = PAUSE_FIRST_US
    until_us: int = 0


class _Offers(msgspec.Struct):
    """When the devices of a node were made known to its kubelet, as far as that was seen to happen."""

    since: str
    at_us: list[int] = []

    def excuse(self, at_us: int) -> bool:
        """Whether that is a reason for rejections, and not itself what is wrong."""
        return len([then for then in self.at_us if at_us - then < WINDOW_US]) <= OFFERS_MAX


class NodeTrust:
    """Counts rejections by node and says which nodes are left alone."""

    def __init__(self) -> None:
        self.records: dict[NodeName, _Record] = {}
        self._offers: dict[NodeName, _Offers] = {}

    def offered(self, node: NodeName, since: str, at_us: int) -> bool:
        """The node's report tells since when its kubelet knows the devices; True if it is trusted again."""
        offers = self._offers.get(node)
        # The first report after a start tells nothing: since when the kubelet knows the devices may be long
        # ago.
        if offers is None:
            self._offers[node] = _Offers(since)
            return False
        if not since or since == offers.since:
            return False
        offers.since = since
        if not offers.at_us or at_us - offers.at_us[-1] >= SETTLING_US:
            offers.at_us = [then for then in offers.at_us if at_us - then < WINDOW_US] + [at_us]
        record = self.records.get(node)
        if record is None or not offers.excuse(at_us):
            return False
        was_distrusted = self.is_distrusted(node, at_us)
        # What was turned away before the devices were known says nothing of the kubelet now. How long the
        # next pause lasts stays.
        record.rejected_at_us, record.until_us = [], 0
        return was_distrusted

    def reject(self, node: NodeName, at_us: int) -> bool:
        """A kubelet turned a pod away; True if its node is left alone from now on."""
        if self._just_offered(node, at_us):
            return False
        record = self.records.setdefault(node, _Record())
        record.rejected_at_us = [then for then in record.rejected_at_us if at_us - then < WINDOW_US] + [at_us]
        # Pods that were on their way when the pause began are turned away in it and must not lengthen it.
        if at_us < record.until_us or len(record.rejected_at_us) < REJECTIONS_MAX:
            return False
        record.rejected_at_us = []
        # A whole second, as in the condition that tells the next leader.
        record.until_us = -(-(at_us + record.pause_us) // US_PER_S) * US_PER_S
        record.pause_us = min(PAUSE_MOST_US, 2 * record.pause_us)
        return True

    def recall(self, node: NodeName, until_us: int, next_pause_us: int, at_us: int) -> None:
        """What was written down before a restart, within the bounds of what is ever decided."""
        record = self.records.setdefault(node, _Record())
        # A condition could have been written by others, so no more is believed than would ever be decided.
        record.until_us = max(record.until_us, min(until_us, at_us + PAUSE_MOST_US))
        record.pause_us = max(record.pause_us, min(next_pause_us, PAUSE_MOST_US))

    def is_distrusted(self, node: NodeName, at_us: int) -> bool:
        """True while nothing new shall go to the node."""
        record = self.records.get(node)
        return record is not None and at_us < record.until_us

    def until_us(self, node: NodeName) -> int:
        """Until when the node is left alone, 0 for a node that is not."""
        record = self.records.get(node)
        return 0 if record is None else record.until_us

    def next_pause_us(self, node: NodeName) -> int:
        """For how long the node would be left alone next."""
        record = self.records.get(node)
        return PAUSE_FIRST_US if record is None else record.pause_us

    def regained(self, at_us: int) -> list[NodeName]:
        """Nodes with a pause that has ended, each told once."""
        # The record stays, for the length of the next pause.
        found = [name for name, record in self.records.items() if 0 < record.until_us <= at_us]
        for name in found:
            self.records[name].until_us = 0
        return found

    def next_regained_us(self) -> int | None:
        """When the next pause ends."""
        return min((record.until_us for record in self.records.values() if record.until_us), default=None)

    def forget(self, node: NodeName) -> None:
        """The node is gone."""
        self.records.pop(node, None)
        self._offers.pop(node, None)

    def _just_offered(self, node: NodeName, at_us: int) -> bool:
        offers = self._offers.get(node)
        if offers is None or not offers.at_us or not offers.excuse(at_us):
            return False
        return at_us - offers.at_us[-1] < SETTLING_US
