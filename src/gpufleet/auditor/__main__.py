"""Judges a file: a List of objects as kubectl prints it, or a record with one write a line.

    kubectl get ns,no,fleetqueues,nodedevices,priorityclasses,po -A -o json | python -m gpufleet.auditor
    python -m gpufleet.auditor record.jsonl

Exit status 0 without findings, 1 with some, 2 for a file that cannot be read.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from gpufleet.auditor.audit import judge
from gpufleet.auditor.record import RecordError, Write, of_lines, of_objects
from gpufleet.auditor.rules import Rules

FOUND = 1
UNREADABLE = 2
"""Exit codes: a promise was broken, or a file cannot be read. Scripts tell them apart."""


def main(arguments: Sequence[str]) -> int:
    """Judge the files named, or what comes in."""
    try:
        texts = [Path(one).read_text(encoding="utf-8") for one in arguments] or [sys.stdin.read()]
        writes = [write for text in texts for write in read(text)]
        findings = judge(writes, Rules(grants_required=True))
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        sys.stderr.write(f"auditor: {error!r}\n")
        return UNREADABLE
    for finding in findings:
        sys.stdout.write(f"{finding}\n")
    words = f"{len(writes)} objects and writes, {len(findings)} findings"
    sys.stdout.write(f"{words}\n")
    return FOUND if findings else 0


def read(text: str) -> tuple[Write, ...]:
    """A text as writes. Raises RecordError for what is neither a List nor a record."""
    try:
        value = json.loads(text)
    except ValueError:
        return tuple(of_lines(text.splitlines()))
    if isinstance(value, dict) and isinstance(value.get("items"), list):
        return of_objects(value["items"])
    # A record of one write is a single line, and so is JSON as a whole too.
    if isinstance(value, dict) and "latest" not in value and "kind" in value and "metadata" not in value:
        return tuple(of_lines([text]))
    raise RecordError("neither a List of objects nor a record with one write a line")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
