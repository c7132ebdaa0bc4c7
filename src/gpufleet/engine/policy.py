"""Policies as data: a name, weights over the scoring functions, and how ties inside are resolved.

``POLICIES`` lists those that ship; ``policy_state`` holds one in use.
"""

import difflib
import enum

import msgspec

from gpufleet.model.model_errors import InputError


class ScoringFunction(enum.IntEnum):
    """The scoring functions by the place of their weight."""

    FRAGMENTATION = 0
    DOT_PRODUCT = 1
    GPU_CLUSTERING = 2
    GPU_PACKING = 3
    BEST_FIT = 4
    WORTH = 5


class NodeChoice(enum.IntEnum):
    """How the node is picked among those that fit."""

    BEST_SCORE = 0
    RANDOM = 1


class ShareChoice(enum.IntEnum):
    """How the device for a share is picked inside the node."""

    BEST_FIT = 0
    BY_SCORE = 1
    RANDOM = 2
    LEAST_LOSS = 3


class WholeChoice(enum.IntEnum):
    """How whole devices are picked inside the node."""

    LOWEST_INDEX = 0
    BY_LINK_GROUP = 1


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
