"""Required affinity to other pods, and anti-affinity both ways (kube-scheduler: InterPodAffinity)."""

import numpy as np

from gpufleet.engine.fleet import Fleet
from gpufleet.engine.reason import Reason
from gpufleet.engine.relations.asks import AffinityAsk, Asks
from gpufleet.engine.relations.census import Guise
from gpufleet.engine.relations.label_domains import LabelDomains
from gpufleet.engine.tables import BoolArray, Int64Array


def affinity_reasons(ask: AffinityAsk, fleet: Fleet, *, selects_itself: bool) -> Int64Array:
    """Nodes outside of the domains where pods run that every affinity term selects.

    All terms are met by the same pods. While no such pod is in any domain, a pod that its own terms
    select may be the first of its group; the node must still have every topology key.
    """
    near = np.ones(fleet.row_count, np.bool_)
    labelled = np.ones(fleet.row_count, np.bool_)
    alone = True
    for key in ask.topology_keys:
        domains = LabelDomains(fleet, key)
        sums = domains.sums(ask.selection.pods_by_node)
        alone = alone and not sums.any()
        near &= sums[domains.codes] > 0
        labelled &= domains.labelled
    accepted: BoolArray = labelled if alone and selects_itself else near
    return np.where(accepted, 0, int(Reason.POD_AFFINITY))


def anti_affinity_reasons(asks: Asks, fleet: Fleet) -> Int64Array:
    """Nodes in domains where pods run that one of the anti-affinity terms selects."""
    barred = np.zeros(fleet.row_count, np.bool_)
    for selection, key in asks.anti_affinity:
        if selection.pods_by_node:
            barred |= LabelDomains(fleet, key).of_nodes(selection.pods_by_node)
    return np.where(barred, int(Reason.POD_ANTI_AFFINITY), 0)


def others_reasons(guise: Guise, fleet: Fleet) -> Int64Array:
    """Nodes in domains of placed pods whose own anti-affinity selects this guise."""
    barred = np.zeros(fleet.row_count, np.bool_)
    for selection in guise.selections:
        for key, holders in selection.barriers.items():
            barred |= LabelDomains(fleet, key).of_nodes(holders)
    return np.where(barred, int(Reason.OTHERS_ANTI_AFFINITY), 0)
