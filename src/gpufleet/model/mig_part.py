"""Which part of a card's compute a MIG instance is: as an exact ratio, and in milli as shares are counted.

An instance of "2g" has two of its board's compute slices, of which ``mig_boards`` knows the number. Milli
are rounded down, so that all instances of a card never are more than the card.
"""

import re
from fractions import Fraction
from functools import cache

from gpufleet.model.device import WHOLE_GPU_MILLI
from gpufleet.model.gpu_model import find
from gpufleet.model.mig_boards import BOARDS

_COMPUTE_SLICES = re.compile(r"([0-9]+)g\.")


def compute_part(product: str, profile: str) -> Fraction | None:
    """The part by slices; ``product`` is any name of the card. None where board or profile is not known."""
    slices, own = _board_slices(product), _COMPUTE_SLICES.match(profile)
    return None if slices is None or own is None else min(Fraction(1), Fraction(int(own[1]), slices))


def part_milli(part: Fraction | None, sharers: int = 1) -> int:
    """A part in milli of a whole GPU, divided by ``sharers``; an unknown part counts as the whole GPU."""
    return WHOLE_GPU_MILLI // sharers if part is None else int(WHOLE_GPU_MILLI * part / sharers)


@cache
def _board_slices(product: str) -> int | None:
    model = find(product)
    board = None if model is None else BOARDS.get(model.name)
    return None if board is None else board.compute_slices
