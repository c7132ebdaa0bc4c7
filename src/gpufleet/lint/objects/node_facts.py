"""What the labels of a node tell of its GPU and its driver, in the terms of ``gpufleet.cuda``."""

import functools

import msgspec

from gpufleet.cuda.node import NodeFacts, read_node
from gpufleet.kube.codec.cuda import (
    DRIVER_LABELS,
    FULL_DRIVER_LABEL,
    OLDER_DRIVER_LABELS,
    PRODUCT_LABEL,
    known_driver,
)
from gpufleet.kube.objects import node as wire
from gpufleet.lint.objects.cluster import ClusterNode
from gpufleet.model.errors import InputError

TELLING_LABELS = (PRODUCT_LABEL, FULL_DRIVER_LABEL, *DRIVER_LABELS, *OLDER_DRIVER_LABELS)
"""The labels that the facts come from: nodes in which they are the same have the same facts."""


def node_facts(node: ClusterNode) -> NodeFacts:
    """Driver and GPU as feature discovery labels them; what is not labelled is not known."""
    return _facts(tuple((name, node.labels[name]) for name in TELLING_LABELS if name in node.labels))


@functools.lru_cache(maxsize=1024)
def _facts(labels: tuple[tuple[str, str], ...]) -> NodeFacts:
    told = dict(labels)
    driver = known_driver(msgspec.convert({"metadata": {"labels": told}}, wire.Node), None)
    try:
        gpu = read_node(None, told.get(PRODUCT_LABEL)).gpu
    except InputError:
        # A card that no catalogue has: nothing is known of it.
        gpu = None
    return NodeFacts(driver, gpu)
