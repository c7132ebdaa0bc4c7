"""Which GPUs a cluster offers: under which names of resources, and by DRA."""

from gpufleet.doctor.facts import Facts
from gpufleet.model.gpu_drivers import is_gpu_driver


def offered_names(facts: Facts) -> frozenset[str]:
    """The GPU resources of which some node has any to give."""
    return frozenset(name for node in facts.nodes for name, count in node.allocatable.items() if count)


def known_names(facts: Facts) -> frozenset[str]:
    """Every resource that a kubelet knows of, and those that are given out by claims."""
    parts = ("capacity", "allocatable")
    of_nodes = (node.manifest.root.at("status", part).entries() for node in facts.nodes for part in parts)
    return frozenset(name for entries in of_nodes for name, _ in entries) | by_claims(facts)


def by_claims(facts: Facts) -> frozenset[str]:
    """Resources that no kubelet counts, because the scheduler makes claims of them (DRA)."""
    names = (one.root.text_at("spec", "extendedResourceName") for one in facts.of_kind("DeviceClass"))
    return frozenset(name for name in names if name)


def nodes_with_slices(facts: Facts) -> frozenset[str]:
    """The names of nodes with GPUs that a DRA driver publishes in ResourceSlices: no kubelet counts these."""
    specs = (one.root.at("spec") for one in facts.of_kind("ResourceSlice"))
    return frozenset(
        one.text_at("nodeName") or ""
        for one in specs
        if one.at("devices").items() and is_gpu_driver(one.text_at("driver") or "")
    )
