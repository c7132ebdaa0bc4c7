"""Topology spread constraints (kube-scheduler: PodTopologySpread).

Counted are the selected pods of the pod's own namespace that were not told to end, on nodes that have
every topology key of the constraints and that the pod's own selector, affinity and tolerations do not
rule out, as far as the constraint honours these. Putting the pod into a domain must not leave it with
more than ``max_skew`` above the emptiest domain, neither if the pods come for which places are only kept nor
if they do not.
"""

import numpy as np

from gpufleet.engine.arrays.array_types import BoolArray, Int64Array
from gpufleet.engine.node_reasons.spread import BIT as SPREAD
from gpufleet.engine.place.relations.asks import Asks, SpreadAsk
from gpufleet.engine.place.relations.equivalence_classes import CountByNode
from gpufleet.engine.place.relations.label_domains import LabelDomains
from gpufleet.engine.state.fleet import Fleet


def spread_reasons(asks: Asks, fleet: Fleet) -> Int64Array:
    """Nodes on which a required constraint would be broken."""
    barred = np.zeros(fleet.row_count, np.bool_)
    domains = [LabelDomains(fleet, ask.constraint.topology_key) for ask in asks.spread]
    labelled = all_labelled(domains, fleet)
    for ask, of_key in zip(asks.spread, domains, strict=True):
        barred |= skewed(ask, of_key, labelled & honoured(ask, asks, fleet)) | ~of_key.labelled
    return np.where(barred, SPREAD, 0)


def all_labelled(domains: list[LabelDomains], fleet: Fleet) -> BoolArray:
    """Nodes that have every topology key."""
    labelled = np.ones(fleet.row_count, np.bool_)
    for of_key in domains:
        labelled &= of_key.labelled
    return labelled


def honoured(ask: SpreadAsk, asks: Asks, fleet: Fleet) -> BoolArray:
    """Nodes that the constraint does not leave out of its count."""
    counted = np.ones(fleet.row_count, np.bool_)
    if ask.constraint.honor_affinity:
        counted &= asks.selected_nodes(fleet)
    if ask.constraint.honor_taints:
        counted &= asks.tolerated_nodes(fleet)
    return counted


def skewed(ask: SpreadAsk, domains: LabelDomains, counted: BoolArray) -> BoolArray:
    """Nodes whose domain would exceed the skew; one without any counted node holds nothing."""
    selection = ask.selection
    barred = beyond_skew(ask, {} if selection is None else selection.pods_by_node, domains, counted)
    if selection is not None and selection.kept_by_node:
        # A pod that may not come must not make the emptiest domain fuller.
        barred |= beyond_skew(ask, selection.there_by_node(), domains, counted)
    return barred


def beyond_skew(
    ask: SpreadAsk, pods_by_node: CountByNode, domains: LabelDomains, counted: BoolArray
) -> BoolArray:
    """Nodes whose domain would exceed the skew, with these pods placed."""
    pods = domains.sums(pods_by_node, counted)
    eligible = np.unique(domains.codes[counted])
    fewest = 0
    # As in Kubernetes: with fewer domains than minDomains the emptiest counts as empty.
    if len(eligible) and len(eligible) >= ask.constraint.min_domains:
        fewest = int(pods[eligible].min())
    beyond: BoolArray = pods + int(ask.selects_itself) - fewest > ask.constraint.max_skew
    return beyond[domains.codes]
