"""Energy out of the ``gpu_metrics`` file: a table in the firmware's layout, which names its version.

Layouts are those of the kernel's kgd_pp_interface.h. The energy counter is read, which no other file has;
what else is in there, other files tell in words. Tables of other versions are not guessed at.
"""

import struct

# Size of the table, format revision, content revision: every release of the driver begins with these.
_HEADER = struct.Struct("<HBB")
_COUNTER = struct.Struct("<Q")
_ENERGY_AT = {(1, 3): 24, (1, 4): 24, (1, 5): 88}
"""Where the counter of energy stands, by format and content revision."""

_ABSENT = 2**64 - 1
"""The firmware fills fields that it does not measure with ones."""

_UNITS_PER_JOULE = 2**16
"""The counter's unit is 15.259 microjoules, 2^-16 J."""


def energy_mj(table: bytes | None) -> int | None:
    """The energy drawn since the driver was loaded; None where the table does not tell."""
    if table is None or len(table) < _HEADER.size:
        return None
    size, form, revision = _HEADER.unpack_from(table)
    at = _ENERGY_AT.get((form, revision))
    if at is None or min(size, len(table)) < at + _COUNTER.size:
        return None
    (units,) = _COUNTER.unpack_from(table, at)
    return None if units == _ABSENT else units * 1000 // _UNITS_PER_JOULE
