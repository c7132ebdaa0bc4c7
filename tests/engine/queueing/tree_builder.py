"""Trees of queues without a fleet: what is said of queues, and usage that a test states."""

from gpufleet.engine.arrays.charge import charge_path, writes_for_charge
from gpufleet.engine.arrays.tables import TableStore
from gpufleet.engine.queueing.resources import QuotaResources
from gpufleet.engine.queueing.tree import QueueTree
from gpufleet.engine.state.fleet import Fleet
from gpufleet.engine.state.shapes import ShapeTable
from gpufleet.model.identifiers import QueueName, QuotaResource
from gpufleet.model.queue import WEIGHT_ONE_MILLI, Queue, Quota


def queue(
    name: str,
    parent: str | None = None,
    *,
    priority: int = 0,
    weight: int | None = None,
    weight_milli: int = WEIGHT_ONE_MILLI,
    half_life_us: int = 0,
    strict: bool = False,
    limits: tuple[Quota, ...] = (),
    **nominal: int,
) -> Queue:
    """A queue with these nominal amounts; ``limits`` are whole quotas."""
    quotas = tuple(Quota(QuotaResource(resource), amount) for resource, amount in nominal.items())
    return Queue(
        QueueName(name),
        priority,
        strict,
        None if parent is None else QueueName(parent),
        weight_milli if weight is None else weight * WEIGHT_ONE_MILLI,
        limits + quotas,
        half_life_us=half_life_us,
    )


class PlannedTree:
    """A tree, settled, whose usage is charged by hand."""

    def __init__(self, *queues: Queue) -> None:
        self.store = TableStore()
        fleet = Fleet(self.store)
        self.resources = QuotaResources(self.store, fleet, ShapeTable(self.store, fleet))
        self.tree = QueueTree(self.store, self.resources)
        for one in queues:
            self.tree.set(one)
        self.tree.settle()

    def row(self, name: str) -> int:
        """The row of a queue."""
        return self.tree.row_by_name[QueueName(name)]

    def column(self, resource: str) -> int:
        """The column of a resource."""
        return self.resources.column_by_name[QuotaResource(resource)]

    def use(self, name: str, **amounts: int) -> "PlannedTree":
        """A queue uses so much more of each resource, or less."""
        for resource, amount in amounts.items():
            self.store.make_journal_room(writes_for_charge(1, self.tree.path_max))
            charge_path(self.store.tables, self.row(name), self.column(resource), amount)
        return self
