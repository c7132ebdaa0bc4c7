"""Work is asked to save itself before it ends: what the question on a pod says, and until when it is open.

The question is an annotation of the pod, ``keys.CHECKPOINT_REQUESTED``: when it was asked, and by when the
work is to be saved. ``keys.CHECKPOINTED_AT`` is the answer. So a process that was killed asks nothing twice.
"""

import datetime as dt
from collections.abc import Mapping

import msgspec

from gpufleet.kube import keys
from gpufleet.kube.codec.times import micro_time, microseconds
from gpufleet.model.model_errors import InputError

TRUE = "true"
US_PER_S = 10**6


class SaveQuestion(msgspec.Struct, frozen=True):
    """When a pod was asked to save its work, and by when; microseconds since 1970."""

    asked_us: int
    until_us: int

    def is_open(self, annotations: Mapping[str, str], now_us: int) -> bool:
        """Whether the work is still to be waited for: there is time left, and no answer."""
        # The answer may have whole seconds, so that one of the second of the question counts.
        return now_us < self.until_us and (saved_us(annotations) or 0) + US_PER_S <= self.asked_us


def saves_on_request(annotations: Mapping[str, str]) -> bool:
    """Whether work writes a checkpoint when it is asked."""
    return annotations.get(keys.CHECKPOINT_ON_REQUEST) == TRUE


def question_on(annotations: Mapping[str, str], since_us: int, now_us: int) -> SaveQuestion | None:
    """The question that holds for a drain that began at ``since_us``; None where none was asked.

    A question of an earlier drain that is over says nothing about work that was done since.
    """
    first, slash, last = annotations.get(keys.CHECKPOINT_REQUESTED, "").partition("/")
    asked_us, until_us = _time(first), _time(last)
    if not slash or asked_us is None or until_us is None:
        return None
    # A question that was written with whole seconds may seem to come before its drain.
    is_of_now = asked_us + US_PER_S > since_us or until_us > now_us
    return SaveQuestion(asked_us, until_us) if is_of_now else None


def written_question(asked: dt.datetime, until: dt.datetime) -> str:
    """The question as its annotation holds it."""
    return f"{micro_time(asked)}/{micro_time(until)}"


def saved_us(annotations: Mapping[str, str]) -> int | None:
    """When the work was saved last; None where that is not known."""
    return _time(annotations.get(keys.CHECKPOINTED_AT))


def _time(text: str | None) -> int | None:
    try:
        return microseconds(text) or None
    except InputError:
        return None
