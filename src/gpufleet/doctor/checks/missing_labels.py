"""Nodes with GPUs that have no labels of feature discovery, although something in the cluster writes them."""

from collections.abc import Iterator

from gpufleet.doctor.check import Check, Failure, Good, Layer, Point, Remedy, listed
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.objects.nodes import NodeView
from gpufleet.doctor.views.stack import StackPart, product_writers, stack_of
from gpufleet.kube.meanings import node_labels
from gpufleet.model.gpu_catalogue import Vendor

PRODUCTS = {vendor: node_labels.PRODUCTS[vendor] for vendor in (Vendor.NVIDIA, Vendor.AMD)}
"""Intel's rules label no product where they do not know the card."""


def judge(facts: Facts) -> Iterator[Failure | Good]:
    """The nodes by the label that they lack."""
    with_gpus = [one for one in facts.gpu_nodes if one.offers]
    writers = [one.template for one in stack_of(facts).having(StackPart.FEATURES)]
    written = {PRODUCTS[vendor] for one in writers for vendor in product_writers(one) & PRODUCTS.keys()}
    if any(one.device_fields for one in with_gpus):
        written.update(PRODUCTS.values())
    lacking: dict[str, list[NodeView]] = {}
    for node in with_gpus:
        for vendor in node.vendors & PRODUCTS.keys():
            if not _has_product(node, PRODUCTS[vendor]):
                lacking.setdefault(PRODUCTS[vendor], []).append(node)
    for label, nodes in lacking.items():
        # A label that nothing writes and no node has is not used in this cluster.
        if label in written or any(label in one.labels for one in facts.gpu_nodes):
            yield _failure(facts, label, nodes)
    if with_gpus and not lacking:
        yield Good("every GPU node is labelled with its product")


def _has_product(node: NodeView, label: str) -> bool:
    """AMD's labeller names several products on a node, and in its old form all, within the key."""
    return any(name.removeprefix("beta.").startswith(label) for name in node.labels)


def _failure(facts: Facts, label: str, nodes: list[NodeView]) -> Failure:
    names = [one.name for one in nodes]
    selecting = {
        title
        for work in facts.gpu_workloads
        if any(_selects_by(one.spec.at("nodeSelector").entries(), label) for one in work.manifest.templates)
        for title in work.affects
    }
    return Failure(
        f"{listed(names)}: GPUs, and no label {label}",
        tuple(one.title for one in nodes),
        tuple(
            f"{one.name}: {', '.join(f'{name} {n}' for name, n in one.allocatable.items())}" for one in nodes
        ),
        (
            Remedy(
                "look at the pod of feature discovery, or of gpufleet's agent, on the node",
                f"kubectl get pods -A -o wide --field-selector spec.nodeName={names[0]}",
            ),
        ),
        frozenset(one.title for one in nodes) | selecting,
    )


def _selects_by(entries: Iterator[tuple[str, object]], label: str) -> bool:
    return any(name == label for name, _ in entries)


CHECK = Check(
    "labels-missing",
    Point.PLACING,
    Layer.OFFER,
    "GPU nodes are labelled with their product",
    "Work that selects a product by its label never goes to a node without it.",
    judge,
    ("Node",),
)
