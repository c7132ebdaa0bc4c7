"""Which GPU resources a cluster offers, and under which names."""

from gpufleet.doctor.facts import Facts


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
    names = (one.root.at("spec", "extendedResourceName").text for one in facts.of_kind("DeviceClass"))
    return frozenset(name for name in names if name)
