"""NVML's return codes in our words: the one place where they are read.

Three kinds of refusal concern only what was asked: a value that this GPU or driver does not give, a
call that failed for no reason that the driver names, and a GPU that answers nothing until it is reset.
A lost GPU concerns all about that GPU; everything else, the library as a whole. ``Answers`` asks one
GPU for one value after the other by these rules.
"""

from collections.abc import Callable
from typing import TypeVar

from gpufleet.devices.device_errors import DriverError, GpuLostError

Value = TypeVar("Value")

# NVML's nvmlReturn_t.
SUCCESS = 0


class NotGivenError(DriverError):
    """A GPU or its driver does not give the value, or we have no right to it."""


class CallFailedError(DriverError):
    """The call failed, and the driver does not say why."""


class ResetNeededError(DriverError):
    """The GPU answers nothing before it is reset."""


class VersionMismatchError(DriverError):
    """Library and kernel module are of different versions."""


RELOAD = "load the module that fits the library, or restart the node"
CODES: dict[int, tuple[type[DriverError], str]] = {
    1: (DriverError, "the library is not initialised"),
    2: (NotGivenError, "the driver does not know this question"),
    3: (NotGivenError, "not supported"),
    4: (NotGivenError, "not permitted"),
    6: (NotGivenError, "not found"),
    8: (CallFailedError, "the card's power cables are not attached"),
    9: (DriverError, "the kernel's module is not loaded: load it with `modprobe nvidia`, and see `dmesg`"),
    10: (CallFailedError, "the driver took too long"),
    11: (CallFailedError, "the kernel found a fault of an interrupt of the card"),
    12: (
        DriverError,
        (
            "libnvidia-ml.so.1 cannot be loaded: install the NVIDIA driver, or, in a container, let the "
            "container runtime bring in the driver's libraries"
        ),
    ),
    13: (NotGivenError, "the library of this driver lacks the call"),
    14: (CallFailedError, "the card's own storage is corrupted"),
    15: (GpuLostError, "the GPU is lost: it fell off the bus, or does not answer"),
    16: (ResetNeededError, "the GPU has to be reset"),
    17: (DriverError, "the operating system blocked the call"),
    18: (VersionMismatchError, f"driver/library version mismatch: {RELOAD}"),
    19: (CallFailedError, "in use by another client"),
    20: (CallFailedError, "out of memory"),
    21: (NotGivenError, "no data"),
    22: (NotGivenError, "a virtual GPU does not tell this"),
    23: (CallFailedError, "the card is out of something that the call needs"),
    25: (NotGivenError, "the driver does not know this version of the question"),
    26: (NotGivenError, "the driver has given this call up"),
    27: (NotGivenError, "not ready yet"),
    28: (GpuLostError, "no GPU was found"),
    29: (NotGivenError, "not in this state"),
    999: (CallFailedError, "an error that the driver does not explain"),
}
"""Kind and meaning of each code of `nvmlReturn_t` in nvml.h (driver 580) that a question can end with."""


def translated(code: int, call: str) -> DriverError:
    """The error of a call that ended with this code."""
    kind, meaning = CODES.get(code, (CallFailedError, f"NVML's error {code}"))
    return kind(f"{meaning} ({call})")


class Answers:
    """Asks one GPU for one value after the other.

    A value that is not given is None. A failed call gives None too: a broken sensor must not hide the others.
    Where nothing at all was answered, ``check`` raises the failure.
    """

    def __init__(self) -> None:
        self.reset_needed = False
        self._problem: CallFailedError | None = None

    def ask(self, call: Callable[[], Value]) -> Value | None:
        """The value, or None. Raises GpuLostError, or DriverError where the library as a whole fails."""
        try:
            return call()
        except NotGivenError:
            return None
        except ResetNeededError:
            self.reset_needed = True
            return None
        except CallFailedError as error:
            self._problem = error
            return None

    def check(self, *, answered: bool) -> None:
        """Raises CallFailedError if calls failed and the rest did not make an answer."""
        if self._problem is not None and not answered and not self.reset_needed:
            raise self._problem
