"""Nodes, queues and topology of a scenario, as values of the model."""

from gpufleet.model.device import Device, Serves
from gpufleet.model.identifiers import (
    DeviceId,
    GpuModelName,
    NodeName,
    QueueName,
    QuotaResource,
    TopologyLevelName,
)
from gpufleet.model.node import Node
from gpufleet.model.queue import (
    AdmittedNamespaces,
    PreemptionPolicy,
    Queue,
    QueueState,
    Quota,
    VictimOrder,
    VictimScope,
)
from gpufleet.model.resources import Resources
from gpufleet.model.taint import Taint
from gpufleet.model.topology import Topology, TopologyLevel
from gpufleet.scenario.amounts import mebibytes, microseconds, milli, quota_amount, units
from gpufleet.scenario.scenario_errors import ScenarioError
from gpufleet.scenario.text import Amount, NodesText, PreemptionText, QueueText, QuotaText

AMPLE_CPU_MILLI = 10_000_000
AMPLE_BYTES = 1 << 50
AMPLE_PODS = 100_000
"""What a node has where the scenario does not say: more than its pods ask for."""

# Bounds the memory of a scenario.
COUNT_MAX = 20_000
GPUS_MAX = 4096
"""Of one node or one pod: far above any machine, and it bounds the memory of a scenario too."""

NEVER = "never"


def numbered(name: str, count: int | None, field: str) -> list[str]:
    """NAME alone, or NAME-1 to NAME-count."""
    if count is None:
        return [name]
    if not 1 <= count <= COUNT_MAX:
        raise ScenarioError("out of range", field=f"{field}.count", value=count, expected=f"1 to {COUNT_MAX}")
    return [f"{name}-{number}" for number in range(1, count + 1)]


def nodes_of(text: NodesText, field: str) -> list[Node]:
    """The node or nodes that an entry describes."""
    return [_node(text, name, field) for name in numbered(text.name, text.count, field)]


def gpus_within_bounds(gpus: int, field: str) -> None:
    """Raises ScenarioError where no node has and no pod can ask for so many GPUs."""
    if not 0 <= gpus <= GPUS_MAX:
        raise ScenarioError("out of range", field=f"{field}.gpus", value=gpus, expected=f"0 to {GPUS_MAX}")


def _node(text: NodesText, name: str, field: str) -> Node:
    memory_mib = None if text.gpu_memory is None else mebibytes(text.gpu_memory, f"{field}.gpuMemory")
    gpus_within_bounds(text.gpus, field)
    linked = text.gpus_linked
    if linked < 1:
        raise ScenarioError("out of range", field=f"{field}.gpusLinked", value=linked, expected="1 or more")
    if not 0 <= text.held <= text.gpus:
        problem, expected = "out of range", f"0 to {text.gpus}, the gpus of the node"
        raise ScenarioError(problem, field=f"{field}.held", value=text.held, expected=expected)
    if text.numa_nodes < 1:
        problem, value = "out of range", text.numa_nodes
        raise ScenarioError(problem, field=f"{field}.numaNodes", value=value, expected="1 or more")
    devices = tuple(
        Device(
            DeviceId(f"{name}/{index}"),
            GpuModelName(text.model),
            memory_mib,
            link_group=index // linked,
            numa_node=index * text.numa_nodes // text.gpus,
            serves=Serves.ANY if index < text.gpus - text.held else Serves.NOTHING,
        )
        for index in range(text.gpus)
    )
    allocatable = Resources(
        AMPLE_CPU_MILLI if text.cpu is None else milli(text.cpu, f"{field}.cpu"),
        AMPLE_BYTES if text.memory is None else units(text.memory, f"{field}.memory"),
        AMPLE_PODS if text.pods is None else text.pods,
        AMPLE_BYTES,
        tuple(sorted(_not_held(text, field).items())),
    )
    taints = tuple(Taint(taint.key, taint.value, taint.effect) for taint in text.taints)
    until = text.drained_until
    return Node(
        NodeName(name),
        allocatable,
        devices,
        dict(text.labels),
        taints,
        unschedulable=text.cordoned or until is not None,
        draining_until_us=None if until is None else microseconds(until, f"{field}.drainedUntil"),
    )


def _not_held(text: NodesText, field: str) -> dict[str, int]:
    """What the node has of each resource beside what strangers hold.

    A cluster tells the engine no more: an instance that is held is none that the node has.
    """
    left = dict(text.resources)
    for name, held in text.held_resources.items():
        has = text.resources.get(name, 0)
        if not 0 <= held <= has:
            expected = f"0 to {has}, what resources says"
            raise ScenarioError(
                "out of range", field=f"{field}.heldResources.{name}", value=held, expected=expected
            )
        left[name] = has - held
    return left


def topology_of(levels: list[str]) -> Topology:
    """Levels from the widest down, each named as the node label that tells the domain."""
    return Topology(tuple(TopologyLevel(TopologyLevelName(level), level) for level in levels))


def queue_of(text: QueueText, field: str) -> Queue:
    """The queue of the model that a scenario's text describes."""
    quotas = tuple(
        _quota(resource, quota, f"{field}.quotas.{resource}")
        for resource, quota in sorted(text.quotas.items())
    )
    if text.state not in set(QueueState):
        expected = ", ".join(QueueState)
        raise ScenarioError("no such state", field=f"{field}.state", value=text.state, expected=expected)
    run_time_max = text.run_time_max
    return Queue(
        QueueName(text.name),
        text.priority,
        text.strict,
        None if text.parent is None else QueueName(text.parent),
        milli(text.weight, f"{field}.weight"),
        quotas,
        QueueState(text.state),
        _preemption(text.preemption, f"{field}.preemption"),
        None if run_time_max is None else microseconds(run_time_max, f"{field}.runTimeMax"),
        microseconds(text.half_life, f"{field}.halfLife"),
        reserve_after_us=None
        if text.reserve_after == NEVER
        else microseconds(text.reserve_after, f"{field}.reserveAfter"),
        learn_run_times=text.learn_run_times,
        admitted=AdmittedNamespaces(tuple(text.namespaces)) if text.namespaces else None,
    )


def _quota(resource: str, text: QuotaText | Amount, field: str) -> Quota:
    quota = text if isinstance(text, QuotaText) else QuotaText(nominal=text)

    def limit(amount: Amount | None, name: str) -> int | None:
        return None if amount is None else quota_amount(resource, amount, f"{field}.{name}")

    return Quota(
        QuotaResource(resource),
        quota_amount(resource, quota.nominal, f"{field}.nominal"),
        limit(quota.borrowing_limit, "borrowingLimit"),
        limit(quota.lending_limit, "lendingLimit"),
        limit(quota.hard_limit, "hardLimit"),
    )


def _preemption(text: PreemptionText, field: str) -> PreemptionPolicy:
    return PreemptionPolicy(
        _victim_scope(text.within_queue, f"{field}.withinQueue"),
        _victim_scope(text.reclaim, f"{field}.reclaim"),
        _victim_scope(text.borrowing, f"{field}.borrowing"),
        text.borrowing_priority_max,
        microseconds(text.preempt_after, f"{field}.preemptAfter"),
        microseconds(text.reclaim_after, f"{field}.reclaimAfter"),
        None if text.elastic_after is None else microseconds(text.elastic_after, f"{field}.elasticAfter"),
        _victim_order(text.victim_order, f"{field}.victimOrder"),
    )


def _victim_scope(text: str, field: str) -> VictimScope:
    if text not in set(VictimScope):
        raise ScenarioError("no such policy", field=field, value=text, expected=", ".join(VictimScope))
    return VictimScope(text)


def _victim_order(text: str, field: str) -> VictimOrder:
    if text not in set(VictimOrder):
        raise ScenarioError("no such order", field=field, value=text, expected=", ".join(VictimOrder))
    return VictimOrder(text)
