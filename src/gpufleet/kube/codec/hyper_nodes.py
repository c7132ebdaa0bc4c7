"""Volcano's network topology in our words: which node label a tier of HyperNodes stands for.

Our levels are labels of nodes. Volcano's are HyperNodes, objects that name their members. Where Volcano made
them of node labels itself, or their members are selected by one label, the tier is that label; where they
list nodes by name or pattern there is none, and a gang that requires such a tier is told so. ``pod_groups``
asks for each group.
"""

from collections.abc import Iterable

from gpufleet.kube import resources
from gpufleet.kube.codec.lookup import Lookup
from gpufleet.kube.objects.hyper_nodes import HyperNode
from gpufleet.kube.objects.pod_groups import NetworkTopology
from gpufleet.model.identifiers import TopologyLevelName
from gpufleet.model.model_errors import InputError

# The modes of a Volcano group's network topology: a demand, or a preference.
HARD = "hard"
SOFT = "soft"
OTHERWISE = "a tier of which each HyperNode selects its nodes by one label, or podset-required-topology"

Levels = tuple[TopologyLevelName | None, TopologyLevelName | None]


def levels_of(wish: NetworkTopology | None, lookup: Lookup, field: str) -> Levels:
    """The level that a group must share, and the one that it had better share.

    A hard wish is for the highest tier that it allows; within it, and for a soft one, the nearer the
    better. Raises InputError for a hard wish that cannot be kept.
    """
    if wish is None:
        return None, None
    if wish.mode not in {"", HARD, SOFT}:
        raise InputError("no such mode", field=f"{field}.mode", value=wish.mode, expected="hard or soft")
    known: list[HyperNode] = list(lookup.all(resources.HYPER_NODES))
    nearest = min((one.spec.tier for one in known), default=0)
    preferred = _label(one for one in known if one.spec.tier == nearest)
    # The definition's default is hard.
    return (None if wish.mode == SOFT else _required(wish, known, field)), preferred


def _required(wish: NetworkTopology, known: list[HyperNode], field: str) -> TopologyLevelName:
    named, allowed = wish.highest_tier_name, wish.highest_tier_allowed
    if bool(named) == (allowed is not None):
        problem = "a hard network topology needs one highest tier"
        raise InputError(problem, field=field, expected="highestTierAllowed or highestTierName")
    if named:
        place, value = f"{field}.highestTierName", named
        tier = [one for one in known if one.spec.tier_name == named]
    else:
        place, value = f"{field}.highestTierAllowed", str(allowed)
        tier = [one for one in known if one.spec.tier == allowed]
    if not tier:
        raise InputError("no HyperNode is of this tier", field=place, value=value, expected="a tier of some")
    found = _label(tier)
    if found is None:
        problem = "a tier that is no node label"
        raise InputError(problem, field=place, value=value, expected=OTHERWISE)
    return found


def _label(tier: Iterable[HyperNode]) -> TopologyLevelName | None:
    """The node label by which all HyperNodes of a tier are told apart; None if there is none."""
    labels = {_label_of(one) for one in tier}
    return labels.pop() if len(labels) == 1 else None


def _label_of(one: HyperNode) -> TopologyLevelName | None:
    if one.spec.tier_name in one.metadata.labels:
        # Made by Volcano of this label of the nodes: it names the tier, and stands on the object.
        return TopologyLevelName(one.spec.tier_name)
    keys: set[str] = set()
    for member in one.spec.members:
        match = member.selector.label_match
        if member.type != "Node" or match is None or match.match_expressions or len(match.match_labels) != 1:
            return None
        keys |= set(match.match_labels)
    return TopologyLevelName(keys.pop()) if len(keys) == 1 and len(one.spec.members) == 1 else None
