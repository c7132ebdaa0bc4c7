"""Policies as data: a name, weights over the scoring functions, and how ties inside are resolved.

``POLICIES`` lists those that ship; ``policy_state`` holds one in use.
"""

import difflib
import enum

import msgspec

from gpufleet.engine import policy_tables
from gpufleet.model.errors import InputError


class ScoringFunction(enum.IntEnum):
    """The scoring functions by the place of their weight."""

    FRAGMENTATION = policy_tables.WEIGHT_FRAGMENTATION
    DOT_PRODUCT = policy_tables.WEIGHT_DOT_PRODUCT
    GPU_CLUSTERING = policy_tables.WEIGHT_CLUSTERING
    GPU_PACKING = policy_tables.WEIGHT_PACKING
    BEST_FIT = policy_tables.WEIGHT_BEST_FIT
    WORTH = policy_tables.WEIGHT_WORTH


class NodeChoice(enum.IntEnum):
    """How the node is picked among those that fit."""

    BEST_SCORE = policy_tables.NODE_BEST_SCORE
    RANDOM = policy_tables.NODE_RANDOM


class ShareChoice(enum.IntEnum):
    """How the device for a share is picked inside the node."""

    BEST_FIT = policy_tables.SHARE_BEST_FIT
    BY_SCORE = policy_tables.SHARE_BY_SCORE
    RANDOM = policy_tables.SHARE_RANDOM
    LEAST_LOSS = policy_tables.SHARE_LEAST_LOSS


class WholeChoice(enum.IntEnum):
    """How whole devices are picked inside the node."""

    LOWEST_INDEX = policy_tables.WHOLE_LOWEST_INDEX
    BY_LINK_GROUP = policy_tables.WHOLE_BY_LINK_GROUP


class Policy(msgspec.Struct, frozen=True):
    """A named way to choose places.

    ``needs_target`` marks policies that must be told a target workload before they can score,
    ``learns`` those that find out for themselves what is typical.
    """

    name: str
    weights: dict[ScoringFunction, int] = {}
    node_choice: NodeChoice = NodeChoice.BEST_SCORE
    share_choice: ShareChoice = ShareChoice.BEST_FIT
    whole_choice: WholeChoice = WholeChoice.LOWEST_INDEX
    needs_target: bool = False
    learns: bool = False


POLICIES = {
    policy.name: policy
    for policy in (
        Policy("random", node_choice=NodeChoice.RANDOM, share_choice=ShareChoice.RANDOM),
        Policy("dot-product", {ScoringFunction.DOT_PRODUCT: 1}),
        Policy("gpu-clustering", {ScoringFunction.GPU_CLUSTERING: 1}),
        Policy("gpu-packing", {ScoringFunction.GPU_PACKING: 1}),
        Policy("best-fit", {ScoringFunction.BEST_FIT: 1}),
        Policy(
            "fgd",
            {ScoringFunction.FRAGMENTATION: 1},
            share_choice=ShareChoice.BY_SCORE,
            needs_target=True,
        ),
        Policy(
            "gpufleet",
            {ScoringFunction.WORTH: 1},
            share_choice=ShareChoice.LEAST_LOSS,
            whole_choice=WholeChoice.BY_LINK_GROUP,
            learns=True,
        ),
    )
}


def find_policy(name: str) -> Policy:
    """The shipped policy of that name; InputError with the closest one otherwise."""
    policy = POLICIES.get(name)
    if policy is not None:
        return policy
    close = difflib.get_close_matches(name, POLICIES, n=1)
    hint = f"{close[0]!r}, or one of " if close else ""
    raise InputError(
        "no such policy", field="policy", value=name, expected=hint + ", ".join(sorted(POLICIES))
    )
