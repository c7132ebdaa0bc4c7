"""Policies as data: a name, weights over the scoring functions, and how ties inside are resolved.

``POLICIES`` lists those that ship; ``PolicyState`` holds one in use together with what it was told
(the target workload), as the arrays that ``scoring`` reads.
"""

import enum
import difflib

import msgspec
import numpy as np

from gpufleet.engine import policy_tables
from gpufleet.engine.fleet import Fleet
from gpufleet.engine.instruction import AnyInstruction
from gpufleet.engine.policy_tables import empty_policy_tables
from gpufleet.engine.scoring.fragmentation import grade_thresholds
from gpufleet.model.errors import InputError
from gpufleet.model.shape import Shape


class ScoringFunction(enum.IntEnum):
    """The scoring functions by the place of their weight."""

    FRAGMENTATION = policy_tables.WEIGHT_FRAGMENTATION
    DOT_PRODUCT = policy_tables.WEIGHT_DOT_PRODUCT
    GPU_CLUSTERING = policy_tables.WEIGHT_CLUSTERING
    GPU_PACKING = policy_tables.WEIGHT_PACKING
    BEST_FIT = policy_tables.WEIGHT_BEST_FIT


class NodeChoice(enum.IntEnum):
    """How the node is picked among those that fit."""

    BEST_SCORE = policy_tables.NODE_BEST_SCORE
    RANDOM = policy_tables.NODE_RANDOM


class ShareChoice(enum.IntEnum):
    """How the device for a share is picked inside the node."""

    BEST_FIT = policy_tables.SHARE_BEST_FIT
    BY_SCORE = policy_tables.SHARE_BY_SCORE
    RANDOM = policy_tables.SHARE_RANDOM


class WholeChoice(enum.IntEnum):
    """How whole devices are picked inside the node."""

    LOWEST_INDEX = policy_tables.WHOLE_LOWEST_INDEX
    BY_LINK_GROUP = policy_tables.WHOLE_BY_LINK_GROUP


class Policy(msgspec.Struct, frozen=True):
    """A named way to choose places.

    ``needs_target`` marks policies that must be told a target workload before they can score.
    """

    name: str
    weights: dict[ScoringFunction, int] = {}
    node_choice: NodeChoice = NodeChoice.BEST_SCORE
    share_choice: ShareChoice = ShareChoice.BEST_FIT
    whole_choice: WholeChoice = WholeChoice.LOWEST_INDEX
    needs_target: bool = False


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


class PolicyState:
    """A policy in use: its arrays, kept in step with what it was told."""

    def __init__(self, policy: Policy, seed: int, fleet: Fleet) -> None:
        self.policy = policy
        self.fleet = fleet
        self.tables = empty_policy_tables()
        self.tables.options[policy_tables.OPTION_NODE_CHOICE] = int(policy.node_choice)
        self.tables.options[policy_tables.OPTION_SHARE_CHOICE] = int(policy.share_choice)
        self.tables.options[policy_tables.OPTION_WHOLE_CHOICE] = int(policy.whole_choice)
        self.tables.options[policy_tables.OPTION_SEED] = seed
        for function, weight in policy.weights.items():
            self.tables.weights[int(function)] = weight

    def set_target(self, entries: tuple[tuple[Shape, int], ...]) -> None:
        """Measure fragmentation against these shapes, each with its count."""
        codes = [[self.fleet.model_code(model) for model in shape.gpu.models] for shape, _ in entries]
        target = np.zeros((policy_tables.TARGET_COLUMNS, len(entries)), np.int64)
        models = np.zeros((len(entries), max(8, len(self.fleet.model_codes))), np.bool_)
        for entry, (shape, count) in enumerate(entries):
            target[policy_tables.TARGET_CPU_MILLI, entry] = shape.resources.cpu_milli
            target[policy_tables.TARGET_GPU_COUNT, entry] = shape.gpu.count
            target[policy_tables.TARGET_GPU_MILLI, entry] = shape.gpu.gpu_milli
            target[policy_tables.TARGET_WEIGHT, entry] = count
            target[policy_tables.TARGET_ANY_MODEL, entry] = int(not codes[entry])
            models[entry, codes[entry]] = True
        total = int(target[policy_tables.TARGET_WEIGHT].sum())
        self.tables = self.tables._replace(
            target=target, target_models=models, grades=grade_thresholds(total)
        )

    def fleet_changed(self) -> None:
        """Nodes came, went or changed size."""

    def arrived(self, shape: Shape) -> None:
        """A pod of this shape arrived."""

    def wishes(self) -> list[AnyInstruction]:
        """What the policy asks of the shell."""
        return []
