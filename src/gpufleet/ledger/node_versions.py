"""A node, and what its agent reports of its GPUs, as versions for the interval log."""

from collections.abc import Iterable

import msgspec

from gpufleet.kube.meanings.node_labels import (
    INSTANCE_TYPE,
    OLD_REGION,
    OLD_ZONE,
    PRODUCT_LABELS,
    REGION,
    ZONE,
)
from gpufleet.kube.meanings.startup_taints import STARTUP_ENDING, STARTUP_TAINTS
from gpufleet.kube.meanings.taken_back import TAKEN_BACK_TAINTS
from gpufleet.kube.objects.node_devices import HEALTHY, Holder, NodeDevices, ReportedDevice
from gpufleet.ledger.price_book import PricedNode
from gpufleet.ledger.stamped_objects import READY, TRUE, StampedNode, StampedObject, StampedTaint
from gpufleet.ledger.stamps import condition_moments, latest, metadata_moments, moment
from gpufleet.ledger.versions import DeviceHolder, DeviceState, DevicesVersion, NodeVersion
from gpufleet.model.device_id import device_name
from gpufleet.model.gpu_model import find
from gpufleet.model.grant import GrantedDevice, GrantKind
from gpufleet.model.identifiers import DeviceId, NodeName, PodUid
from gpufleet.model.quantity import parse_quantity
from gpufleet.model.spot import is_spot
from gpufleet.model.taint import CORDON

ON_DEMAND, SPOT = "on-demand", "spot"
"""Capacity types, as price books name them."""

DRAIN_TAINTS = (
    CORDON.key,
    *sorted(TAKEN_BACK_TAINTS),
    # Its other notices too: a charge does not ask how soon a node goes.
    "aws-node-termination-handler/",
)
"""Taints of nodes that are about to go, by how they begin."""


def node_version(raw: bytes | msgspec.Raw) -> NodeVersion:
    """What this version of a node says."""
    node = _NODE.decode(raw)
    metadata, spec, status = node.metadata, node.spec, node.status
    ready = next((one for one in status.conditions if one.type == READY), None)
    is_ready = ready is not None and ready.status == TRUE
    starting = [taint for taint in spec.taints if _begins(taint, STARTUP_TAINTS) or _is_agents(taint)]
    draining = [taint for taint in spec.taints if _begins(taint, DRAIN_TAINTS)]
    not_ready_us = None if ready is None or is_ready else moment(ready.last_transition_time)
    at_us = latest(metadata_moments(metadata), condition_moments(status.conditions), _added(spec.taints))
    return NodeVersion(
        metadata.uid,
        int(metadata.resource_version),
        at_us,
        NodeName(metadata.name),
        moment(metadata.creation_timestamp) or at_us,
        joins=not is_ready or bool(starting),
        drains=spec.unschedulable or bool(draining),
        joins_since_us=_earliest([not_ready_us, *_added(starting)]),
        drains_since_us=_earliest(_added(draining)),
        priced_as=priced_node(metadata.labels, spec.provider_id),
        provider_id=spec.provider_id,
        cpu_milli=parse_quantity(status.allocatable.get("cpu", "0")).milli_value(),
        memory_bytes=parse_quantity(status.allocatable.get("memory", "0")).value(),
    )


def priced_node(labels: dict[str, str], provider_id: str) -> PricedNode:
    """What prices go by, from the labels that clouds and discovery put on a node."""
    return PricedNode(
        provider_id.partition("://")[0],
        labels.get(REGION) or labels.get(OLD_REGION, ""),
        labels.get(ZONE) or labels.get(OLD_ZONE, ""),
        labels.get(INSTANCE_TYPE, ""),
        model_name(next((labels[key] for key in PRODUCT_LABELS if labels.get(key)), "")),
        SPOT if is_spot(labels) else ON_DEMAND,
        labels,
    )


def model_name(product: str) -> str:
    """The name that the catalogue has for a product, by which prices go too; else the product."""
    found = find(product) if product else None
    return product if found is None else found.name


def devices_version(raw: bytes | msgspec.Raw) -> DevicesVersion:
    """What this version of a report says."""
    report, metadata = _REPORT.decode(raw), _STAMPS.decode(raw).metadata
    at_us = latest(metadata_moments(metadata))
    return DevicesVersion(
        metadata.uid,
        int(metadata.resource_version),
        at_us,
        NodeName(metadata.name),
        tuple(map(_state, report.spec.devices)),
        tuple(_holder(one) for one in report.spec.holders if one.pod_uid),
        created_us=moment(metadata.creation_timestamp) or at_us,
    )


def _state(device: ReportedDevice) -> DeviceState:
    usable = device.usable_memory_mib
    return DeviceState(
        DeviceId(device.id),
        device.model,
        device.memory_mib if usable is None else usable,
        "" if device.health == HEALTHY else device.health,
        ill_since_us=_earliest(moment(taint.time_added or None) for taint in device.taints),
    )


def _holder(holder: Holder) -> DeviceHolder:
    name = device_name(DeviceId(holder.device))
    profile, start = holder.mig_profile, holder.mig_start
    if name.place is not None and profile is None:
        profile, start = name.place.profile, name.place.start
    kinds = {one.value: one for one in GrantKind}
    device = GrantedDevice(
        DeviceId(holder.device) if name.place is None else msgspec.structs.replace(name, place=None).id,
        kinds.get(holder.kind, GrantKind.WHOLE),
        holder.gpu_milli,
        holder.memory_mib,
        profile,
        start,
    )
    return DeviceHolder(PodUid(holder.pod_uid), device)


def _begins(taint: StampedTaint, keys: tuple[str, ...]) -> bool:
    return taint.key.startswith(keys)


def _is_agents(taint: StampedTaint) -> bool:
    return taint.key.endswith(STARTUP_ENDING)


def _added(taints: Iterable[StampedTaint]) -> list[int | None]:
    return [moment(one.time_added) for one in taints]


def _earliest(moments: Iterable[int | None]) -> int | None:
    return min((one for one in moments if one is not None), default=None)


_NODE = msgspec.json.Decoder(StampedNode)
_REPORT = msgspec.json.Decoder(NodeDevices)
_STAMPS = msgspec.json.Decoder(StampedObject)
