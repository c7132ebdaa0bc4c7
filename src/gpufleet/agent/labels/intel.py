"""The labels that Intel's rules for Node Feature Discovery make of GPUs.

Intel ships no labeller of its own: its NodeFeatureRule ``intel-gpu-platform-labeling`` makes these from PCI
ids. Counts and products are those of the rule, which knows one product on a node; of several the one with
the most GPUs is told.
"""

import re
from collections import Counter

from gpufleet.agent.labels.values import Labels, gpus_of
from gpufleet.agent.state.node_state import NodeGpus
from gpufleet.model.gpu_catalogue import Vendor

DOMAIN = "gpu.intel.com"
# Of devices of these classes the rule counts each.
DISPLAY_CLASSES = (0x0300, 0x0380)
_PRODUCT = re.compile(r"\b(Max|Flex) ([0-9]+)\b")
_ARC_A = re.compile(r"\bArc(?: Pro)? A[0-9]+")


def intel_labels(known: NodeGpus) -> Labels:
    """The labels of a node's Intel GPUs; none without any."""
    gpus = [gpu.facts for gpu in gpus_of(known, Vendor.INTEL)]
    found: Labels = {}
    kinds = Counter(
        f"{gpu.pci_class >> 8:04x}-{gpu.pci_device:04x}"
        for gpu in gpus
        if gpu.pci_class is not None and gpu.pci_device is not None and gpu.pci_class >> 8 in DISPLAY_CLASSES
    )
    for kind, count in kinds.items():
        found[f"{DOMAIN}/device-id.{kind}.present"] = "true"
        found[f"{DOMAIN}/device-id.{kind}.count"] = str(count)
    products = Counter(gpu.product for gpu in gpus)
    if not products:
        return found
    product = max(products, key=products.__getitem__)
    named = _PRODUCT.search(product)
    if named is not None:
        found[f"{DOMAIN}/product"] = f"{named[1]}_{named[2]}"
        found[f"{DOMAIN}/family"] = f"{named[1]}_Series"
        found[f"{DOMAIN}/device.count"] = str(products[product])
    elif _ARC_A.search(product):
        found[f"{DOMAIN}/family"] = "A_Series"
    return found
