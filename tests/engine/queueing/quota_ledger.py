"""What an independent account says of queues: whose work may start, and that no limit is ever broken (I5).

``engine.ledger`` hands over what it knows; charges and limits are worked out by ``plain_quota``.
"""

from collections.abc import Iterable

import msgspec

from gpufleet.engine import event
from gpufleet.engine.arrays import layout
from gpufleet.engine.lifecycle.engine_state import EngineState
from gpufleet.model.device import Device
from gpufleet.model.identifiers import DEFAULT_QUEUE, DeviceId, NodeName, PodUid, QueueName
from gpufleet.model.node import Node
from gpufleet.model.pod import Pod
from gpufleet.model.queue import Queue, QueueState
from tests.engine.plain_fleet import PlainNode
from tests.engine.queueing.plain_quota import Amounts, PlainQuota, plain_charge
from tests.engine.queueing.queue_builder import available, protected, used

Kind = tuple[str, int | None]


def is_bad(queue: Queue) -> bool:
    """True for a statement that must be refused."""
    return any(
        quota.nominal < 0
        or any(limit is not None and limit < 0 for limit in (quota.borrowing_limit, quota.hard_limit))
        or (quota.lending_limit is not None and not 0 <= quota.lending_limit <= quota.nominal)
        for quota in queue.quotas
    )


class QuotaLedger:
    """Queues as somebody stated them; usage is handed in anew for every question."""

    def __init__(self) -> None:
        self.queues: dict[QueueName, Queue] = {}
        self.prices: dict[str, int] = {}
        self.drained_at: dict[QueueName, int] = {}
        self.gone: dict[QueueName, QueueName] = {}
        self.charged: dict[PodUid, QueueName] = {}
        self.was_active = False

    def follow(self, named: dict[PodUid, tuple[QueueName, bool]]) -> None:
        """What has a place, on a node that is there (True), stays where it is charged, unless the queue that
        it names is there.
        """
        before, self.charged = self.charged, {}
        for uid, (name, is_there) in named.items():
            stays = self.was_active and is_there and name not in self.queues
            self.charged[uid] = before.get(uid, name) if stays else name

    def apply(self, happened: event.QueueSet | event.QueueRemoved | event.PricesSet, arrivals: int) -> None:
        """Something about queues happened, after that many pods have come."""
        match happened:
            case event.QueueSet(queue):
                self._state(queue, arrivals)
            case event.QueueRemoved(name):
                known = self.queues.pop(name, None)
                if known is not None and known.parent is not None and name != DEFAULT_QUEUE:
                    self.gone[name] = known.parent
                self.drained_at.pop(name, None)
            case event.PricesSet(prices):
                self.prices = {str(model): price for model, price in prices}

    def _state(self, queue: Queue, arrivals: int) -> None:
        self.queues[queue.name] = queue
        self.gone.pop(queue.name, None)
        if queue.state is not QueueState.DRAINING:
            self.drained_at.pop(queue.name, None)
        else:
            self.drained_at.setdefault(queue.name, arrivals)

    @property
    def is_active(self) -> bool:
        """True if there is any queue."""
        return bool(self.queues)

    def _above(self, name: QueueName) -> list[QueueName]:
        """The queue and those above it, as far as they are described and do not come round again."""
        if name not in self.queues:
            return [name]
        path = [name]
        while (parent := self.queues[path[-1]].parent) in self.queues and parent not in path:
            path.append(QueueName(str(parent)))
        return path

    def _circles(self, name: QueueName) -> bool:
        return name in self.queues and self.queues[self._above(name)[-1]].parent == name

    def _past_gone(self, name: QueueName, parent: QueueName | None) -> QueueName | None:
        """The nearest queue above that is there, past those that are gone."""
        passed = [name]
        while parent is not None and parent not in self.queues and parent not in passed:
            passed.append(parent)
            parent = self.gone.get(parent)
        return parent if parent in self.queues else None

    def plain(self, charges: Iterable[tuple[QueueName, Amounts, bool]]) -> PlainQuota:
        """The trees without the links that lead nowhere, with this usage; True: of protected work.

        What runs in a queue that is gone still counts above it.
        """
        known = list(charges)
        gone = {name: Queue(name) for name, _, _ in known if name in self.gone}
        linked = {name: queue for name, queue in (self.queues | gone).items() if not self._circles(name)}
        parents = {
            name: self._past_gone(name, self.gone.get(name, queue.parent)) for name, queue in linked.items()
        }

        def is_above_itself(name: QueueName) -> bool:
            passed, above = {name}, parents.get(name)
            while above is not None and above not in passed:
                passed.add(above)
                above = parents.get(above)
            return above == name

        is_stated = {name: queue.parent == parents[name] for name, queue in linked.items()}
        loops = [name for name in linked if not is_stated[name] and is_above_itself(name)]
        parents |= dict.fromkeys(loops)
        every = {
            name: msgspec.structs.replace(queue, parent=parents.get(name))
            for name, queue in (self.queues | gone).items()
        }
        return PlainQuota(
            {str(name): queue for name, queue in every.items()},
            [(name, amounts) for name, amounts, _ in known],
            [(name, amounts) for name, amounts, is_protected in known if is_protected],
            gone=frozenset(map(str, gone)),
        )

    def is_open(self, name: QueueName, arrival: int | None) -> bool:
        """True if work that came as the ``arrival``-th may start, quota aside; None: nobody knows when."""
        if not self.is_active or (name == DEFAULT_QUEUE and name not in self.queues):
            return True
        if name not in self.queues:
            return False
        linked = self.plain([])
        if linked.children(name):
            return False
        for one in map(QueueName, linked.path(name)):
            queue = self.queues[one]
            if queue.state in {QueueState.HELD, QueueState.STOPPED} or self._circles(one):
                return False
            if queue.parent is not None and queue.parent not in self.queues:
                return False
            if queue.state is QueueState.DRAINING and arrival is not None and arrival >= self.drained_at[one]:
                return False
        return True

    def charge(self, pod: Pod, node: Node, devices: tuple[DeviceId, ...]) -> Amounts:
        """What a pod with these devices of a node is charged; those that the node has not are unknown."""
        by_id = {one.id: one for one in node.devices}
        held: list[Device | None] = [by_id.get(one) for one in devices]
        return plain_charge(pod.shape, held + [None] * (pod.shape.gpu.count - len(held)), self.prices)

    def entry(
        self, queue: QueueName, pod: Pod, node: Node, devices: tuple[DeviceId, ...]
    ) -> tuple[QueueName, Amounts, bool]:
        """Who is charged what for a pod, and whether it is protected."""
        return queue, self.charge(pod, node, devices), not pod.preemptible

    def allows_all(
        self, alike: list[Pod], queue: QueueName, usage: PlainQuota, nodes: Iterable[Node]
    ) -> bool:
        """True if the quota allows these pods of one shape together, whatever devices they get.

        Nothing is said while a queue is draining, because when a gang came is not known here.
        """
        if any(one.state is QueueState.DRAINING for one in self.queues.values()):
            return False
        count = alike[0].shape.gpu.count
        devices: list[Device | None] = [one for node in nodes for one in node.devices] if count else []
        charges = [plain_charge(alike[0].shape, [one] * count, self.prices) for one in devices or [None]]
        protected = sum(not one.preemptible for one in alike)
        return all(
            usage.allows(queue, times(len(alike), charge), times(protected, charge)) for charge in charges
        )

    def could_start(
        self, pod: Pod, queue: QueueName, usage: PlainQuota, fleet: dict[NodeName, PlainNode]
    ) -> list[NodeName]:
        """The nodes with room where the quota allows enough devices.

        Devices that differ in memory alone are told apart by node: one that has any of a size that quota
        rules out is not looked at.
        """
        gpu = pod.shape.gpu
        kinds: dict[Kind, bool] = {}
        for place in fleet.values():
            for one in place.devices:
                kind = (one.device.model, one.device.memory_mib)
                if kind not in kinds and (not gpu.models or one.device.model in gpu.models):
                    charge = plain_charge(pod.shape, [one.device] * gpu.count, self.prices)
                    kinds[kind] = allows(pod, queue, usage, charge)
        models = {model for (model, _), allowed in kinds.items() if allowed}
        return [
            name for name, place in fleet.items() if self._has_place(pod, queue, usage, place, kinds, models)
        ]

    def _has_place(
        self,
        pod: Pod,
        queue: QueueName,
        usage: PlainQuota,
        place: PlainNode,
        kinds: dict[Kind, bool],
        models: set[str],
    ) -> bool:
        if not (place.accepts(pod.shape) and place.fits(pod.shape)):
            return False
        if not pod.shape.gpu.count:
            return allows(pod, queue, usage, plain_charge(pod.shape, [], self.prices))
        known = {one.device.id: (one.device.model, one.device.memory_mib) for one in place.devices}
        if any(model in models and not kinds.get((model, mib), True) for model, mib in known.values()):
            return False
        return any(
            sum(kinds[known[one]] for one in together) >= pod.shape.gpu.count
            for together in place.fitting_together(pod.shape)
        )


def times(count: int, charge: Amounts) -> Amounts:
    """So many of the same charge."""
    return {name: amount * count for name, amount in charge.items()}


def allows(pod: Pod, queue: QueueName, usage: PlainQuota, charge: Amounts) -> bool:
    """True if a pod may be charged so much."""
    return usage.allows(queue, charge, {} if pod.preemptible else charge)


def check_usage(state: EngineState, usage: PlainQuota) -> None:
    """The engine's sums, and what is available by them, are what the plain account finds."""
    tree = state.queues.tree
    assert set(tree.described) == set(usage.queues) - usage.gone
    for name in usage.queues:
        for resource in tree.resources.column_by_name:
            if usage.pooled(name, resource):
                counted = (usage.counted(name, resource), usage.total(name, resource))
                assert used(state, name, resource) == counted, (name, resource)
            assert used(state, name, resource)[1] == usage.total(name, resource), (name, resource)
            assert available(state, name, resource) == usage.available(name, resource), (name, resource)
            counted_here = usage.protected_at(name, resource)
            assert protected(state, name, resource) == counted_here, (name, resource)
    if not usage.queues:
        assert not state.store.tables.queue_total.any()
        assert not state.store.tables.queue_protected.any()
        assert state.store.tables.counters[layout.COUNTER_QUEUES] == 0
