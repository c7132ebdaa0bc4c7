"""What a rollout is told of nodes: the input of ``node_step`` and ``rollout_step``.

None is "not known", and never counts as well.
"""

import enum

import msgspec

from gpufleet.model.identifiers import NodeName, PodUid
from gpufleet.operator.rollout.actions import PodPlace
from gpufleet.operator.rollout.stamp import Stamp


class Check(enum.Enum):
    """How far the check pod of a node and an image is."""

    ABSENT = "absent"
    RUNNING = "running"
    PASSED = "passed"
    FAILED = "failed"


class Drain(msgspec.Struct, frozen=True):
    """What keeps a node from being changed, and what is to be done about it now.

    ``holders`` are pods that hold GPUs of the node and were not told to end; ``ending`` those that were. Of
    the holders, ``kept`` are left alone for now and ``kept_words`` say why, at the latest until
    ``wait_until_us`` where that is known. ``unasked`` are pods that are to be asked for a checkpoint, also
    those of a gang on other nodes; ``saving`` is until when those that were asked are waited for, None where
    none is. ``moves`` are pods for which places are found, and ``due`` those that are told to end without
    one. ``stuck`` names what refuses an eviction. ``waits_for_ends``: work of the node ends by itself in time
    and is waited for; None where no plan says so or not.
    """

    holders: tuple[PodUid, ...] = ()
    ending: tuple[PodUid, ...] = ()
    kept: tuple[PodUid, ...] = ()
    kept_words: str = ""
    wait_until_us: int | None = None
    unasked: tuple[PodUid, ...] = ()
    saving_until_us: int | None = None
    moves: tuple[PodPlace, ...] = ()
    due: tuple[PodUid, ...] = ()
    stuck: str = ""
    waits_for_ends: bool | None = False

    @property
    def is_over(self) -> bool:
        """Whether nothing holds a GPU of the node."""
        return not self.holders and not self.ending


class RolloutNode(msgspec.Struct, frozen=True):
    """One node that a policy selects.

    ``image`` is the driver that is in place, "" where none of a rollout is; ``runs`` whether it works, None
    while that is not known. ``blocker`` is what preflight found against any change, "" for nothing. ``check``
    and ``check_words`` are about the check pod of the image in the stamp. ``is_skipped``: no change begins
    here, and one that has begun goes on.
    """

    name: NodeName
    image: str
    stamp: Stamp | None = None
    is_ready: bool | None = None
    is_cordoned: bool = False
    has_opted_out: bool = False
    runs: bool | None = None
    driver_words: str = ""
    blocker: str = ""
    drain: Drain = Drain()
    check: Check = Check.ABSENT
    check_words: str = ""
    is_skipped: bool = False
