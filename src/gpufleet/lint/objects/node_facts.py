"""What the labels of a node tell of its GPU and its driver, in the terms of ``gpufleet.cuda``."""

import functools

from gpufleet.cuda.node import NodeFacts, read_node
from gpufleet.kube.meanings.node_labels import DRIVER_LABELS, NVIDIA_PRODUCT, labelled_driver
from gpufleet.lint.objects.cluster import ClusterNode
from gpufleet.model.model_errors import InputError

TELLING_LABELS = (NVIDIA_PRODUCT, *DRIVER_LABELS)
"""The labels that the facts come from: nodes in which they are the same have the same facts."""


def node_facts(node: ClusterNode) -> NodeFacts:
    """Driver and GPU as feature discovery labels them; what is not labelled is not known."""
    return _facts(tuple((name, node.labels[name]) for name in TELLING_LABELS if name in node.labels))


@functools.lru_cache(maxsize=1024)
def _facts(labels: tuple[tuple[str, str], ...]) -> NodeFacts:
    told = dict(labels)
    try:
        gpu = read_node(None, told.get(NVIDIA_PRODUCT)).gpu
    except InputError:
        # A card that no catalogue has: nothing is known of it.
        gpu = None
    return NodeFacts(labelled_driver(told), gpu)
