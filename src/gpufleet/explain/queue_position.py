"""Where a waiting pod stands among the queues: its position, what goes before it, and which queues use what
it lacks.
"""

from gpufleet.engine.explanations.precedence import CompetingQueue, precedence
from gpufleet.engine.explanations.queue_report import QueueUse, ResourceUse
from gpufleet.engine.explanations.queue_words import amount_words, number
from gpufleet.engine.explanations.waiting_order import Queued
from gpufleet.engine.instruction import QuotaShortage
from gpufleet.engine.scheduler import Engine
from gpufleet.kube.codec.field_path import harmless
from gpufleet.model.identifiers import QueueName, QuotaResource
from gpufleet.model.phrases import listed
from gpufleet.model.pod import Pod

USERS_MAX = 4
"""A sentence names the largest users and leaves out the rest."""


class QueuePosition:
    """One pod, by an engine that was told everything."""

    def __init__(self, engine: Engine, pod: Pod) -> None:
        row = engine.state.pods.row_by_uid[pod.uid]
        self.queue: QueueName = engine.state.queue_of(row)
        self.pod = pod
        self.engine = engine
        self.uses: dict[QueueName, QueueUse] = {one.queue: one for one in engine.queue_report()}
        self.line: tuple[Queued, ...] = engine.line_up()

    def notes(self) -> list[str]:
        """The pod's position, and which queues are served before its own."""
        return [*self._position(), *self._turn()]

    def _title(self, name: QueueName) -> str:
        """A queue by its name. Work outside of every queue has its turns as if there were one for it."""
        use = self.uses.get(name)
        is_there = use is not None and use.is_described
        return f"queue {harmless(name)}" if is_there else "the work outside of every queue"

    def _position(self) -> list[str]:
        mine = [one for one in self.line if one.queue == self.queue and one.position is not None]
        own = next((one for one in mine if self._is_own(one)), None)
        if own is None:
            return []
        ahead = [one for one in mine if (one.position or 0) < (own.position or 0)]
        behind = f", behind {listed(self._name(one) for one in ahead)}" if ahead else ""
        return [f"it is number {own.position} of {len(mine)} in {self._title(self.queue)}{behind}"]

    def _is_own(self, queued: Queued) -> bool:
        return queued.uid == self.pod.uid or (self.pod.gang is not None and queued.gang == self.pod.gang)

    def _name(self, queued: Queued) -> str:
        if queued.gang is not None:
            return "gang " + queued.gang.partition("/")[2]
        return self.engine.state.pods.pod_at(self.engine.state.pods.row_by_uid[queued.uid]).name

    def _turn(self) -> list[str]:
        """The nearest level on which another queue with work goes first."""
        if self.queue not in self.uses:
            return []
        above = self.queue
        for level in precedence(self.engine.state, self.line, self.queue, self.engine.at_us):
            names = [one.queue for one in level]
            if above in names and names.index(above) > 0:
                own = level[names.index(above)]
                first = [_competing_words(one, own) for one in level[: names.index(above)]]
                return [f"before {self._title(above)} goes {listed(first)}"]
            parent = self.uses[above].parent if above in self.uses else None
            if parent is None:
                break
            above = parent
        return []

    def users_of(self, short: QuotaShortage) -> list[str]:
        """Words on each queue below the one with the limit that binds: what it uses, the largest first."""
        leaves = [
            (use, found)
            for use in self.uses.values()
            if (found := _of(use, short.resource)) is not None and found.used
            if self._is_below(use.queue, short.queue) and not self._has_children(use.queue)
        ]
        leaves.sort(key=lambda one: (-one[1].used, one[0].queue))
        return [_user_words(use, found) for use, found in leaves]

    def borrowers_of(self, short: QuotaShortage) -> list[QueueName]:
        """The queues below the one with the limit that binds that borrow, without the pod's own."""
        return [
            use.queue
            for use in self.uses.values()
            if (found := _of(use, short.resource)) is not None and found.borrowed
            if use.queue != self.queue and self._is_below(use.queue, short.queue)
            if not self._has_children(use.queue)
        ]

    def own_use(self, resource: QuotaResource) -> ResourceUse | None:
        """What the pod's own queue has of a resource."""
        use = self.uses.get(self.queue)
        return None if use is None else _of(use, resource)

    def children_of(self, name: QueueName) -> list[str]:
        """The queues right below one."""
        return sorted(use.queue for use in self.uses.values() if use.parent == name)

    def waiting(self) -> int:
        """How many pods wait in its queue."""
        use = self.uses.get(self.queue)
        return 0 if use is None else sum(use.pending.values())

    def _has_children(self, name: QueueName) -> bool:
        return any(use.parent == name for use in self.uses.values())

    def _is_below(self, name: QueueName, above: QueueName) -> bool:
        at: QueueName | None = name
        # Bounded, because queues may name each other as parents in a circle.
        for _ in range(len(self.uses) + 1):
            if at is None or at == above:
                return at == above
            at = self.uses[at].parent if at in self.uses else None
        return False


def _of(use: QueueUse, resource: QuotaResource) -> ResourceUse | None:
    return next((one for one in use.resources if one.resource == resource), None)


def _user_words(use: QueueUse, found: ResourceUse) -> str:
    borrowed = f", {number(found.borrowed / found.used * 100)[:4]}% of it borrowed" if found.borrowed else ""
    return f"{harmless(use.queue)} ({amount_words(found.resource, found.used)}{borrowed})"


def _competing_words(one: CompetingQueue, own: CompetingQueue) -> str:
    name = harmless(one.queue)
    if one.is_within and not own.is_within:
        return f"{name}, whose work stays within what it is owed"
    if one.right.minus_priority < own.right.minus_priority:
        return f"{name} (priority {-one.right.minus_priority} above {-own.right.minus_priority})"
    if one.right[:4] < own.right[:4] and one.share_milli is not None:
        beside = "none" if own.share_milli is None else number(own.share_milli / 1000)
        return f"{name} (dominant share {number(one.share_milli / 1000)} against {beside})"
    return f"{name}, whose next workload is more important or older"
