"""What a check says: yes, no, or unknown.

Unknown is an answer of its own, where what is known does not suffice, and never becomes a yes when answers
are put together. ``judging`` puts them together.
"""

import enum
from collections.abc import Iterable

import msgspec


class CudaAnswer(enum.Enum):
    """Whether it runs."""

    OK = "ok"
    NO = "no"
    UNKNOWN = "unknown"


class Question(enum.Enum):
    """What was looked at."""

    REQUIREMENT = "requirement"
    TOOLKIT = "toolkit"
    ARCHITECTURE = "architecture"
    DRIVER = "driver"


class Check(msgspec.Struct, frozen=True):
    """One question's answer, why, and what would help.

    ``caution`` is what a reader should know although the answer is yes.
    """

    question: Question
    answer: CudaAnswer
    reason: str
    ways_out: tuple[str, ...] = ()
    caution: str = ""


def together(answers: Iterable[CudaAnswer]) -> CudaAnswer:
    """No if one is no, else unknown if one is unknown; yes only if all are."""
    found = set(answers)
    for one in (CudaAnswer.NO, CudaAnswer.UNKNOWN):
        if one in found:
            return one
    return CudaAnswer.OK if found else CudaAnswer.UNKNOWN
