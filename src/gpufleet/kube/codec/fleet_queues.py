"""What a FleetQueue means: a queue of the model, and which namespaces' work waits in it.

One object does not show whether its parent exists and whether all queues form a tree: the engine looks at all
of them.
"""

import re
from typing import TypeVar

import msgspec

from gpufleet.kube.codec.durations import read_duration
from gpufleet.kube.codec.field_path import inside, of_object
from gpufleet.kube.codec.queue_provisioning import ProvisioningTerms, read_provisioning
from gpufleet.kube.codec.quota_amounts import read_amount, read_model, read_resource
from gpufleet.kube.codec.selectors import label_selector
from gpufleet.kube.codec.written_words import check_length
from gpufleet.kube.kube_errors import ObjectError
from gpufleet.kube.objects import fleet_queues as wire
from gpufleet.model.identifiers import GpuModelName, QueueName, QuotaResource
from gpufleet.model.label_syntax import is_subdomain
from gpufleet.model.labels import LabelSelector
from gpufleet.model.model_errors import InputError
from gpufleet.model.quantity import parse_quantity
from gpufleet.model.queue import (
    RESERVE_AFTER_US,
    AdmittedNamespaces,
    PreemptionPolicy,
    Queue,
    QueueState,
    Quota,
    VictimOrder,
    VictimScope,
)

# The limits of the definition of FleetQueue, checked again: an object may be older than the definition.
MAXIMUM_QUOTAS = 64
MAXIMUM_PRICES = 256
MAXIMUM_NAMESPACES = 1000
NEVER = "Never"
# The words of a FleetQueue's fields, with their meaning in the model.
STATES = {
    "Open": QueueState.OPEN,
    "Held": QueueState.HELD,
    "Draining": QueueState.DRAINING,
    "Stopped": QueueState.STOPPED,
}
VICTIM_SCOPES = {
    "Never": VictimScope.NEVER,
    "LowerPriority": VictimScope.LOWER_PRIORITY,
    "LowerOrNewerEqualPriority": VictimScope.LOWER_OR_NEWER_EQUAL_PRIORITY,
    "Any": VictimScope.ANY,
}
VICTIM_ORDERS = {"ShareFirst": VictimOrder.SHARE_FIRST, "WorkLostFirst": VictimOrder.WORK_LOST_FIRST}
ORDERINGS = {"BestEffort": False, "Strict": True}
NUMBER_PATTERN = r"[0-9]{1,6}([.][0-9]{0,3}|m)?"
"""A weight or a price, as the definition of FleetQueue lets it in."""

NUMBER_EXPECTED = "a number from 0 to 999999 with at most three decimals, such as 1, 0.5 or 250m"
_NUMBER = re.compile(NUMBER_PATTERN)
Meaning = TypeVar("Meaning")


class QueueTerms(msgspec.Struct, frozen=True):
    """A FleetQueue as it is understood.

    ``prices`` by model in thousandths, on roots. ``namespaces`` and ``selector`` choose namespaces: their
    work waits here when it names no queue; ``local_names`` are further names of the queue, as (namespace,
    name). ``provisioning`` says how its gangs ask for nodes, None by the reason of their pods.
    """

    queue: Queue
    prices: tuple[tuple[GpuModelName, int], ...] = ()
    namespaces: tuple[str, ...] = ()
    selector: LabelSelector | None = None
    local_names: tuple[tuple[str, str], ...] = ()
    provisioning: ProvisioningTerms | None = None


def read_fleet_queue(found: wire.FleetQueue) -> QueueTerms:
    """What the object means. Raises ObjectError, naming the field, for what cannot be."""
    name, spec = found.metadata.name, found.spec
    with of_object("FleetQueue", name):
        if not is_subdomain(name):
            raise ObjectError("not a queue's name", field="metadata.name", value=name, expected="a DNS name")
        with inside("spec"):
            queue = _queue(QueueName(name), spec)
            prices, namespaces, local_names = _prices(spec), _namespaces(spec), _local_names(spec)
            selector = label_selector(spec.namespace_selector, "namespaceSelector")
            queue = msgspec.structs.replace(
                queue, admitted=_admitted_namespaces(namespaces, local_names, selector)
            )
            provisioning = read_provisioning(spec.provisioning)
            return QueueTerms(queue, prices, namespaces, selector, local_names, provisioning)


def _queue(name: QueueName, spec: wire.FleetQueueSpec) -> Queue:
    if not -(2**31) <= spec.priority < 2**31:
        raise InputError("out of range", field="priority", value=spec.priority, expected="32 bits")
    return Queue(
        name=name,
        priority=spec.priority,
        strict=_word(spec.ordering, ORDERINGS, "ordering"),
        parent=_parent(name, spec.parent),
        weight_milli=_number(spec.weight, "weight"),
        quotas=_quotas(spec.quotas),
        state=_word(spec.state, STATES, "state"),
        preemption=_preemption(spec.preemption),
        run_time_max_us=None if spec.run_time_max is None else read_duration(spec.run_time_max, "runTimeMax"),
        half_life_us=0 if spec.half_life is None else read_duration(spec.half_life, "halfLife"),
        reserve_after_us=_reserve_after_us(spec.reserve_after),
        learn_run_times=spec.learn_run_times,
    )


def _reserve_after_us(written: str | None) -> int | None:
    if written is None:
        return RESERVE_AFTER_US
    return None if written == NEVER else read_duration(written, "reserveAfter")


def _parent(name: QueueName, parent: str | None) -> QueueName | None:
    if parent is None:
        return None
    if not is_subdomain(parent):
        raise InputError("not a queue's name", field="parent", value=parent, expected="a DNS name")
    if parent == name:
        raise InputError("its own parent", field="parent", value=parent, expected="another queue")
    return QueueName(parent)


def _quotas(written: tuple[wire.QuotaSpec, ...]) -> tuple[Quota, ...]:
    check_length(len(written), MAXIMUM_QUOTAS, "quotas")
    found: dict[QuotaResource, Quota] = {}
    for position, one in enumerate(written):
        with inside(f"quotas[{position}]"):
            quota = _quota(one)
            if quota.resource in found:
                expected = "each resource once"
                raise InputError("twice", field="resource", value=one.resource, expected=expected)
            found[quota.resource] = quota
    return tuple(found.values())


def _quota(written: wire.QuotaSpec) -> Quota:
    resource = read_resource(written.resource, "resource")

    def amount(text: wire.IntOrString | None, field: str) -> int | None:
        return None if text is None else read_amount(resource, text, field)

    nominal = amount(written.nominal, "nominal") or 0
    lending_limit = amount(written.lending_limit, "lendingLimit")
    if lending_limit is not None and lending_limit > nominal:
        expected = f"at most nominal, {'0' if written.nominal is None else written.nominal}"
        problem = "more than there is to lend"
        raise InputError(problem, field="lendingLimit", value=written.lending_limit, expected=expected)
    return Quota(
        resource,
        nominal,
        amount(written.borrowing_limit, "borrowingLimit"),
        lending_limit,
        amount(written.hard_limit, "hardLimit"),
    )


def _preemption(written: wire.PreemptionSpec) -> PreemptionPolicy:
    with inside("preemption"):
        borrowing = _word(written.borrowing, VICTIM_SCOPES, "borrowing")
        priority_max = written.borrowing_priority_max
        if priority_max is not None and borrowing is VictimScope.NEVER:
            expected = "none, or borrowing that is not Never"
            problem = "means nothing without borrowing"
            raise InputError(problem, field="borrowingPriorityMax", value=priority_max, expected=expected)
        return PreemptionPolicy(
            _word(written.within_queue, VICTIM_SCOPES, "withinQueue"),
            _word(written.reclaim, VICTIM_SCOPES, "reclaim"),
            borrowing,
            priority_max,
            0 if written.preempt_after is None else read_duration(written.preempt_after, "preemptAfter"),
            0 if written.reclaim_after is None else read_duration(written.reclaim_after, "reclaimAfter"),
            None if written.elastic_after is None else read_duration(written.elastic_after, "elasticAfter"),
            _word(written.victim_order, VICTIM_ORDERS, "victimOrder"),
        )


def _prices(spec: wire.FleetQueueSpec) -> tuple[tuple[GpuModelName, int], ...]:
    if spec.prices and spec.parent is not None:
        raise InputError("prices below the root", field="prices", expected="prices on the root of the tree")
    check_length(len(spec.prices), MAXIMUM_PRICES, "prices")
    found: dict[GpuModelName, int] = {}
    for position, one in enumerate(spec.prices):
        with inside(f"prices[{position}]"):
            model = GpuModelName(read_model(one.model, "model"))
            if model in found:
                raise InputError("twice", field="model", value=one.model, expected="each model once")
            found[model] = _number(one.price, "price")
    return tuple(found.items())


def _namespaces(spec: wire.FleetQueueSpec) -> tuple[str, ...]:
    check_length(len(spec.namespaces), MAXIMUM_NAMESPACES, "namespaces")
    for position, name in enumerate(spec.namespaces):
        _check_namespace(name, f"namespaces[{position}]")
    return tuple(dict.fromkeys(spec.namespaces))


def _local_names(spec: wire.FleetQueueSpec) -> tuple[tuple[str, str], ...]:
    check_length(len(spec.local_queues), MAXIMUM_NAMESPACES, "localQueues")
    for position, one in enumerate(spec.local_queues):
        with inside(f"localQueues[{position}]"):
            _check_namespace(one.namespace, "namespace")
            if not is_subdomain(one.name):
                raise InputError("not a queue's name", field="name", value=one.name, expected="a DNS name")
    return tuple(dict.fromkeys((one.namespace, one.name) for one in spec.local_queues))


def _admitted_namespaces(
    namespaces: tuple[str, ...], local_names: tuple[tuple[str, str], ...], selector: LabelSelector | None
) -> AdmittedNamespaces | None:
    """Which namespaces may use the queue; None where it names none. A local name admits its namespace."""
    if not namespaces and not local_names and selector is None:
        return None
    named = (*namespaces, *(namespace for namespace, _ in local_names))
    return AdmittedNamespaces(tuple(dict.fromkeys(named)), selector)


def _check_namespace(name: str, field: str) -> None:
    if not is_subdomain(name) or "." in name or len(name) > 63:
        raise InputError("not a namespace's name", field=field, value=name, expected="a DNS label")


def _number(written: wire.IntOrString, field: str) -> int:
    """A number of at most three decimals, in thousandths."""
    text = str(written)
    if not _NUMBER.fullmatch(text):
        raise InputError("not a number of 0 or more", field=field, value=written, expected=NUMBER_EXPECTED)
    return parse_quantity(text, field=field).milli_value()


def _word(text: str, meanings: dict[str, Meaning], field: str) -> Meaning:
    found = meanings.get(text)
    if found is None:
        raise InputError("unknown", field=field, value=text, expected=", ".join(meanings))
    return found
