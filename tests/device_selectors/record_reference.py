"""Asks Kubernetes' own compiler of selectors, and writes its answers down for the tests.

``python -m tests.device_selectors.record_reference`` builds the small program in ``reference``, whose
modules are pinned there; it needs Go. An answer is "invalid" (of the text), or a verdict (or "no value") with
its cost.
"""

import json
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from tests.device_selectors.reference_questions import ANSWERS, DEVICES, HERE, WITH_LISTS, expressions


def answered(found: dict[str, Any]) -> list[Any]:
    """One answer, short."""
    if found.get("compileError"):
        return ["invalid"]
    return ["no value" if found.get("matchError") else found["match"], found["cost"]]


def main() -> None:
    """Build, ask, write."""
    go = shutil.which("go")
    if go is None:
        raise SystemExit("record_reference: there is no Go here")
    with tempfile.TemporaryDirectory() as name:
        program = Path(name) / "reference"
        subprocess.run([go, "build", "-o", str(program), "."], cwd=HERE / "reference", check=True)
        questions = [
            json.dumps(
                {"expression": text, "new": True, "consumable": True, "lists": lists, **device.written()}
            )
            for text in expressions()
            for lists in WITH_LISTS
            for device in DEVICES
        ]
        done = subprocess.run(
            [str(program)], input="\n".join(questions), capture_output=True, text=True, check=True
        )
    lines = iter([answered(json.loads(line)) for line in done.stdout.splitlines()])
    rows = [
        f"{json.dumps(text)}: {json.dumps([next(lines) for _ in range(len(WITH_LISTS) * len(DEVICES))])}"
        for text in expressions()
    ]
    ANSWERS.write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
