"""A trace that was played over time, as observations of the cost ledger.

``gpufleet cost`` and ``close-month`` answer from it as from what a daemon saw on a cluster: nodes that are
there from the trace's start, and each run of a task as a pod, from its Binding to its end. Containers start
at once, since a trace does not say how long they took; nothing says how much of a GPU was used.
"""

from collections.abc import Iterator, Sequence

import msgspec

from gpufleet.ledger.interval_log import IntervalLog
from gpufleet.ledger.log_file import written
from gpufleet.ledger.node_versions import model_name, priced_node
from gpufleet.ledger.price_book import PricedNode
from gpufleet.ledger.versions import (
    DeviceState,
    DevicesVersion,
    Followed,
    NodeVersion,
    ObjectKind,
    Observation,
    PodVersion,
)
from gpufleet.model.device import WHOLE_GPU_MILLI
from gpufleet.model.grant import GrantedDevice, GrantKind
from gpufleet.model.node import Node
from gpufleet.replay.held_time import HeldTime

OWN_SCHEME = "trace://"
"""How the id of a node begins at a provider, which a trace does not name; a bill names the node itself."""


def ledger_lines(
    nodes: Sequence[Node], held: Sequence[HeldTime], cluster: str, begin_us: int, length_us: int
) -> Iterator[bytes]:
    """The lines of a file of observations; second 0 of the trace is at ``begin_us``."""
    log = IntervalLog()
    for node in nodes:
        for seen in _node(node, begin_us):
            log.take(seen)
    for number, one in enumerate(held, start=1):
        log.take(_pod(one, number, begin_us))
    for kind in ObjectKind:
        log.take(Followed(kind, begin_us, begin_us + length_us))
    return written(log, cluster)


def priced_as(node: Node) -> PricedNode:
    """What prices go by: the labels of the node, and its model as the trace names it."""
    by_labels = priced_node(node.labels, "")
    if by_labels.gpu_model or not node.devices:
        return by_labels
    return msgspec.structs.replace(by_labels, gpu_model=model_name(node.devices[0].model))


def _node(node: Node, begin_us: int) -> Iterator[Observation]:
    uid = f"node/{node.name}"
    yield NodeVersion(
        uid,
        1,
        begin_us,
        node.name,
        begin_us,
        priced_as=priced_as(node),
        provider_id=f"{OWN_SCHEME}/{node.name}",
        cpu_milli=node.allocatable.cpu_milli,
        memory_bytes=node.allocatable.memory_bytes,
    )
    devices = tuple(DeviceState(device.id, model_name(device.model)) for device in node.devices)
    if devices:
        yield DevicesVersion(f"devices/{node.name}", 1, begin_us, node.name, devices, created_us=begin_us)


def _pod(one: HeldTime, number: int, begin_us: int) -> PodVersion:
    shape = one.task.shape
    bound_us = begin_us + one.from_us
    ended_us = None if one.until_us is None else begin_us + one.until_us
    milli = shape.gpu.gpu_milli
    kind = GrantKind.WHOLE if milli == WHOLE_GPU_MILLI else GrantKind.SHARE
    return PodVersion(
        one.uid,
        number,
        bound_us if ended_us is None else ended_us,
        namespace=one.task.queue,
        name=one.task.name,
        queue=one.task.queue,
        node=one.node,
        bound_us=bound_us,
        epoch=1,
        devices=tuple(GrantedDevice(device, kind, milli) for device in one.devices),
        # Members start together, so each gang is whole when its members are bound.
        gang=one.task.gang or "",
        cpu_milli=shape.resources.cpu_milli,
        memory_bytes=shape.resources.memory_bytes,
        started_us=bound_us,
        was_started=True,
        ended_us=ended_us,
    )
