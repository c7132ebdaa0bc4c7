"""A part of a GPU, as people write it: a fraction, a percentage, or an amount of its memory.

Such numbers come from annotations and labels, which the API server does not check; what Python's own ``int``
and ``float`` would let through (underscores, spaces, other scripts' digits, NaN) is refused. ``requests``
combines a share with the number of GPUs.
"""

import re
from fractions import Fraction

import msgspec

from gpufleet.model.device import WHOLE_GPU_MILLI
from gpufleet.model.model_errors import InputError
from gpufleet.model.quantity import parse_quantity
from gpufleet.model.resources import MEBIBYTE

# Two pebibytes: far above any card, and small enough for sums in 64 bits.
MAXIMUM_MEMORY_MIB = 2**31 - 1

_NUMBER = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,12})?)(%?)")
_PLAIN = re.compile(r"[0-9]{1,12}")


class GpuShare(msgspec.Struct, frozen=True):
    """A part of one GPU: thousandths of it, and its memory in MiB (None: in proportion).

    A share by memory alone has ``gpu_milli`` 0.
    """

    gpu_milli: int = 0
    memory_mib: int | None = None


def parse_fraction_milli(text: str, *, field: str = "") -> int:
    """Thousandths of a GPU from "0.5" or "50%": at least one and at most all of them."""
    expected = "a fraction from 0.001 to 1, or a percentage from 0.1% to 100%"
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise InputError("not a fraction of a GPU", field=field, value=text, expected=expected)
    whole = 10 if match.group(2) else WHOLE_GPU_MILLI
    milli = Fraction(match.group(1)) * whole
    if not 0 < milli <= WHOLE_GPU_MILLI:
        raise InputError("out of range", field=field, value=text, expected=expected)
    if milli.denominator != 1:
        raise InputError("finer than a thousandth", field=field, value=text, expected=expected)
    return milli.numerator


def parse_memory_mib(text: str, *, field: str = "") -> int:
    """MiB of GPU memory from a plain number of MiB ("4096") or an amount with a unit ("4Gi").

    Parts of a MiB round up, as the server rounds: a request for memory gets at least that much.
    """
    expected = f"MiB as a whole number from 1 to {MAXIMUM_MEMORY_MIB}, or an amount such as 4Gi"
    if _PLAIN.fullmatch(text):
        memory_mib = int(text)
    else:
        if not text.endswith(tuple("kMGTPEi")):
            raise InputError("not an amount of memory", field=field, value=text, expected=expected)
        memory_mib = -(-parse_quantity(text, field=field).value() // MEBIBYTE)
    if not 0 < memory_mib <= MAXIMUM_MEMORY_MIB:
        raise InputError("out of range", field=field, value=text, expected=expected)
    return memory_mib


def check_memory_fits(memory_mib: int, card_memory_mib: int, *, field: str = "") -> None:
    """Raises InputError if the share's memory is more than the card has."""
    if memory_mib > card_memory_mib:
        expected = f"at most the card's {card_memory_mib} MiB"
        raise InputError("more memory than the card has", field=field, value=memory_mib, expected=expected)
