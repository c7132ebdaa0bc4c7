"""Which nodes a shape accepts and which accept it: selectors, affinity, taints, cordons, features, reports.

The answer is a set of reasons a node, worked out for all nodes at once when a shape is first seen
(``labels_by_column``) and for one node when that node's labels or taints change. Amounts are
``place.score.fit``'s business, what other pods decide is that of ``place.relations``.
"""

import operator
from functools import partial

import numpy as np

from gpufleet.engine.arrays.array_types import BoolArray, Int64Array
from gpufleet.engine.node_reasons.cordoned import BIT as CORDONED
from gpufleet.engine.node_reasons.cuda_driver import BIT as CUDA_DRIVER
from gpufleet.engine.node_reasons.data_missing import BIT as DATA_MISSING
from gpufleet.engine.node_reasons.feature import BIT as FEATURE
from gpufleet.engine.node_reasons.gpu_unreported import BIT as GPU_UNREPORTED
from gpufleet.engine.node_reasons.gpu_vendor import BIT as GPU_VENDOR
from gpufleet.engine.node_reasons.no_agent import BIT as NO_AGENT
from gpufleet.engine.node_reasons.node_not_ready import BIT as NODE_NOT_READY
from gpufleet.engine.node_reasons.node_not_ready import is_of_readiness
from gpufleet.engine.node_reasons.rejects_pods import BIT as REJECTS_PODS
from gpufleet.engine.node_reasons.selector import BIT as SELECTOR
from gpufleet.engine.node_reasons.taint import BIT as TAINT
from gpufleet.engine.node_reasons.volume_affinity import BIT as VOLUME_AFFINITY
from gpufleet.engine.state.fleet import Fleet
from gpufleet.model.cuda_compatibility import DRIVER_FEATURES
from gpufleet.model.data import DataNeeds, DataPolicy
from gpufleet.model.identifiers import NodeName
from gpufleet.model.labels import NodeAffinity, NodeTerm, Operator
from gpufleet.model.node import Node
from gpufleet.model.resource_names import is_mig_instance
from gpufleet.model.shape import Shape
from gpufleet.model.taint import CORDON, Taint, untolerated


def node_reasons(shape: Shape, node: Node) -> int:
    """The reasons of labels, taints and cordon against one node, as bits (``node_reasons``)."""
    found = 0
    if node.unschedulable and untolerated((CORDON,), shape.tolerations) is not None:
        found |= CORDONED
    found |= taint_reasons(node.taints_beside_cordon, shape)
    selected = all(node.labels.get(key) == value for key, value in shape.node_selector)
    if not (selected and shape.affinity.accepts(node.labels, node.name)):
        found |= SELECTOR
    if not all(one.accepts(node.labels, node.name) for one in shape.volume_affinities):
        found |= VOLUME_AFFINITY
    found |= feature_reasons(node, shape.features)
    if not counts_gpus_as(node, shape.gpu_resource):
        found |= GPU_VENDOR
    if node.unreported and asks_for_gpus(shape):
        found |= GPU_UNREPORTED
    if node.counted_only and asks_for_shares(shape):
        found |= NO_AGENT
    if not has_required_data(node, shape.relations.data):
        found |= DATA_MISSING
    return found


def reasons_at(shape: Shape, fleet: Fleet, row: int) -> int:
    """The reasons of ``node_reasons``, without the cordon of a node that is opened for a moment."""
    return node_reasons(shape, fleet.node_at(row)) & ~(CORDONED if row in fleet.opened else 0)


def distrust_reasons(fleet: Fleet, node: Node) -> int:
    """The reason against every shape of a node whose kubelet turns pods away, as bits (``node_reasons``)."""
    return REJECTS_PODS if node.name in fleet.distrusted else 0


def fleet_reasons(shape: Shape, fleet: Fleet) -> Int64Array:
    """Every node row's reasons at once, and distrust; rows without a node hold any value."""
    reasons = np.zeros(fleet.row_count, np.int64)
    for name in fleet.distrusted & fleet.row_by_name.keys():
        reasons[fleet.row_by_name[name]] |= REJECTS_PODS
    reasons[~selected_nodes(shape, fleet)] |= SELECTOR
    for affinity in shape.volume_affinities:
        reasons[~nodes_of_affinity(affinity, fleet)] |= VOLUME_AFFINITY
    if shape.features:
        reasons |= reasons_by_features(shape.features, fleet)
    if shape.gpu_resource:
        reasons[~nodes_of_vendor(shape.gpu_resource, fleet)] |= GPU_VENDOR
    data = shape.relations.data
    if data.policy is DataPolicy.REQUIRE:
        reasons[~fleet.data.has_all(data.asks, fleet.row_count)] |= DATA_MISSING
    # Thousands of nodes have the same few taints, so each set of them is judged once.
    verdict_by_taints: dict[tuple[Taint, ...], int] = {}
    # For Kubernetes a cordon is a taint, which a pod may tolerate.
    cordon = 0 if untolerated((CORDON,), shape.tolerations) is None else CORDONED
    unreported = GPU_UNREPORTED if asks_for_gpus(shape) else 0
    without_agent = NO_AGENT if asks_for_shares(shape) else 0
    for row in fleet.particular_rows:
        node = fleet.node_at(row)
        if node.unreported:
            reasons[row] |= unreported
        if node.counted_only:
            reasons[row] |= without_agent
        taints = node.taints_beside_cordon
        if taints not in verdict_by_taints:
            verdict_by_taints[taints] = taint_reasons(taints, shape)
        reasons[row] |= verdict_by_taints[taints]
        if node.unschedulable and row not in fleet.opened:
            reasons[row] |= cordon
    return reasons


def has_required_data(node: Node, data: DataNeeds) -> bool:
    """True if the node has complete copies of all data without which the pod does not start."""
    if data.policy is not DataPolicy.REQUIRE:
        return True
    return all(ask.is_met_by(node.data) for ask in data.asks)


def asks_for_shares(shape: Shape) -> bool:
    """True if the shape asks for parts of GPUs."""
    return shape.gpu.count > 0 and not shape.gpu.whole


def asks_for_gpus(shape: Shape) -> bool:
    """True if the shape asks for GPUs, shares of them, or MIG instances by their own names."""
    return shape.gpu.count > 0 or any(is_mig_instance(name) for name, _ in shape.resources.other)


def selected_nodes(shape: Shape, fleet: Fleet) -> BoolArray:
    """For each node row, whether node selector and affinity accept it."""
    rows = fleet.row_count
    selected = np.ones(rows, np.bool_)
    for key, wanted in shape.node_selector:
        selected &= fleet.labels.where(key, partial(operator.eq, wanted), rows)
    if shape.affinity.terms is not None:
        selected &= nodes_of_affinity(shape.affinity, fleet)
    return selected


def nodes_of_affinity(affinity: NodeAffinity, fleet: Fleet) -> BoolArray:
    """For each node row, whether one of the affinity's terms accepts it; without terms, all are accepted."""
    if affinity.terms is None:
        return np.ones(fleet.row_count, np.bool_)
    any_term = np.zeros(fleet.row_count, np.bool_)
    for term in affinity.terms:
        any_term |= nodes_of_term(term, fleet)
    return any_term


def taint_reasons(taints: tuple[Taint, ...], shape: Shape) -> int:
    """The reasons of taints that the shape does not tolerate."""
    found = 0
    for taint in taints:
        if untolerated((taint,), shape.tolerations) is not None:
            found |= NODE_NOT_READY if is_of_readiness(taint) else TAINT
    return found


def feature_reasons(node: Node, features: tuple[str, ...]) -> int:
    """The reasons of features that the node does not declare."""
    found = 0
    for feature in features:
        if feature not in node.features:
            found |= CUDA_DRIVER if feature in DRIVER_FEATURES else FEATURE
    return found


def counts_gpus_as(node: Node, gpu_resource: str) -> bool:
    """True if the node's GPUs, as far as is known, are counted under this name; "" stands for any."""
    return not gpu_resource or not node.gpu_resources or gpu_resource in node.gpu_resources


def nodes_of_vendor(gpu_resource: str, fleet: Fleet) -> BoolArray:
    """For each node row, whether it may have GPUs of this name."""
    # A node without a name for its GPUs may have any.
    verdicts = (node is not None and counts_gpus_as(node, gpu_resource) for node in fleet.nodes)
    return np.fromiter(verdicts, np.bool_, fleet.row_count)


def reasons_by_features(features: tuple[str, ...], fleet: Fleet) -> Int64Array:
    """For each node row, the reasons of features that the node does not declare."""
    found = (0 if node is None else feature_reasons(node, features) for node in fleet.nodes)
    return np.fromiter(found, np.int64, fleet.row_count)


def nodes_of_term(term: NodeTerm, fleet: Fleet) -> BoolArray:
    """For each node row, whether it meets every requirement of the term; without any, none does."""
    rows = fleet.row_count
    # An empty term matches nothing, as in kube-scheduler.
    if not term.expressions and not term.fields:
        return np.zeros(rows, np.bool_)
    selected = np.ones(rows, np.bool_)
    for requirement in term.expressions:
        selected &= fleet.labels.where(requirement.key, requirement.accepts_value, rows)
    for field in term.fields:
        named = np.zeros(rows, np.bool_)
        row = fleet.row_by_name.get(NodeName(field.name))
        if row is not None:
            named[row] = True
        selected &= named if field.operator is Operator.IN else ~named
    return selected
