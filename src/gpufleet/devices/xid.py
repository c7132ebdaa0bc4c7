"""What an Xid, a driver's error report, means for scheduling onto the GPU.

The codes and the maker's resolution for each are those of NVIDIA's Xid catalogue (Ampere and newer, read
2026-11); their words are ours. Here they are folded into four actions, because a scheduler can do no more:
nothing, blame the pod, take the GPU out until it has been reset, take it out for good. A code that the
catalogue does not explain takes the GPU out until it has been quiet for a while: pods that run stay, new
ones go elsewhere.
"""

import enum
from collections.abc import Mapping

import msgspec

UNNAMED = "an error that the catalogue does not explain"
# The action itself is read from the driver, as a reading of the GPU.
RECOVERY_ACTION_CHANGED = 154


class XidAction(enum.Enum):
    """What follows from a code."""

    NOTHING = "nothing"
    """Told, and no more: information, or the trace of another Xid that has a row of its own."""
    POD = "pod"
    """The program on the GPU is at fault or lost; the GPU is well."""
    QUIET = "quiet"
    """Out of service until the GPU has been quiet for a while."""
    RESET = "reset"
    """Out of service until the GPU was reset, or the driver says that it needs no reset."""
    GONE = "gone"
    """Out of service until the machine was restarted and the GPU is found again."""


class Xid(msgspec.Struct, frozen=True):
    """A row of the catalogue."""

    code: int
    meaning: str
    action: XidAction


def xid(code: int) -> Xid:
    """The row of a code; of a code without one, what is done then."""
    return CATALOGUE.get(code) or Xid(code, UNNAMED, XidAction.QUIET)


_NOTHING = {
    14: "a made-up error, for tests of the driver",
    37: "the driver's firmware was asked for a method it does not have",
    38: "a watchdog of the driver's firmware",
    43: "the program's channel was reset after it stopped",
    44: "a fault of the graphics engine while contexts were switched",
    45: "channels were cleaned up after another error",
    63: "a row of memory was remapped, or will be at the next reset",
    66: "the driver touched a register that it may not",
    67: "the driver broke a rule of the firmware",
    92: "many single-bit memory errors, all of them corrected",
    93: "the card's own storage has been written more often than it was made for",
    106: "a test message of the board's management",
    107: "a silent test message of the board's management",
    108: "a translation of another GPU failed over NVLink",
    121: "an error of the link between processor and GPU",
    137: "an access over NVLink without the right to it",
    141: "an error of a fast path of CUDA",
    152: "a memory error of the deep-learning accelerator",
    153: "the deep-learning accelerator took too long",
    RECOVERY_ACTION_CHANGED: "the driver changed what the card needs in order to recover",
    157: "a broken part of the card could not be retired",
    160: "a channel of memory was retired",
    161: "a channel of memory could not be retired",
    162: "power smoothing came on again",
    163: "power smoothing went off",
    164: "the lifetime of power smoothing runs low",
    165: "the lifetime of power smoothing has run out",
    171: "details of an uncorrectable memory error in DRAM",
    172: "details of an uncorrectable memory error in SRAM",
}
_POD = {
    8: "the program's channel stopped",
    11: "the program's commands were malformed",
    13: "an exception of the graphics engine, as a wrong memory access causes",
    25: "the program's commands were illegal",
    31: "a page fault in GPU memory",
    32: "the program's command buffer was malformed",
    39: "an exception of copy engine 0",
    40: "an exception of copy engine 1",
    41: "an exception of copy engine 2",
    60: "an exception of the video processor",
    68: "an exception of the video decoder",
    69: "the program used a class of the graphics engine wrongly",
    80: "the program's commands were corrupted on their way to the card",
    82: "an exception of JPEG engine 0",
    86: "an exception of the optical-flow engine",
    94: "an uncorrectable memory error that hit one program only",
    139: "an exception of the second optical-flow engine",
    142: "an exception of a video encoder",
    159: "an error of the coherent link that lost no data",
    **{code: f"an exception of copy engine {code - 67}" for code in range(70, 73)},
    **{code: f"an exception of copy engine {code - 69}" for code in range(75, 78)},
    85: "an exception of copy engine 9",
    **{code: f"an exception of copy engine {code - 116}" for code in range(126, 136)},
    **{code: f"an exception of video decoder {code - 82}" for code in (83, 84)},
    **{code: f"an exception of video decoder {code - 85}" for code in (88, 89)},
    **{code: f"an exception of video decoder {code - 91}" for code in range(96, 99)},
    **{code: f"an exception of JPEG engine {code - 98}" for code in range(99, 106)},
}
_RESET = {
    46: "the card stopped working",
    48: "a double-bit memory error",
    62: "a controller inside the card halted",
    64: "a broken row of memory could not be remapped",
    74: "an error of NVLink",
    95: "an uncorrectable memory error that hit more than one program",
    109: "switching between programs took too long",
    110: "a fault that touches the card's security",
    119: "the card's system processor did not answer",
    120: "an error of the card's system processor",
    136: "training of a link failed",
    140: "an uncorrectable memory error escaped correction",
    143: "the card could not be initialised",
    **dict.fromkeys(range(144, 151), "an error of NVLink 5"),
    155: "an error of NVLink that software defined",
    156: "a broken part of the card was retired; a reset completes it",
    158: "the card did not answer in time",
    167: "PCI Express did not answer in time",
    168: "the card has less memory than before",
    169: "a security controller inside the card halted",
}
_GONE = {
    54: "the board lacks its power cable",
    78: "a virtual GPU could not be started",
    79: "the card fell off the bus",
    151: "keys of confidential computing could not be changed",
}

CATALOGUE: Mapping[int, Xid] = {
    code: Xid(code, meaning, action)
    for action, rows in (
        (XidAction.NOTHING, _NOTHING),
        (XidAction.POD, _POD),
        (XidAction.RESET, _RESET),
        (XidAction.GONE, _GONE),
    )
    for code, meaning in rows.items()
}
"""Every code that the catalogue explains."""
