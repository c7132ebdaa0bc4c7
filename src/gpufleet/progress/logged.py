"""Long steps of a daemon in its log, and which of them a log says is under way.

A record has the name of the step as its message, and ``step`` among its fields: where it stands.
"""

import json
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from gpufleet.progress.durations import Step, expected_s, record
from gpufleet.progress.reporting import IN_LOG_S, Revised, repeating_every, revised_s

BEGINS, GOES_ON, ENDS = "begins", "goes on", "ends"
DECIDING = "the first decision is made"
"""What a scheduler says when all was listed and decided on once; `gpufleet up` waits for it."""


class ToLog:
    """Progress in a log: when a step begins, every few seconds how far it is, and when it ends."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log

    def say(self, sentence: str) -> None:
        """One record."""
        self._log.info(sentence)

    @contextmanager
    def during(
        self,
        what: str,
        detail: Callable[[], str],
        step: Step | None = None,
        revised: Revised | None = None,
    ) -> Iterator[None]:
        """Log what goes on until the block ends."""
        begun_s = time.monotonic()
        whole_s = None if step is None else expected_s(step)
        self._log.info(what, extra={"step": BEGINS, **_expected(whole_s)})

        def tell() -> None:
            now_s = revised_s(revised, time.monotonic() - begun_s, whole_s)
            self._log.info(what, extra={"step": GOES_ON, "so_far": detail(), **_expected(now_s)})

        try:
            with repeating_every(IN_LOG_S, tell):
                yield
            # A step that failed says nothing about how long it takes.
            if step is not None:
                record(step, time.monotonic() - begun_s)
        finally:
            self._log.info(what, extra={"step": ENDS, "after_s": round(time.monotonic() - begun_s, 1)})


def _expected(whole_s: float | None) -> dict[str, float]:
    """The field of a record that tells how long the step will take in all."""
    return {} if whole_s is None else {"expected_s": round(whole_s, 1)}


class UnderWay(NamedTuple):
    """A step that has begun and not ended; ``expected_s`` is how long it will take, if that is known."""

    what: str
    so_far: str = ""
    expected_s: float | None = None


def under_way(log: str) -> UnderWay | None:
    """The step that the end of a log, as JSON, says is under way; None if none is."""
    for line in reversed(log.splitlines()):
        if (said := _record(line)) is None or said.get("step") not in {BEGINS, GOES_ON, ENDS}:
            continue
        if said["step"] == ENDS:
            return None
        whole = said.get("expected_s")
        expected = float(whole) if isinstance(whole, int | float) else None
        return UnderWay(str(said.get("message", "")), str(said.get("so_far", "")), expected)
    return None


def _record(line: str) -> dict[str, object] | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
