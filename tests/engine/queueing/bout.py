"""Queues taking turns at a pool of resources: the tournament and the charges, without nodes."""

from gpufleet.engine.arrays.charge import charge_path, writes_for_charge
from gpufleet.engine.queueing.available import binding_limit
from gpufleet.engine.queueing.leaving_use import LeavingUse
from gpufleet.engine.queueing.line import Line, LineKey
from gpufleet.engine.queueing.past_use import PastUse
from gpufleet.engine.queueing.turns import Turns
from gpufleet.engine.queueing.waiting import WaitingLines
from gpufleet.model.identifiers import QueueName
from gpufleet.model.queue import Queue
from tests.engine.queueing.tree_builder import PlannedTree


class Bout(PlannedTree):
    """Work of the queues of a tree, served one by one while its queue may and the pool holds it."""

    def __init__(self, *queues: Queue, **pool: int) -> None:
        super().__init__(*queues)
        self.pool = pool
        self.waiting = WaitingLines()
        for one in queues:
            self.waiting.queues[one.name] = one
        self.past_use = PastUse(self.store, self.tree, self.resources)
        self.turns = Turns(self.store, self.waiting, {}, self.tree, self.past_use, LeavingUse(self.store))
        self.at_us = 0
        self._shapes: dict[tuple[tuple[str, int], ...], int] = {}
        self._pods = 0

    def work(
        self, name: str, workloads: int, *, priority: int = 0, created_at_us: int = 0, **ask: int
    ) -> "Bout":
        """So many workloads of one kind wait in a queue."""
        shape = self._shape(tuple(ask.items()))
        key = LineKey(QueueName(name), priority, shape)
        for _ in range(workloads):
            self._pods += 1
            self.waiting.put(key, self._pods, created_at_us, "", self.waiting.next_sequence())
        return self

    def _shape(self, ask: tuple[tuple[str, int], ...]) -> int:
        row = self._shapes.setdefault(ask, len(self._shapes))
        self.store.make_room("shape_charges", row + 1)
        self.store.make_room("shape_claims", row + 1)
        for resource, amount in ask:
            self.store.tables.shape_charges[row, self.column(resource)] = amount
        return row

    def serve(self, most: int = 1_000_000) -> list[str]:
        """The queues whose workloads were started in one cycle, in their order."""
        served: list[str] = []
        self.turns.begin(self.at_us)
        while len(served) < most and (line := self.turns.take()) is not None:
            name = line.key.queue
            if self._start(line):
                served.append(name)
                self.waiting.advance(line)
                self.turns.offer(name)
            else:
                self.waiting.park(line)
                if self.waiting.queue(name).strict:
                    self.turns.rest(name)
                else:
                    self.turns.offer(name)
        self.store.keep()
        self.past_use.follow(self.at_us)
        return served

    def _start(self, line: Line) -> bool:
        ask = next(ask for ask, row in self._shapes.items() if row == line.key.shape_row)
        row = self.row(line.key.queue)
        for resource, amount in ask:
            if amount > self.pool.get(resource, amount):
                return False
            if amount > binding_limit(self.store.tables, row, self.column(resource))[0]:
                return False
        self.give(line.key.queue, dict(ask))
        return True

    def give(self, name: str, amounts: dict[str, int]) -> None:
        """A queue takes so much of the pool, or gives it back."""
        for resource, amount in amounts.items():
            if resource in self.pool:
                self.pool[resource] -= amount
            self.store.make_journal_room(writes_for_charge(1, self.tree.path_max))
            charge_path(self.store.tables, self.row(name), self.column(resource), amount)
