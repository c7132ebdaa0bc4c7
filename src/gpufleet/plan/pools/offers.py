"""The types that Karpenter may buy from its NodePools, with what their nodes are like.

A NodePool names no prices and often no instances: it says what instances must be like. So each type of a
table of prices is held against each pool. In each zone that a pool names a type is an offer of its own.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

import msgspec

from gpufleet.kube.codec.node_pools import read_node_pool
from gpufleet.kube.meanings.node_labels import INSTANCE_TYPE, ZONE
from gpufleet.kube.meanings.node_pools import KARPENTER_NODE_POOL
from gpufleet.kube.objects import node_pools as wire
from gpufleet.kube.objects.node_overlays import NodeOverlay
from gpufleet.model.label_values import LabelValues
from gpufleet.model.model_errors import InputError
from gpufleet.model.node_pool import Amounts, NodePool
from gpufleet.model.phrases import counted, listed
from gpufleet.plan.instance_types import Catalogue, InstanceType
from gpufleet.plan.pools.instance_labels import PROVIDERS, labels_of_type
from gpufleet.plan.pools.overlays import Overlay, overlaid, read_overlays

POOLS = "--pools"
TYPES_NAMED_MAX = 5
"""So many types without a price are named in a note."""


class PoolObjects(msgspec.Struct, frozen=True):
    """NodePools and NodeOverlays, and where they are from."""

    pools: tuple[wire.NodePool, ...]
    overlays: tuple[NodeOverlay, ...]
    source: str


class Offers(msgspec.Struct, frozen=True):
    """What can be bought. ``left`` is by how much each pool may still grow, by resource."""

    catalogue: Catalogue
    left: Mapping[str, Amounts]
    notes: tuple[str, ...]


def offers_of(catalogue: Catalogue, found: PoolObjects, without: Collection[str] = ()) -> Offers:
    """What the pools offer of a table of prices, without some pools. Raises InputError where that is none."""
    overlays, notes = read_overlays(found.overlays)
    all_notes = list(notes)
    types: list[InstanceType] = []
    left: dict[str, Amounts] = {}
    bought = [one for one in found.pools if one.metadata.name not in without]
    for one in sorted(bought, key=lambda one: one.metadata.name):
        name, pool = one.metadata.name, read_node_pool(one)
        if one.spec.replicas is not None:
            all_notes.append(
                f"NodePool {name} has {counted(one.spec.replicas, 'node')}, whatever waits: left out"
            )
            continue
        if pool.has_gpus:
            offered = list(_of_pool(catalogue.types, pool, one, overlays))
            all_notes += _unknown_types(catalogue, pool)
            types += offered
            left[name] = dict(pool.left)
            if not offered:
                all_notes.append(f"NodePool {name} buys no type of {catalogue.source}")
    if not types:
        expected = "a NodePool that allows a type of the table of prices, or --catalogue with its types"
        raise InputError(f"no NodePool of {found.source} offers one", field=POOLS, expected=expected)
    weights = {one.metadata.name: one.spec.weight for one in bought if one.metadata.name in left}
    if len(set(weights.values())) > 1:
        first = max(sorted(weights), key=lambda name: weights[name])
        all_notes.append(
            f"Karpenter takes NodePools of a higher weight first, such as {first}; "
            "the plan goes by cost alone"
        )
    if overlays:
        all_notes.append("NodeOverlays count where Karpenter runs with the feature gate NodeOverlay")
    source = f"{catalogue.source}, for the NodePools of {found.source}"
    return Offers(Catalogue(tuple(types), source), left, tuple(all_notes))


def _of_pool(
    types: Sequence[InstanceType], pool: NodePool, written: wire.NodePool, overlays: Sequence[Overlay]
) -> Iterator[InstanceType]:
    for one in types:
        for zone in _zones(one, pool):
            placed = msgspec.structs.replace(one, zone=zone)
            labels = labels_of_type(placed)
            if all(_allows(values, key, labels) for key, values in pool.allowed.items()):
                own = {**labels, **_own_labels(pool, written)}
                changed = overlaid(placed, own, overlays)
                yield msgspec.structs.replace(
                    changed, pool=pool.name, labels=tuple(sorted(own.items())), taints=pool.taints
                )


def _allows(values: LabelValues, key: str, labels: Mapping[str, str]) -> bool:
    """Whether a requirement may hold of a node with these labels. Labels of one provider are on none of
    another's nodes; others that are not known here may have any value.
    """
    if key in labels:
        return values.accepts(labels[key])
    is_foreign = any(key.startswith(one) for one in PROVIDERS) and not any(
        name.startswith(provider) for provider in PROVIDERS if key.startswith(provider) for name in labels
    )
    return not is_foreign or values.accepts(None)


def _zones(one: InstanceType, pool: NodePool) -> tuple[str, ...]:
    """The zones in which the pool buys the type; "" where neither names one."""
    named = () if ZONE not in pool.allowed else _values(pool.allowed[ZONE])
    if one.zone or not named:
        return (one.zone,)
    # Zones are called after their region: us-east-1a, eastus-1.
    return tuple(zone for zone in named if zone.startswith(one.region))


def _values(allowed: LabelValues) -> tuple[str, ...]:
    """The values where they are listed."""
    return () if allowed.texts or allowed.ranges or allowed.absent else allowed.exceptions


def _own_labels(pool: NodePool, written: wire.NodePool) -> Mapping[str, str]:
    """The labels that the pool gives its nodes. Of several values that it allows a pod chooses, so the nodes
    of the plan have none of them.
    """
    template = written.spec.template
    found = {**template.metadata.labels, KARPENTER_NODE_POOL: pool.name}
    for one in template.spec.requirements:
        values = _values(pool.allowed[one.key])
        if len(values) == 1:
            found[one.key] = values[0]
    return found


def _unknown_types(catalogue: Catalogue, pool: NodePool) -> Iterator[str]:
    named = _values(pool.allowed[INSTANCE_TYPE]) if INSTANCE_TYPE in pool.allowed else ()
    known = {one.name for one in catalogue.types}
    missing = [name for name in named if name not in known]
    if missing:
        some = listed(missing[:TYPES_NAMED_MAX])
        more = f" and {len(missing) - TYPES_NAMED_MAX} more" if len(missing) > TYPES_NAMED_MAX else ""
        yield f"NodePool {pool.name} allows {some}{more}, of which no price is known: not planned"
