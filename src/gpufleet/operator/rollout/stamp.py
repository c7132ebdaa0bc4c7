"""What a rollout remembers, on the objects themselves: where each node is, and how far the whole is.

A deadline is a moment that is written when a phase begins. It is not counted from the start of a process, so
no restart makes it later.
"""

import enum

import msgspec

from gpufleet.model.identifiers import FleetPolicyName
from gpufleet.model.node_images import images_of


class RolloutPhase(enum.Enum):
    """Where a node is.

    CORDONED: no new work comes. WAITING: its work ends by itself soon, or has no other place yet. ASKING: its
    work was asked for a checkpoint. EVICTING: its work is told to end. STUCK: something does not let its work
    end, such as a disruption budget. CHANGING: the driver is replaced. VALIDATING: a check pod uses a GPU.
    RETURNED: work may come again. ROLLED_BACK: the same, with the driver of before. FAILED: a person is
    needed.
    """

    CORDONED = "Cordoned"
    WAITING = "Waiting"
    ASKING = "Asking"
    EVICTING = "Evicting"
    STUCK = "Stuck"
    CHANGING = "Changing"
    VALIDATING = "Validating"
    RETURNED = "Returned"
    ROLLED_BACK = "RolledBack"
    FAILED = "Failed"


DRAINING = frozenset(
    {
        RolloutPhase.CORDONED,
        RolloutPhase.WAITING,
        RolloutPhase.ASKING,
        RolloutPhase.EVICTING,
        RolloutPhase.STUCK,
    }
)
"""Phases that share the deadline of the drain."""

UNDER_WAY = DRAINING | {RolloutPhase.CHANGING, RolloutPhase.VALIDATING}
"""Phases in which a node takes one of the places of ``RolloutSettings.nodes_at_once``."""


class Stamp(msgspec.Struct, frozen=True):
    """Where one node is in a rollout; moments in microseconds since 1970.

    ``target`` is the image that comes, or both (``model.node_images``), ``previous`` what was there, "" where
    none of ours was.
    ``began_us`` is when the drain began, and ``place_until_us`` until when work that fits nowhere else is
    waited for, 0 for no end before the deadline. ``backfill_until_us``: others that have ended by then may
    start beside work that is waited for, 0 where none may. ``settles_us``: they may no more, and the last of
    them is seen at that moment; 0 where none could, or they still may. ``is_rollback``: the node is on its
    way back, and ``target`` is its image of before. ``is_cordon_ours``: the rollout cordoned the node, so the
    rollout takes the cordon off. ``failed_target`` is the image that did not work on the node;
    ``is_validated``: it ran there, and the check pod refused it. ``reason`` says what is wrong, or "".
    """

    policy: FleetPolicyName
    target: str
    previous: str
    phase: RolloutPhase
    since_us: int
    deadline_us: int
    is_canary: bool = False
    is_rollback: bool = False
    is_cordon_ours: bool = False
    failed_target: str = ""
    is_validated: bool = False
    reason: str = ""
    began_us: int = 0
    place_until_us: int = 0
    backfill_until_us: int = 0
    settles_us: int = 0

    @property
    def is_under_way(self) -> bool:
        """Whether the node takes one of the places of the rollout."""
        return self.phase in UNDER_WAY

    @property
    def has_way_back(self) -> bool:
        """Whether the node can be as it was before this image.

        A first toolkit leaves, and the node has the runtime of its own image again. A first driver stays: a
        node without any is of no use, and one that is built may come late and work.
        """
        return bool(self.previous) or not images_of(self.target).driver

    @property
    def open_until_us(self) -> int:
        """Until when others may start on the node that is being emptied, 0 where none may."""
        return self.backfill_until_us if self.phase in DRAINING else 0

    def has_failed(self, target: str) -> bool:
        """Whether this image did not work here, or its node could not be brought back."""
        return self.failed_target == target


NO_WAY_BACK = "there is no way back, as the node had no driver of a rollout before"
"""What is said of a node that keeps an image because of that (``Stamp.has_way_back``)."""


class RolloutState(enum.Enum):
    """How far a rollout is.

    CANARY: the first nodes are under way. SOAKING: these are watched. ROLLING: the others follow.
    ROLLING_BACK: a canary failed, and the canaries get the driver of before. STOPPED: no further node begins,
    until the policy changes. DONE: every node that can be changed is.
    """

    CANARY = "Canary"
    SOAKING = "Soaking"
    ROLLING = "Rolling"
    ROLLING_BACK = "RollingBack"
    STOPPED = "Stopped"
    DONE = "Done"


class Progress(msgspec.Struct, frozen=True):
    """How far the rollout of one image is; ``reason`` says why it does not go on, or ""."""

    target: str
    state: RolloutState
    since_us: int
    reason: str = ""
