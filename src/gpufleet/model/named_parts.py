"""Which part of a GPU a resource stands for, by its name alone.

A name tells less than a card's own report: boards with four and with seven slices may have a profile of the
same name. The larger part counts then, so that work is rather valued too high than too low.
"""

import re
from fractions import Fraction
from functools import cache

from gpufleet.model.mig_boards import BOARDS
from gpufleet.model.mig_part import part_milli
from gpufleet.model.resource_names import MIG_PREFIX, NVIDIA_SHARED

_PROFILE = re.compile(
    re.escape(MIG_PREFIX) + r"(?:(?P<compute>[0-9]+)c\.)?(?P<slices>[0-9]+)g\.(?P<gb>[0-9]+)gb"
)
_AMD_PARTITION = re.compile(r"amd\.com/(?P<mode>[a-z]+)_nps[0-9]+")
_AMD_PARTS = {"spx": 1, "dpx": 2, "tpx": 3, "qpx": 4, "cpx": 6}
"""Of how many partitions one is: an MI300A in CPX has six, an MI300X eight."""
_UNKNOWN_BOARD_SLICES = 7
"""Every board but A30 and RTX PRO 6000 has seven."""
_SHARED_MILLI = 500
"""A GPU that is shared in time has two users at least."""


@cache
def named_part_milli(resource: str) -> int:
    """One unit of a resource in milli of a whole GPU; 0 for what is no part of a GPU."""
    if resource == NVIDIA_SHARED:
        return _SHARED_MILLI
    if (found := _PROFILE.match(resource)) is not None:
        slices = int(found["compute"] or found["slices"])
        part = Fraction(slices, _board_slices(f"{found['slices']}g.{found['gb']}gb"))
        return part_milli(min(Fraction(1), part))
    if (found := _AMD_PARTITION.fullmatch(resource)) is not None and found["mode"] in _AMD_PARTS:
        return part_milli(Fraction(1, _AMD_PARTS[found["mode"]]))
    return 0


def _board_slices(profile: str) -> int:
    """The compute slices of the smallest board that has the profile."""
    boards = BOARDS.values()
    having = [board.compute_slices for board in boards if any(one.name == profile for one in board.profiles)]
    return min(having, default=_UNKNOWN_BOARD_SLICES)
