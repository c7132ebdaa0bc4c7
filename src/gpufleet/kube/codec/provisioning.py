"""Where a volume can be made for a claim that waits for its first consumer.

The class may allow some topologies only; a driver that reports its capacity must have room for the
claim there; and once a node was chosen, before a restart of ours or by another scheduler, it is
that node until the provisioner gives it up.
"""

from collections.abc import Iterable

from gpufleet.kube import resources
from gpufleet.kube.codec import selectors
from gpufleet.kube.codec.field_path import inside, of_object
from gpufleet.kube.codec.lookup import Lookup
from gpufleet.kube.codec.static_volumes import requested_size
from gpufleet.kube.kube_errors import ObjectError
from gpufleet.kube.objects.storage import (
    NO_PROVISIONER,
    STORAGE,
    CsiDriver,
    CsiStorageCapacity,
    PersistentVolumeClaim,
    StorageClass,
)
from gpufleet.model.labels import NodeAffinity, NodeNameRequirement, NodeTerm, Operator, Requirement
from gpufleet.model.quantity import Quantity, parse_quantity

Terms = list[tuple[Requirement, ...]]
EVERYWHERE: Terms = [()]
"""One term without conditions: a volume can be made for any node."""


def provisions(storage_class: StorageClass) -> bool:
    """True if a provisioner makes volumes of this class on demand."""
    return storage_class.provisioner not in {"", NO_PROVISIONER}


def provision_reach(
    claim: PersistentVolumeClaim, storage_class: StorageClass, selected_node: str | None, lookup: Lookup
) -> tuple[NodeAffinity, ...] | None:
    """Where a volume can be made; None without a provisioner, () if there is room nowhere."""
    if not provisions(storage_class):
        return None
    with of_object("storage class", storage_class.metadata.name):
        allowed = _allowed(storage_class)
    with_room = _with_room(claim, storage_class, lookup)
    combined = [selectors.distinct((*topology, *room)) for topology in allowed for room in with_room]
    names = () if selected_node is None else (NodeNameRequirement(Operator.IN, selected_node),)
    return tuple(_reach(expressions, names) for expressions in dict.fromkeys(combined))


def _reach(expressions: tuple[Requirement, ...], names: tuple[NodeNameRequirement, ...]) -> NodeAffinity:
    """A term without any condition matches no node, so what is allowed everywhere has no terms."""
    return NodeAffinity((NodeTerm(expressions, names),)) if expressions or names else NodeAffinity()


def _allowed(storage_class: StorageClass) -> Terms:
    if not storage_class.allowed_topologies:
        return EVERYWHERE
    found = []
    for position, term in enumerate(storage_class.allowed_topologies):
        with inside(f"allowedTopologies[{position}]"):
            expressions = tuple(
                Requirement(one.key, Operator.IN, one.values) for one in term.match_label_expressions
            )
        if expressions:
            found.append(expressions)
    return found


def _with_room(claim: PersistentVolumeClaim, storage_class: StorageClass, lookup: Lookup) -> Terms:
    """Where the driver reports enough capacity; everywhere if it reports none."""
    if STORAGE not in claim.spec.resources.requests:
        return EVERYWHERE
    driver: CsiDriver | None = lookup.find(resources.CSI_DRIVERS, storage_class.provisioner)
    if driver is None or not driver.spec.storage_capacity:
        return EVERYWHERE
    size = requested_size(claim)
    return _merged(
        capacity
        for capacity in lookup.all(resources.CSI_STORAGE_CAPACITIES)
        if capacity.storage_class_name == storage_class.metadata.name and _is_enough(capacity, size)
    )


def _is_enough(capacity: CsiStorageCapacity, size: Quantity) -> bool:
    # As kube-scheduler: a driver that tells its largest volume may have more in all, but not in one piece.
    text = capacity.maximum_volume_size or capacity.capacity
    # The API has such a capacity count as 0.
    if text is None:
        return False
    try:
        return not parse_quantity(text) < size
    except ValueError:
        return False


def _merged(capacities: Iterable[CsiStorageCapacity]) -> Terms:
    """One condition for each way of selecting. Drivers of local disks report each node on its own;
    those thousands become one list of values.
    """
    values: dict[str, set[str]] = {}
    others: Terms = []
    for capacity in capacities:
        try:
            selector = selectors.label_selector(capacity.node_topology, "nodeTopology")
        except ObjectError:
            continue  # A capacity that cannot be read counts as no room.
        # Without a topology no node reaches the storage: so the API defines it, unlike an empty one.
        if selector is None:
            continue
        only = selector.requirements[0] if len(selector.requirements) == 1 else None
        if only is not None and only.operator is Operator.IN:
            values.setdefault(only.key, set()).update(only.values)
        else:
            others.append(selector.requirements)
    listed: Terms = [(Requirement(key, Operator.IN, tuple(found)),) for key, found in sorted(values.items())]
    return [*listed, *others]
