"""Fixes of a text until none is left: each round lints anew, so that fixes never work on stale places."""

from collections.abc import Callable
from dataclasses import dataclass

from gpufleet.lint.edits.applying import DocumentFix, apply_fixes
from gpufleet.lint.findings import Finding
from gpufleet.lint.run import Reading, read
from gpufleet.lint.source.text import SourceText

ROUNDS_MAX = 100
"""Far more than fixes ever need; each round applies at least one."""


@dataclass(frozen=True)
class Fixed:
    """A text after its fixes, and what they did."""

    source: SourceText
    does: tuple[str, ...]


def fix(reading: Reading, judge: Callable[[Reading], list[Finding]]) -> Fixed:
    """The text with every fix applied that can be; ``judge`` says what is wrong with a reading of it."""
    done: list[str] = []
    for _ in range(ROUNDS_MAX):
        fixes = [DocumentFix(one.document, one.fix) for one in judge(reading) if one.fix is not None]
        mended = apply_fixes(reading.source, reading.parsed, fixes)
        if not mended.applied:
            break
        done += [one.fix.does for one in mended.applied]
        reading = read(SourceText(reading.source.name, mended.text))
    return Fixed(reading.source, tuple(done))
