"""How a change of driver goes through a fleet: how many nodes at a time, when, and how long it may take.

The settings are a part of a FleetPolicy. ``operator.rollout`` follows them; ``RolloutSettings`` without
arguments is what a policy means that says nothing: one canary, one node at a time, at any hour.
``kube.codec.rollout_settings`` reads them.
"""

import msgspec

from gpufleet.model.model_errors import InputError

PERCENT_MOST = 100
WINDOW_MOST_S = 7 * 86_400
"""A longer window would reach into the next one of every weekly plan."""


class NodeCount(msgspec.Struct, frozen=True):
    """So many nodes, or so many per cent of all nodes of a policy."""

    value: int
    is_percent: bool = False

    def __post_init__(self) -> None:
        if self.value < 0 or (self.is_percent and self.value > PERCENT_MOST):
            expected = "a whole number of nodes, or a percentage from 0% to 100%"
            raise InputError("not a number of nodes", value=self.words(), expected=expected)

    def of(self, nodes: int) -> int:
        """The number among so many nodes; parts of a node count as one, so that 1% of five nodes is one."""
        return -(-self.value * nodes // PERCENT_MOST) if self.is_percent else self.value

    def words(self) -> str:
        """As it is written in a policy."""
        return f"{self.value}%" if self.is_percent else str(self.value)


class Window(msgspec.Struct, frozen=True):
    """A time in which nodes may begin: from each moment of a cron expression, for so many seconds.

    ``zone`` is a name of the IANA database. ``operator.rollout.windows`` says when it opens.
    """

    cron: str
    duration_s: int
    zone: str = "UTC"

    def __post_init__(self) -> None:
        if not 0 < self.duration_s <= WINDOW_MOST_S:
            expected = f"seconds from 1 to {WINDOW_MOST_S}"
            problem = "no length of a window"
            raise InputError(problem, field="duration", value=str(self.duration_s), expected=expected)


class RolloutSettings(msgspec.Struct, frozen=True):
    """How a rollout goes.

    The first ``canaries`` nodes go alone, and the others only after ``soak_s`` seconds in which the canaries
    stay well; then at most ``nodes_at_once`` are under way. Once more than ``failures_most`` nodes have
    failed, no further node begins. A node has ``drain_s`` until its work is gone, ``change_s`` until the new
    driver runs, and ``validation_s`` until a check pod has used a GPU. Without windows nodes begin at any
    time; work is ended only by eviction, ``checkpoint_s`` after it was asked for a checkpoint. Work that fits
    nowhere else is told to end after ``place_s``, and never for None.
    """

    canaries: int = 1
    nodes_at_once: NodeCount = NodeCount(1)
    failures_most: NodeCount = NodeCount(20, is_percent=True)
    soak_s: int = 600
    windows: tuple[Window, ...] = ()
    drain_s: int = 3600
    checkpoint_s: int = 300
    change_s: int = 1800
    validation_s: int = 600
    is_paused: bool = False
    place_s: int | None = None

    def __post_init__(self) -> None:
        if self.canaries < 0:
            expected = "a number of nodes, 0 for no canary"
            raise InputError(
                "not a number of nodes", field="canaries", value=self.canaries, expected=expected
            )
        if self.nodes_at_once.value == 0:
            expected = "at least one node; a rollout is stopped by paused: true"
            raise InputError("no node at all", field="maxParallel", value="0", expected=expected)
        for field, seconds in (
            ("drainTimeout", self.drain_s),
            ("changeTimeout", self.change_s),
            ("validationTimeout", self.validation_s),
        ):
            if seconds <= 0:
                raise InputError("no time at all", field=field, value=seconds, expected="at least one second")
        for field, seconds in (
            ("soak", self.soak_s),
            ("checkpointTimeout", self.checkpoint_s),
            ("placeTimeout", self.place_s or 0),
        ):
            if seconds < 0:
                raise InputError(
                    "a time that is over", field=field, value=seconds, expected="0 or more seconds"
                )
