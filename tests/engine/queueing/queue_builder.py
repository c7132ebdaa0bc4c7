"""Builders of queues and quotas, and an engine's view of one resource, for tests of quota."""

from gpufleet.engine.arrays import layout
from gpufleet.engine.lifecycle.engine_state import EngineState
from gpufleet.engine.queueing.available import binding_limit
from gpufleet.model.identifiers import QueueName, QuotaResource
from gpufleet.model.queue import AdmittedNamespaces, Queue, QueueState, Quota


def quota(
    resource: str,
    nominal: int = 0,
    *,
    borrow: int | None = None,
    lend: int | None = None,
    hard: int | None = None,
) -> Quota:
    """What a queue may have of one resource, without further limits unless stated."""
    return Quota(QuotaResource(resource), nominal, borrow, lend, hard)


def queue(
    name: str,
    *quotas: Quota,
    parent: str | None = None,
    state: QueueState = QueueState.OPEN,
    strict: bool = False,
    priority: int = 0,
    draining_since_us: int | None = None,
    reserve_after_s: int | None = 300,
    learn_run_times: bool = False,
    spent_budget: str = "",
    admitted: AdmittedNamespaces | None = None,
) -> Queue:
    """An open queue, a root unless it has a parent."""
    reserve_after_us = None if reserve_after_s is None else reserve_after_s * 1_000_000
    return Queue(
        QueueName(name),
        priority,
        strict,
        None if parent is None else QueueName(parent),
        quotas=quotas,
        state=state,
        draining_since_us=draining_since_us,
        reserve_after_us=reserve_after_us,
        learn_run_times=learn_run_times,
        spent_budget=spent_budget,
        admitted=admitted,
    )


def available(state: EngineState, name: str, resource: str) -> int | None:
    """What a queue may still take, None without a limit."""
    tree = state.queues.tree
    row = tree.row_by_name[QueueName(name)]
    column = tree.resources.column_by_name[QuotaResource(resource)]
    left = int(binding_limit(state.store.tables, row, column)[0])
    return None if left == layout.NO_LIMIT else left


def used(state: EngineState, name: str, resource: str) -> tuple[int, int]:
    """Counted and total usage of a queue."""
    tree = state.queues.tree
    row = tree.row_by_name[QueueName(name)]
    column = tree.resources.column_by_name[QuotaResource(resource)]
    tables = state.store.tables
    return int(tables.queue_counted[row, column]), int(tables.queue_total[row, column])


def protected(state: EngineState, name: str, resource: str) -> int:
    """What protected work has of the nominal amount of a queue."""
    tree = state.queues.tree
    column = tree.resources.column_by_name[QuotaResource(resource)]
    return int(state.store.tables.queue_protected[tree.row_by_name[QueueName(name)], column])
