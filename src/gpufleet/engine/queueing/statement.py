"""What may be said of a queue: refused here, naming the field, before anything is changed.

What is wrong only among several queues (a parent that is its own descendant, one that is not
described) is no fault of a statement; ``tree`` keeps such queues waiting.
"""

from gpufleet.engine.engine_errors import EventError
from gpufleet.engine.queueing.resources import check_resource
from gpufleet.engine.state.bounds import check_range
from gpufleet.model.queue import Queue, Quota

AMOUNT_MAX = 1 << 56
"""64 PiB, and of everything that is not measured in bytes more than there is."""

WEIGHT_MILLI_MAX = 1_000_000_000
"""A million times the usual weight of 1."""
PRIORITY_MAX = (1 << 31) - 1
"""As large as priorities of Kubernetes, which have 32 bits."""


def check_queue(queue: Queue) -> None:
    """Raises EventError for a queue that makes no sense by itself."""
    owner = f"queue {queue.name}"
    check_range(queue.weight_milli, 0, WEIGHT_MILLI_MAX, f"{owner}: weight_milli")
    check_range(queue.priority, -PRIORITY_MAX - 1, PRIORITY_MAX, f"{owner}: priority")
    check_range(queue.half_life_us, 0, AMOUNT_MAX, f"{owner}: half_life_us")
    if queue.reserve_after_us is not None:
        check_range(queue.reserve_after_us, 0, AMOUNT_MAX, f"{owner}: reserve_after_us")
    seen = set()
    for quota in queue.quotas:
        field = f"{owner}: quotas: {quota.resource}"
        check_resource(quota.resource, field)
        if quota.resource in seen:
            raise EventError("named twice", field=field, expected="one quota a resource")
        seen.add(quota.resource)
        _check_amounts(quota, field)


def _check_amounts(quota: Quota, field: str) -> None:
    check_range(quota.nominal, 0, AMOUNT_MAX, f"{field}: nominal")
    limits = (
        ("borrowing_limit", quota.borrowing_limit, AMOUNT_MAX),
        # Only what a queue owns can be kept from others.
        ("lending_limit", quota.lending_limit, quota.nominal),
        ("hard_limit", quota.hard_limit, AMOUNT_MAX),
    )
    for name, limit, most in limits:
        if limit is not None:
            check_range(limit, 0, most, f"{field}: {name}")
