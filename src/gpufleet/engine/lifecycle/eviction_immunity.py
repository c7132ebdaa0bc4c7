"""Which queues may not evict a pod, because it came to its place at their cost.

Where two resources are limited, each of two queues may have a claim on what the other took. Example: queue A
is owed GPUs that B uses, and B is owed CPU that A uses. Evicted pods come back, so such claims could go round
for ever. So a pod that was placed by evicting others is *immune* to the queues of its victims, and to all
queues that these victims were immune to: none of these queues may evict it. What the work of a queue replaces
in its own queue it also inherits.

This ends every circle. Give each running pod the number of queues that it is immune to. An eviction for
another queue takes away pods of some numbers and adds one with a larger number than any of them; one within
a queue adds one with no smaller number and of higher priority. Ordered from the largest down, these only
ever rise, and there are only so many pods and queues. An immune pod may all the same give its place to an
equal one if shares are closer together then (``preempt.swaps``).

Guests on reserved nodes (``reserve.guests``) end for no claim of a queue, so no pod becomes immune to their
queues, and a guest that comes back is no guest of the same holder, which runs by then.

Immunity ends where a claim is a new one: when a queue is described anew, and for a queue whose work ended by
itself. The next leader is told of it (``remembered``): otherwise it would evict such a pod for a queue for
which the leader before it did not. ``preempt.reclaim`` asks.
"""

from collections.abc import Iterable, Mapping

from gpufleet.engine.event import ImmunePods
from gpufleet.model.identifiers import PodUid, QueueName

NO_QUEUES: frozenset[QueueName] = frozenset()


class EvictionImmunity:
    """Which pods are immune to which queues."""

    def __init__(self) -> None:
        self._immune_to: dict[PodUid, frozenset[QueueName]] = {}
        self._by_queue: dict[QueueName, dict[PodUid, None]] = {}
        self._evicted: dict[PodUid, None] = {}

    def take(self, queue: QueueName, placed: Iterable[PodUid], victims: Mapping[PodUid, QueueName]) -> None:
        """Work of a queue is to have the places of these victims, each of a queue."""
        immune_to = frozenset(victims.values()).union(*map(self.immune_to, victims)) - {queue}
        self._evicted.update(dict.fromkeys(victims))
        if immune_to:
            for uid in placed:
                self._set(uid, immune_to | self.immune_to(uid))

    def immune_to(self, uid: PodUid) -> frozenset[QueueName]:
        """The queues for which a pod may not be evicted."""
        return self._immune_to.get(uid, NO_QUEUES)

    def pods_immune_to(self, queue: QueueName) -> Mapping[PodUid, None]:
        """The pods that may not be evicted for a queue."""
        return self._by_queue.get(queue, {})

    @property
    def is_watching(self) -> bool:
        """True if some pod is immune, or was evicted and is still there: else ``leave`` changes nothing."""
        return bool(self._immune_to or self._evicted)

    def leave(self, uid: PodUid, queue: QueueName, *, ran: bool) -> None:
        """A pod is gone. If it ``ran`` and we did not evict it, its queue's claims are new ones."""
        self._set(uid, NO_QUEUES)
        evicted = uid in self._evicted
        self._evicted.pop(uid, None)
        if evicted or not ran:
            return
        # A copy: each of them leaves it.
        for held in list(self.pods_immune_to(queue)):
            self._set(held, self._immune_to[held] - {queue})

    def stays(self, uid: PodUid) -> None:
        """A pod was not evicted after all: if it ends now, it does so by itself."""
        self._evicted.pop(uid, None)

    def remembered(self) -> tuple[ImmunePods, ...]:
        """Which pods are immune to each queue, for the engine that comes after this one."""
        return tuple(ImmunePods(queue, tuple(pods)) for queue, pods in self._by_queue.items())

    def recall(self, immune: Iterable[ImmunePods], leaving: Iterable[PodUid]) -> None:
        """What the engine before this one remembered of pods that are still there.

        It may have evicted each of those that leave: none of them ends by itself.
        """
        for one in immune:
            self.add(one.pods, frozenset((one.queue,)))
        self._evicted.update(dict.fromkeys(leaving))

    def add(self, uids: Iterable[PodUid], queues: frozenset[QueueName]) -> None:
        """Note further pods that may not be evicted, and for which queues."""
        for uid in uids:
            self._set(uid, self.immune_to(uid) | queues)

    def begin_anew(self) -> None:
        """A queue has other rights now, so every claim may be a new one."""
        self._immune_to.clear()
        self._by_queue.clear()

    def _set(self, uid: PodUid, immune_to: frozenset[QueueName]) -> None:
        before = self.immune_to(uid)
        for queue in before - immune_to:
            del self._by_queue[queue][uid]
            if not self._by_queue[queue]:
                del self._by_queue[queue]
        for queue in immune_to - before:
            self._by_queue.setdefault(queue, {})[uid] = None
        if immune_to:
            self._immune_to[uid] = immune_to
        else:
            self._immune_to.pop(uid, None)
