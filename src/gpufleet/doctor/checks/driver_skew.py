"""Nodes with the same GPUs and different drivers: an image runs on one and not on the other."""

from collections import Counter
from collections.abc import Iterator

from gpufleet.doctor.check import Check, Failure, Good, Grade, Layer, Point, Remedy, listed
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.objects.nodes import NodeView
from gpufleet.kube.meanings.node_labels import FULL_DRIVER, NVIDIA_PRODUCT, PRODUCTS
from gpufleet.model.fleet_policy import UPGRADE_STATE_LABEL
from gpufleet.model.gpu_catalogue import Vendor

UPGRADE = UPGRADE_STATE_LABEL
_LABELS = (FULL_DRIVER, "amd.com/gpu.driver-version")
_PRODUCTS = (NVIDIA_PRODUCT, PRODUCTS[Vendor.AMD])
"""Of the makers whose discovery labels the driver too."""


def judge(facts: Facts) -> Iterator[Failure | Good]:
    """Each product with more than one version; nodes that are being upgraded are left out."""
    versions: dict[str, dict[str, str]] = {}
    for node in facts.gpu_nodes:
        product, version = _first(node, _PRODUCTS), _driver(node)
        if product and version and node.labels.get(UPGRADE, "") in {"", "upgrade-done"}:
            versions.setdefault(product, {})[node.name] = version
    skewed = False
    for product, by_node in versions.items():
        counts = Counter(by_node.values())
        if len(counts) < 2:
            continue
        skewed = True
        # The version of most nodes counts as meant.
        usual, _ = counts.most_common(1)[0]
        other = [name for name, version in by_node.items() if version != usual]
        yield Failure(
            f"{listed(other)}: another driver than the other nodes with {product}",
            tuple(f"Node {name}" for name in other),
            (
                f"driver {usual} on {counts[usual]} node{'s' if counts[usual] > 1 else ''}",
                *(f"{name}: driver {by_node[name]}" for name in other),
            ),
            (
                Remedy(
                    "bring all nodes of a product to one version, one at a time and drained",
                    f"kubectl get nodes -L {NVIDIA_PRODUCT},{FULL_DRIVER}",
                ),
            ),
        )
    if versions and not skewed:
        yield Good("nodes with the same GPUs have the same driver")


def _first(node: NodeView, names: tuple[str, ...]) -> str:
    return next((node.labels[name] for name in names if node.labels.get(name)), "")


def _driver(node: NodeView) -> str:
    """The version that is labelled, or that its agent reports; empty if that is none.

    Nodes of a local cluster that are only played have no version.
    """
    told = _first(node, _LABELS)
    if not told and node.devices is not None:
        told = node.devices.root.text_at("spec", "driver") or ""
    return told if told[:1].isdecimal() else ""


CHECK = Check(
    "driver-skew",
    Point.STACK,
    Layer.DRIVER,
    "Nodes with the same GPUs have the same driver",
    "An image with a newer CUDA runs on one node and fails on its twin: the same pod works only sometimes.",
    judge,
    ("Node",),
    Grade.RISK,
)
