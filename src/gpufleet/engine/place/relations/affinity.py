"""Required affinity to other pods, and anti-affinity both ways (kube-scheduler: InterPodAffinity).

A pod for which a place is only kept may never come. So it keeps others off like a pod that is there, and
meets the affinity of none.
"""

import numpy as np

from gpufleet.engine.arrays.array_types import BoolArray, Int64Array
from gpufleet.engine.node_reasons.others_anti_affinity import BIT as OTHERS_ANTI_AFFINITY
from gpufleet.engine.node_reasons.pod_affinity import BIT as POD_AFFINITY
from gpufleet.engine.node_reasons.pod_anti_affinity import BIT as POD_ANTI_AFFINITY
from gpufleet.engine.place.relations.asks import AffinityAsk, Asks
from gpufleet.engine.place.relations.equivalence_classes import CountByNode, EquivalenceClass
from gpufleet.engine.place.relations.label_domains import LabelDomains
from gpufleet.engine.state.fleet import Fleet


def affinity_reasons(ask: AffinityAsk, fleet: Fleet, *, selects_itself: bool) -> Int64Array:
    """Nodes outside of the domains where pods run that every affinity term selects.

    All terms are met by the same pods. While no such pod is in any domain, a pod that its own terms
    select may be the first of its group; the node must still have every topology key. Where a place is
    kept for one of its group it is not the first, and not near any pod yet: both must leave it the node.
    """
    selection = ask.selection
    accepted = accepting(ask, selection.pods_by_node, fleet, selects_itself=selects_itself)
    if selection.kept_by_node:
        accepted &= accepting(ask, selection.there_by_node(), fleet, selects_itself=selects_itself)
    return np.where(accepted, 0, POD_AFFINITY)


def accepting(
    ask: AffinityAsk, pods_by_node: CountByNode, fleet: Fleet, *, selects_itself: bool
) -> BoolArray:
    """Nodes in the domains of these pods, or all that have the topology keys if there is none of them."""
    near = np.ones(fleet.row_count, np.bool_)
    labelled = np.ones(fleet.row_count, np.bool_)
    alone = True
    for key in ask.topology_keys:
        domains = LabelDomains(fleet, key)
        sums = domains.sums(pods_by_node)
        alone = alone and not sums.any()
        # A node without the label has the code of the last sum, which is 0.
        near &= sums[domains.codes] > 0
        labelled &= domains.labelled
    return labelled if alone and selects_itself else near


def anti_affinity_reasons(asks: Asks, fleet: Fleet) -> Int64Array:
    """Nodes in domains where pods run that one of the anti-affinity terms selects."""
    barred = np.zeros(fleet.row_count, np.bool_)
    for selection, key in asks.anti_affinity:
        if selection.pods_by_node:
            barred |= LabelDomains(fleet, key).of_nodes(selection.pods_by_node)
    return np.where(barred, POD_ANTI_AFFINITY, 0)


def others_reasons(pod_class: EquivalenceClass, fleet: Fleet) -> Int64Array:
    """Nodes in domains of placed pods whose own anti-affinity selects this class."""
    barred = np.zeros(fleet.row_count, np.bool_)
    for selection in pod_class.selections:
        for key, holders in selection.barriers.items():
            barred |= LabelDomains(fleet, key).of_nodes(holders)
    return np.where(barred, OTHERS_ANTI_AFFINITY, 0)
