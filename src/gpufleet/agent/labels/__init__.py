"""The node's labels: what its GPUs are, under the names that each vendor's own labeller gives.

``nvidia``, ``amd`` and ``intel`` make them from ``NodeGpus``, each purely; ``values`` makes texts valid.
``storage`` adds the disks of the node.
``publisher`` keeps them in the cluster: through ``node_feature`` where Node Feature Discovery is
installed, else ``on_node``.
"""

from gpufleet.agent.labels.amd import amd_labels
from gpufleet.agent.labels.intel import intel_labels
from gpufleet.agent.labels.nvidia import nvidia_labels
from gpufleet.agent.labels.values import Labels
from gpufleet.agent.state.node_state import NodeGpus
from gpufleet.model.gpu_catalogue import Vendor

PREFIXES: dict[Vendor, tuple[str, ...]] = {
    Vendor.NVIDIA: ("nvidia.com/",),
    Vendor.AMD: ("amd.com/", "beta.amd.com/"),
    Vendor.INTEL: ("gpu.intel.com/",),
}
"""With what the labels of a vendor begin."""


def node_labels(known: NodeGpus, machine: str) -> Labels:
    """All labels of a node; ``machine`` is the name of its type."""
    return {**nvidia_labels(known, machine), **amd_labels(known), **intel_labels(known)}
