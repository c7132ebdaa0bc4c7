"""What gpufleet has written on nodes, and how all of it is taken back when gpufleet leaves a cluster.

Labels go by the managers that the API server remembers, taints by the annotation that names them; the cordon
of a rollout that was cut off goes, and so do annotations and conditions under gpufleet.io, and the keys in
which driver managers read how far a rollout is. What others wrote stays: a label that a person set, a cordon
of an administrator, a taint of another controller. A driver or toolkit that a policy brought stays too, with
its DaemonSet and the label that chooses it: running pods need it.
``gpufleet leave`` calls it, and the chart calls that after ``helm uninstall``.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence

import msgspec

from gpufleet.kube.client import Client, PatchType
from gpufleet.kube.listing import Selection
from gpufleet.kube.objects.metadata import Metadata
from gpufleet.kube.objects.node import AGENT_LABELS_MANAGER
from gpufleet.kube.objects.structure import Structure
from gpufleet.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NODE_FEATURES, NODES, PODS
from gpufleet.kube.status import Conflict, NotFound
from gpufleet.model.fleet_policy import OWN_DOMAIN, UPGRADE_STATE_LABEL
from gpufleet.model.identifiers import NodeName
from gpufleet.operator.node_facts import FIELD_MANAGER, TaintKey, owned_taints, rollout_keys, stamp_of
from gpufleet.operator.node_objects import (
    APPLY,
    ROLLOUT_ANNOTATION,
    TAINTS_ANNOTATION,
    ManagedFields,
    NodeTaint,
)
from gpufleet.operator.rollout_actions import resumed
from gpufleet.preflight.facts import EVICTION_BY_CONTROLLER

LABEL_MANAGERS = (AGENT_LABELS_MANAGER, FIELD_MANAGER)
MANAGED_BY_US = "app.kubernetes.io/managed-by=gpufleet"
WRITERS = "app.kubernetes.io/name=gpufleet,app.kubernetes.io/component in (agent,operator,scheduler)"
"""Pods that write on nodes: what is taken back while one runs may come back."""

WRITES_AT_ONCE = 8
TRIES_MAX = 5
"""A node changes with each heartbeat of its kubelet; five readings in a row lose that race hardly ever."""

POLL_EVERY_S = 1.0
"""Short beside the 30 s that a pod has to end."""

_PREFIX = f"{OWN_DOMAIN}/"


class _LeavingMetadata(Metadata, frozen=True):
    managed_fields: tuple[ManagedFields, ...] = ()


class _LeavingSpec(Structure, frozen=True):
    taints: tuple[NodeTaint, ...] = ()
    unschedulable: bool = False


class _LeavingCondition(Structure, frozen=True):
    type: str


class _LeavingStatus(Structure, frozen=True):
    conditions: tuple[_LeavingCondition, ...] = ()


class LeavingNode(Structure, frozen=True):
    """A Node with everything that may be gpufleet's."""

    metadata: _LeavingMetadata
    spec: _LeavingSpec = _LeavingSpec()
    status: _LeavingStatus = _LeavingStatus()


class _Named(Structure, frozen=True):
    """Any object, as far as its name."""

    metadata: Metadata


class Leftover(msgspec.Struct, frozen=True):
    """What one node has of gpufleet.

    ``managers`` are those by which labels are taken back; ``states`` are labels that say how far a rollout
    is; ``paused`` are labels of parts of another operator that a rollout has paused, and that run again.
    """

    node: NodeName
    labels: tuple[str, ...] = ()
    managers: tuple[str, ...] = ()
    taints: tuple[TaintKey, ...] = ()
    annotations: tuple[str, ...] = ()
    conditions: tuple[str, ...] = ()
    paused: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    is_cordoned: bool = False

    def words(self) -> tuple[str, ...]:
        """Each thing in a few words, for people."""
        found = [f"label {key}" for key in (*self.labels, *self.states)]
        found += [f"taint {key}:{effect}" for key, effect in self.taints]
        found += [f"annotation {key}" for key in self.annotations]
        found += [f"condition {kind}" for kind in self.conditions]
        found += [f"pause of {key}" for key in self.paused]
        return (*found, *(["cordon of a rollout"] if self.is_cordoned else []))


_NODE = msgspec.json.Decoder(LeavingNode)
_NAMED = msgspec.json.Decoder(_Named)


def leftover(node: LeavingNode) -> Leftover | None:
    """What the node has of gpufleet; None for nothing."""
    metadata = node.metadata
    # Taken back by an empty apply, which undoes nothing that came by another operation.
    ours = [
        one for one in metadata.managed_fields if one.manager in LABEL_MANAGERS and one.operation == APPLY
    ]
    by_manager = {one.manager: frozenset(one.labels()) for one in ours}
    owned = owned_taints(metadata.annotations.get(TAINTS_ANNOTATION, ""))
    of_rollouts = rollout_keys(metadata.managed_fields)
    there = [(one.key, one.effect) for one in node.spec.taints]
    found = Leftover(
        NodeName(metadata.name),
        labels=tuple(sorted(set().union(*by_manager.values()) & metadata.labels.keys())),
        managers=tuple(manager for manager in LABEL_MANAGERS if by_manager.get(manager)),
        taints=tuple(sorted(owned.intersection(there))),
        annotations=tuple(
            sorted(
                key
                for key in metadata.annotations
                if key.startswith(_PREFIX) or (key == EVICTION_BY_CONTROLLER and key in of_rollouts)
            )
        ),
        conditions=tuple(one.type for one in node.status.conditions if one.type.startswith(_PREFIX)),
        paused=tuple(resumed(metadata.annotations, metadata.labels)),
        states=tuple(key for key in (UPGRADE_STATE_LABEL,) if key in of_rollouts),
        is_cordoned=node.spec.unschedulable and _is_cordon_ours(metadata.annotations),
    )
    return found if found.words() or found.managers else None


def _is_cordon_ours(annotations: dict[str, str]) -> bool:
    # A stamp that cannot be read proves nothing, and a cordon of others is never undone.
    stamp, _ = stamp_of(annotations.get(ROLLOUT_ANNOTATION))
    return stamp is not None and stamp.is_cordon_ours


def node_patch(node: LeavingNode, found: Leftover) -> dict[str, object]:
    """The merge patch of annotations, taints and the cordon, tied to the version that was read."""
    metadata: dict[str, object] = {"resourceVersion": node.metadata.resource_version}
    # Null takes a key away in a merge patch.
    if found.annotations:
        metadata["annotations"] = dict.fromkeys(found.annotations)
    if found.paused or found.states:
        resumed_labels = resumed(node.metadata.annotations, node.metadata.labels)
        metadata["labels"] = {**resumed_labels, **dict.fromkeys(found.states)}
    spec: dict[str, object] = {}
    if found.taints:
        kept = [one for one in node.spec.taints if (one.key, one.effect) not in found.taints]
        spec["taints"] = msgspec.to_builtins(kept)
    if found.is_cordoned:
        spec["unschedulable"] = None
    return {"metadata": metadata, **({"spec": spec} if spec else {})}


async def leftovers(client: Client) -> AsyncIterator[Leftover]:
    """What each node has of gpufleet, of nodes that have anything. Raises KubeError."""
    async for page in client.list_pages(NODES):
        for raw in page.items or ():
            found = leftover(_NODE.decode(raw))
            if found is not None:
                yield found


async def take_back(client: Client, names: Sequence[NodeName]) -> None:
    """Take everything back on these nodes. Raises KubeError; what was done is done, and may be done again."""
    gate = asyncio.Semaphore(WRITES_AT_ONCE)

    async def one(name: NodeName) -> None:
        async with gate:
            await _take_back_on(client, name)

    async with asyncio.TaskGroup() as group:
        for name in names:
            group.create_task(one(name))


async def _take_back_on(client: Client, name: NodeName) -> None:
    for attempt in range(1, TRIES_MAX + 1):
        try:
            node = _NODE.decode(await client.get(NODES, name))
            found = leftover(node)
            if found is not None:
                await _write(client, node, found)
        except NotFound:
            return
        except Conflict:
            # Another writer was faster: what is left is read anew.
            if attempt == TRIES_MAX:
                raise
            continue
        return


async def _write(client: Client, node: LeavingNode, found: Leftover) -> None:
    name, uid = found.node, node.metadata.uid
    # Tied to the version that was read, which the other writes change: it goes first.
    if found.annotations or found.states or found.taints or found.is_cordoned:
        await client.patch(NODES, name, node_patch(node, found))
    # An apply that names no label: the API server takes away those that the manager applied before.
    for manager in found.managers:
        # The uid keeps the apply from making a node that was just deleted.
        body = {"apiVersion": NODES.api_version, "kind": NODES.name, "metadata": {"name": name, "uid": uid}}
        await client.patch(NODES, name, body, patch_type=PatchType.APPLY, field_manager=manager)
    if found.conditions:
        # Kubernetes merges conditions by their type, so one that is only left out would stay.
        gone = [{"type": kind, "$patch": "delete"} for kind in found.conditions]
        body = {"status": {"conditions": gone}}
        await client.patch(NODES, name, body, subresource="status", patch_type=PatchType.STRATEGIC)


async def writers(client: Client, namespace: str) -> tuple[str, ...]:
    """The pods of a namespace that write on nodes. Raises KubeError."""
    pages = client.list_pages(PODS, namespace=namespace, selection=Selection(labels=WRITERS))
    return tuple([_NAMED.decode(raw).metadata.name async for page in pages for raw in page.items or ()])


async def writers_gone(client: Client, namespace: str, limit_s: float) -> tuple[str, ...]:
    """Wait until no pod of a namespace writes on nodes, at most so long; those that are left."""
    waited_s = 0.0
    while (left := await writers(client, namespace)) and waited_s < limit_s:
        await client.clock.sleep(POLL_EVERY_S)
        waited_s += POLL_EVERY_S
    return left


async def delete_features(client: Client) -> int:
    """Delete the NodeFeatures that agents wrote, where Node Feature Discovery is; how many there were."""
    if not await client.serves(NODE_FEATURES):
        return 0
    count = 0
    async for page in client.list_pages(NODE_FEATURES, selection=Selection(labels=MANAGED_BY_US)):
        for raw in page.items or ():
            metadata = _NAMED.decode(raw).metadata
            await client.delete(NODE_FEATURES, metadata.name, namespace=metadata.namespace, uid=metadata.uid)
            count += 1
    return count


async def delete_definitions(client: Client, names: Sequence[str]) -> tuple[str, ...]:
    """Delete definitions and with them all of their objects; those that were there."""
    gone = []
    for name in names:
        try:
            await client.delete(CUSTOM_RESOURCE_DEFINITIONS, name)
        except NotFound:
            continue
        gone.append(name)
    return tuple(gone)


async def definitions_gone(client: Client, names: Sequence[str], limit_s: float) -> tuple[str, ...]:
    """Wait until deleted definitions are gone with all of their objects, at most so long; those left.

    The API server takes the objects away after it has answered, and an object with a finalizer of others
    keeps its definition there.
    """
    waited_s = 0.0
    while (left := [name for name in names if await _is_there(client, name)]) and waited_s < limit_s:
        await client.clock.sleep(POLL_EVERY_S)
        waited_s += POLL_EVERY_S
    return tuple(left)


async def _is_there(client: Client, definition: str) -> bool:
    try:
        await client.get(CUSTOM_RESOURCE_DEFINITIONS, definition)
    except NotFound:
        return False
    return True
