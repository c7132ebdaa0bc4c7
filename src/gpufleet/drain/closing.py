"""A node is closed for a drain, and says until when work that ends by itself is waited for.

Cordon, owner and deadline are one write, tied to the version that was read. So a drain that goes on after a
kill has the deadline of before, and a cordon of others is known for theirs. A node stays closed after its
drain, as after ``kubectl drain``; ``kubectl uncordon`` opens it.
"""

import datetime as dt

import msgspec

from gpufleet.kube import keys
from gpufleet.kube.answer import decode
from gpufleet.kube.client import Client
from gpufleet.kube.codec.times import microseconds, whole_time
from gpufleet.kube.objects.metadata import Metadata
from gpufleet.kube.objects.node import NodeSpec
from gpufleet.kube.objects.structure import Structure
from gpufleet.kube.resources import NODES
from gpufleet.kube.status import Conflict
from gpufleet.model.model_errors import InputError, WorldError

MARKED = "drain"
CONFLICTS_MAX = 10
"""A node's other writers are its kubelet and a few controllers; each writes a few times a minute."""


class ClosedNode(msgspec.Struct, frozen=True):
    """A node that is closed: until when ends are waited for, and whether an earlier drain closed it."""

    name: str
    deadline_us: int
    goes_on: bool
    is_cordon_of_others: bool


class _Node(Structure, frozen=True):
    metadata: Metadata = Metadata()
    spec: NodeSpec = NodeSpec()


_DECODER = msgspec.json.Decoder(_Node)


async def close(client: Client, name: str, deadline_s: int) -> ClosedNode:
    """Close a node, or find it closed by an earlier drain. Raises WorldError where others keep writing."""
    for _ in range(CONFLICTS_MAX):
        seen = decode(await client.get(NODES, name), _DECODER)
        known_us = _deadline_us(seen)
        is_ours = seen.metadata.annotations.get(keys.CORDONED_BY) == MARKED
        # A cordon with a deadline is of an earlier drain; a cordon of others has none.
        if known_us is not None and seen.spec.unschedulable:
            return ClosedNode(name, known_us, goes_on=True, is_cordon_of_others=not is_ours)
        until = client.clock.now() + dt.timedelta(seconds=deadline_s)
        annotations = {keys.DRAIN_DEADLINE: whole_time(until), keys.BACKFILL_UNTIL: whole_time(until)}
        if not seen.spec.unschedulable:
            annotations[keys.CORDONED_BY] = MARKED
        metadata = {"resourceVersion": seen.metadata.resource_version, "annotations": annotations}
        try:
            await client.patch(NODES, name, {"metadata": metadata, "spec": {"unschedulable": True}})
        except Conflict:
            continue
        # Read back as it was written, in whole seconds: a drain that goes on finds the same moment.
        deadline_us = microseconds(annotations[keys.DRAIN_DEADLINE])
        return ClosedNode(name, deadline_us, goes_on=False, is_cordon_of_others=seen.spec.unschedulable)
    raise WorldError(f"node {name} is not closed: others write it all the time")


async def is_closed(client: Client, name: str) -> bool:
    """False once a node was opened again."""
    return decode(await client.get(NODES, name), _DECODER).spec.unschedulable


async def end_backfill(client: Client, name: str) -> bool:
    """Nothing more is to start on a closed node; False where nothing could already."""
    seen = decode(await client.get(NODES, name), _DECODER)
    if keys.BACKFILL_UNTIL not in seen.metadata.annotations:
        return False
    await client.patch(NODES, name, {"metadata": {"annotations": {keys.BACKFILL_UNTIL: None}}})
    return True


def _deadline_us(node: _Node) -> int | None:
    written = node.metadata.annotations.get(keys.DRAIN_DEADLINE)
    try:
        return None if written is None else microseconds(written)
    except InputError:
        return None
