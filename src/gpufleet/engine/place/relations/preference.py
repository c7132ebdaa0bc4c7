"""How much a pod's preferences favour one node over another, as a small integer.

The parts and their weights are those of kube-scheduler's default profile: taints that are better
avoided, preferred node affinity, spread that is not required, preferred affinity to other pods. Each
is scaled to 0..100 over the nodes that would do, so the sum stays below 1,000. The policy's own score
decides only among equals.
"""

import numpy as np

from gpufleet.engine.arrays.array_types import BoolArray, Int64Array
from gpufleet.engine.place.relations.asks import Asks, SpreadAsk
from gpufleet.engine.place.relations.label_domains import LabelDomains
from gpufleet.engine.place.relations.spread import all_labelled, honoured
from gpufleet.engine.state.eligibility import nodes_of_term
from gpufleet.engine.state.fleet import Fleet
from gpufleet.model.labels import PreferredTerm
from gpufleet.model.taint import Taint, Toleration, tolerates

FULL = 100
"""The score of the best node in each part, as in kube-scheduler."""
# The weights of kube-scheduler's default profile.
TAINT_WEIGHT = 3
NODE_AFFINITY_WEIGHT = 2
SPREAD_WEIGHT = 2
POD_AFFINITY_WEIGHT = 2
LOGARITHM_UNIT = 1000
"""Logarithms are kept in thousandths, because scores are integers."""


def preference(
    asks: Asks | None, tolerations: tuple[Toleration, ...], fleet: Fleet, nodes: Int64Array
) -> Int64Array:
    """For each of the nodes, how much the pod prefers it."""
    total = np.zeros(len(nodes), np.int64)
    if fleet.soft_taint_sets:
        avoided = soft_taints(tolerations, fleet)[nodes]
        total += TAINT_WEIGHT * (FULL - share_of_most(avoided))
    if asks is None:
        return total
    if asks.shape.affinity.preferred:
        total += NODE_AFFINITY_WEIGHT * share_of_most(
            node_weights(asks.shape.affinity.preferred, fleet)[nodes]
        )
    if asks.preferred_spread:
        total += SPREAD_WEIGHT * evenness(asks, fleet, nodes)
    if asks.preferred:
        total += POD_AFFINITY_WEIGHT * nearness(asks, fleet, nodes)
    return total


def share_of_most(counts: Int64Array) -> Int64Array:
    """Each count as a share of the largest."""
    most = int(counts.max(initial=0))
    return counts * FULL // most if most else np.zeros(len(counts), np.int64)


def soft_taints(tolerations: tuple[Toleration, ...], fleet: Fleet) -> Int64Array:
    """For each node row, how many taints that ask to be avoided the pod does not tolerate."""
    counts = np.zeros(fleet.row_count, np.int64)
    count_by_taints: dict[tuple[Taint, ...], int] = {}
    for row, node in enumerate(fleet.nodes):
        if node is None or not node.taints:
            continue
        if node.taints not in count_by_taints:
            count_by_taints[node.taints] = avoided_taints(node.taints, tolerations)
        counts[row] = count_by_taints[node.taints]
    return counts


def avoided_taints(taints: tuple[Taint, ...], tolerations: tuple[Toleration, ...]) -> int:
    """How many of the taints ask a pod with these tolerations to stay away if it can."""
    soft = (taint for taint in taints if not taint.repels)
    return sum(not any(tolerates(one, taint) for one in tolerations) for taint in soft)


def node_weights(preferred: tuple[PreferredTerm, ...], fleet: Fleet) -> Int64Array:
    """For each node row, the weights of the preferred terms that hold there."""
    weights = np.zeros(fleet.row_count, np.int64)
    for one in preferred:
        weights[nodes_of_term(one.term, fleet)] += one.weight
    return weights


def nearness(asks: Asks, fleet: Fleet, nodes: Int64Array) -> Int64Array:
    """Wanted and unwanted pods in each node's domains, weighed, from the worst (0) to the best."""
    scores = np.zeros(fleet.row_count, np.int64)
    for weight, selection, key in asks.preferred:
        domains = LabelDomains(fleet, key)
        scores += weight * domains.sums(selection.pods_by_node)[domains.codes]
    here = scores[nodes]
    least, most = min(0, int(here.min(initial=0))), max(0, int(here.max(initial=0)))
    if most == least:
        return np.zeros(len(nodes), np.int64)
    return FULL * (here - least) // (most - least)


def evenness(asks: Asks, fleet: Fleet, nodes: Int64Array) -> Int64Array:
    """How few of the pods to be spread are in each node's domains; 0 without all topology keys."""
    domains = [LabelDomains(fleet, ask.constraint.topology_key) for ask in asks.preferred_spread]
    labelled = all_labelled(domains, fleet)
    candidates = nodes[labelled[nodes]]
    crowded = np.zeros(fleet.row_count, np.int64)
    for ask, of_key in zip(asks.preferred_spread, domains, strict=True):
        counted = labelled & honoured(ask, asks, fleet)
        crowded += crowding(ask, of_key, counted, candidates)
    here = crowded[candidates]
    scores = np.zeros(fleet.row_count, np.int64)
    if len(here):
        least, most = int(here.min()), int(here.max())
        # As kube-scheduler normalises spread: the fuller a domain, the lower.
        scores[candidates] = FULL * (most + least - here) // most if most else FULL
    return scores[nodes]


def crowding(ask: SpreadAsk, domains: LabelDomains, counted: BoolArray, candidates: Int64Array) -> Int64Array:
    """For each node row, the selected pods of its domain, weighed by how many domains there are.

    A count in few domains weighs less than one in many, which has more ways to be even.
    """
    pods_by_node = {} if ask.selection is None else ask.selection.pods_by_node
    choices = len(np.unique(domains.codes[candidates]))
    pods = domains.sums(pods_by_node, counted)[domains.codes]
    # kube-scheduler's weight of a topology key is log(domains + 2).
    return pods * logarithm(choices + 2) + (ask.constraint.max_skew - 1) * LOGARITHM_UNIT


def logarithm(count: int) -> int:
    """The binary logarithm in thousandths, straight between powers of two: whole numbers everywhere."""
    exponent = count.bit_length() - 1
    power = 1 << exponent
    return LOGARITHM_UNIT * exponent + LOGARITHM_UNIT * (count - power) // power
