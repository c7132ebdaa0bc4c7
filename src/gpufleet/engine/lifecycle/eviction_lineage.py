"""At whose cost work came to its place, so that nobody can take it back for the same reason turned round.

Where two resources are limited, each of two queues may have a claim on what the other took: this GPU is
mine, your cores are too many. Whoever is evicted comes back, and such claims can go round for ever. So work
that was placed by evicting others *stands against* their queues, and against all queues that these stood
against: none of them may evict it. What the work of a queue replaces in its own queue it also takes over.

This ends every circle. Give each running pod the number of queues that it stands against. An eviction for
another queue takes away pods of some numbers and adds one with a larger number than any of them; one within
a queue adds one with no smaller number and of higher priority. Ordered from the largest down, these only
ever rise, and there are only so many pods and queues.

Guests on reserved nodes (``reservations.guests``) end for no claim of a queue: nobody stands against theirs
for it, and who comes back is no guest of the same holder, which runs by then.

It is forgotten where a claim is a new one: when a queue is described anew, and of a queue whose work ended
by itself. ``preemption.reclaim`` asks.
"""

from collections.abc import Iterable, Mapping

from gpufleet.model.identifiers import PodUid, QueueName

NOBODY: frozenset[QueueName] = frozenset()


class Takings:
    """Which pods stand against which queues."""

    def __init__(self) -> None:
        self._against: dict[PodUid, frozenset[QueueName]] = {}
        self._by_queue: dict[QueueName, dict[PodUid, None]] = {}
        self._evicted: dict[PodUid, None] = {}

    def take(self, queue: QueueName, placed: Iterable[PodUid], victims: Mapping[PodUid, QueueName]) -> None:
        """Work of a queue is to have the places of these victims, each of a queue."""
        against = frozenset(victims.values()).union(*map(self.against, victims)) - {queue}
        self._evicted.update(dict.fromkeys(victims))
        if against:
            for uid in placed:
                self._set(uid, against | self.against(uid))

    def against(self, uid: PodUid) -> frozenset[QueueName]:
        """The queues for which a pod may not be evicted."""
        return self._against.get(uid, NOBODY)

    def held_from(self, queue: QueueName) -> Mapping[PodUid, None]:
        """The pods that may not be evicted for a queue."""
        return self._by_queue.get(queue, {})

    def leave(self, uid: PodUid, queue: QueueName, *, ran: bool) -> None:
        """A pod is gone. If it ``ran`` and we did not evict it, its queue's claims are new ones."""
        self._set(uid, NOBODY)
        evicted = uid in self._evicted
        self._evicted.pop(uid, None)
        if evicted or not ran:
            return
        for held in list(self.held_from(queue)):
            self._set(held, self._against[held] - {queue})

    def stays(self, uid: PodUid) -> None:
        """A pod was not evicted after all: if it ends now, it does so by itself."""
        self._evicted.pop(uid, None)

    def begin_anew(self) -> None:
        """A queue has other rights now, so every claim may be a new one."""
        self._against.clear()
        self._by_queue.clear()

    def _set(self, uid: PodUid, against: frozenset[QueueName]) -> None:
        before = self.against(uid)
        for queue in before - against:
            del self._by_queue[queue][uid]
            if not self._by_queue[queue]:
                del self._by_queue[queue]
        for queue in against - before:
            self._by_queue.setdefault(queue, {})[uid] = None
        if against:
            self._against[uid] = against
        else:
            self._against.pop(uid, None)
