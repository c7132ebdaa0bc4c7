"""Findings that were there when lint was taken up: only new ones count from then on.

A finding is known again by rule, file, object and path, so it may move in its file. Where several are equal
in these, as many of them are known as there were.
"""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import msgspec

from gpufleet.files.regular import read_regular
from gpufleet.lint.findings import Finding
from gpufleet.model.model_errors import InputError
from gpufleet.model.visible import json_text

Schema = Literal["gpufleet.io/lint-baseline/v1"]
BASELINE_MAX_BYTES = 64 * 2**20
"""A finding has some 200 bytes: this is room for some 300,000, more than a project can work off."""
Fingerprint = tuple[str, str, str, str]


class KnownFindings(msgspec.Struct, frozen=True, order=True, forbid_unknown_fields=True):
    """A finding that is known, and how many there are of it."""

    rule: str
    file: str
    object: str
    path: str
    count: int = 1


class BaselineDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file."""

    findings: tuple[KnownFindings, ...]
    schema: Schema = "gpufleet.io/lint-baseline/v1"


def baseline_text(findings: Iterable[Finding]) -> str:
    """The file that makes these findings known."""
    counts = Counter(one.fingerprint for one in findings)
    document = BaselineDocument(tuple(sorted(KnownFindings(*key, count) for key, count in counts.items())))
    return json_text(document) + "\n"


def read_baseline(path: Path) -> Counter[Fingerprint]:
    """How many of each finding are known. Raises InputError, or OSError if it cannot be read."""
    try:
        document = msgspec.json.decode(read_regular(path, BASELINE_MAX_BYTES), type=BaselineDocument)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(
            str(error), where=str(path), expected="a file that --write-baseline wrote"
        ) from error
    return Counter({(one.rule, one.file, one.object, one.path): one.count for one in document.findings})
