"""Links between nodes that are fast enough to divide layers over: RDMA, EFA, NVLink across nodes.

A pod that is to use one asks for it, as a resource of its network cards, or mounts their devices. Where it
has claims, further networks or the node's own, it may use one, of which a manifest does not tell.
"""

import re
from collections.abc import Iterable

from gpufleet.lint.objects.amounts import amount
from gpufleet.lint.objects.cluster import ClusterNode
from gpufleet.lint.objects.containers import Container
from gpufleet.lint.objects.pods import PodTemplate

CLIQUE = "nvidia.com/gpu.clique"
"""GPUs of nodes with one value are in one NVLink domain (feature discovery writes cluster and clique)."""

_RESOURCE = re.compile(
    r"^rdma/|^vpc\.amazonaws\.com/efa$|^networking\.gke\.io\.networks/rdma|rdma|/hca|/roce|infiniband|(^|/)mlnx|mellanox"
)
_DEVICES = "/dev/infiniband"
# Annotations by which a pod gets further network cards.
_NETWORKS = ("k8s.v1.cni.cncf.io/networks", "networking.gke.io/interfaces")


def uses_fast_link(templates: Iterable[PodTemplate]) -> bool | None:
    """Whether the pods with GPUs among these use such a link; None where they may."""
    answers = [_uses(one) for one in templates if one.device_count]
    if answers and all(answers):
        return True
    return None if None in answers else False


def asks_for_link(container: Container) -> bool:
    """Whether a container asks for a network card of such a link."""
    return any(map(_RESOURCE.search, container.asked_names))


def mounts_link(template: PodTemplate) -> bool:
    """Whether a pod has the node's own files of such cards."""
    return any((one.host_path or "").startswith(_DEVICES) for one in template.volumes)


def _uses(template: PodTemplate) -> bool | None:
    if any(map(asks_for_link, template.containers)) or mounts_link(template):
        return True
    may = (
        template.spec.at("hostNetwork").is_true
        or bool(template.spec.at("resourceClaims").items())
        or any(template.annotation(name) is not None for name in _NETWORKS)
    )
    return None if may else False


def offered_links(nodes: Iterable[ClusterNode]) -> tuple[str, ...]:
    """The resources by which pods get such a link on one of these nodes."""
    found = set()
    for node in nodes:
        for name, field in node.manifest.root.at("status", "allocatable").entries():
            count = amount(field.text)
            if _RESOURCE.search(name) and count is not None and count.nano > 0:
                found.add(name)
    return tuple(sorted(found))
