"""Configurations of sharing that a plugin or gpufleet's agent refuses, with the field that is wrong."""

from collections.abc import Iterator

from gpufleet.devices.sharing.nvidia_places import NVIDIA_NAMES
from gpufleet.doctor.check import Check, Failure, Layer, Point, Remedy, listed
from gpufleet.doctor.checks.missing_sharing_config import failure_of
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.live.references import CONFIG_MAPS_OF_GUIDES, config_maps_of_stack
from gpufleet.doctor.objects.nodes import NodeView
from gpufleet.doctor.views.sharing import declared_for, shared_names
from gpufleet.doctor.views.stack import stack_of
from gpufleet.doctor.views.warnings import warnings_of
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.model.gpu_catalogue import Vendor

REFUSED = "SharingConfigRefused"
NVIDIA = "nvidia.com/"
SHARED = ".shared"
"""What the plugin appends to a resource that it renames."""

RECENT_S = 3600.0
"""The configuration may have been corrected since an older event."""


def judge(facts: Facts) -> Iterator[Failure]:
    """The nodes by configuration and field; what an agent said counts where we cannot read the same."""
    stack = stack_of(facts)
    told = {
        one.subject: one.message
        for one in warnings_of(facts)
        if one.reason == REFUSED and one.age_s(facts.now) < RECENT_S
    }
    refused: dict[tuple[str, str], list[NodeView]] = {}
    for node in facts.gpu_nodes:
        declared = declared_for(facts, stack, node)
        if declared is not None and declared.problem and not declared.is_missing:
            refused.setdefault((declared.where, declared.problem), []).append(node)
        elif declared is None and node.title in told:
            refused.setdefault(("its configuration", told[node.title]), []).append(node)
    for (where, problem), nodes in refused.items():
        yield failure_of(facts, where, problem, nodes)
    yield from _of_nothing(facts)


def _of_nothing(facts: Facts) -> Iterator[Failure]:
    """NVIDIA's configurations of which no entry names a resource that any node offers."""
    nodes = [one for one in facts.gpu_nodes if Vendor.NVIDIA in one.vendors]
    # A node that offers nothing may be one of those that a configuration is for.
    if not nodes or not all(one.offers for one in nodes):
        return
    offered = {name.removesuffix(SHARED) for one in nodes for name, count in one.capacity.items() if count}
    of_stack = config_maps_of_stack(facts.objects)
    for one in facts.of_kind("ConfigMap"):
        if one.name not in NVIDIA_NAMES and (one.namespace, one.name) not in of_stack:
            continue
        named = shared_names(one)
        if named and offered.isdisjoint(named):
            yield _names_nothing(one, named, offered)


def _names_nothing(config_map: Manifest, named: frozenset[str], offered: set[str]) -> Failure:
    words, there = listed(sorted(named)), listed(sorted(name for name in offered if name.startswith(NVIDIA)))
    place = f"-n {config_map.namespace} {config_map.name}"
    return Failure(
        f"{config_map.title} shares {words}, which no node offers",
        (config_map.title,),
        (f"{config_map.title}: names {words}", f"nodes offer {there}"),
        (Remedy(f"name what nodes offer, {there}", f"kubectl edit configmap {place}"),),
    )


CHECK = Check(
    "sharing-config-refused",
    Point.SHARING,
    Layer.DRIVER,
    "Sharing configurations can be used",
    "NVIDIA's plugin ends over what it cannot read; gpufleet's agent keeps the last good configuration.",
    judge,
    ("Node", "DaemonSet", "Pod", CONFIG_MAPS_OF_GUIDES),
)
