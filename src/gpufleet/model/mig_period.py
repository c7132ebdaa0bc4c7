"""Times at which the cards of nodes have another MIG layout, by hour and day: a part of a FleetPolicy.

``operator.mig_periods`` follows them, and ``mig.periods`` says what is written of a card.
"""

import re

import msgspec

from gpufleet.model.model_errors import InputError
from gpufleet.model.rollout_settings import WINDOW_MOST_S, Window

INSTANCES_MAX = 7
"""No board has more."""

_PROFILE = re.compile(r"[1-9]g\.[1-9][0-9]{0,3}gb(\+[a-z.]{1,16})?")


class MigPeriod(msgspec.Struct, frozen=True):
    """From each opening of the window, for its length, each card is cut into ``instances``; none: whole.

    So many seconds before, an Event on each node says what is to come.
    """

    window: Window
    instances: tuple[str, ...] = ()
    notice_s: int = 600

    def __post_init__(self) -> None:
        if len(self.instances) > INSTANCES_MAX:
            problem = f"{len(self.instances)} entries"
            raise InputError(problem, field="instances", expected=f"at most {INSTANCES_MAX}")
        for position, one in enumerate(self.instances):
            if not _PROFILE.fullmatch(one):
                expected = "a MIG profile, such as 2g.20gb"
                raise InputError("no profile", field=f"instances[{position}]", value=one, expected=expected)
        if not 0 <= self.notice_s <= WINDOW_MOST_S:
            expected = f"seconds from 0 to {WINDOW_MOST_S}"
            raise InputError("no notice", field="notice", value=str(self.notice_s), expected=expected)

    def words(self) -> str:
        """What is asked for, in a line."""
        instances = " ".join(self.instances) or "whole"
        return f"{self.window.cron} {self.window.zone} for {self.window.duration_s} s: {instances}"
