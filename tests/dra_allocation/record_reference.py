"""Asks Kubernetes' own allocator of claims, and writes its answers down for the tests.

``python -m tests.dra_allocation.record_reference`` builds the small program in ``reference``, whose
modules are pinned there, and takes the published questions out of the module's own tests; it needs Go.
"""

import gzip
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from tests.dra_allocation.questions import (
    ANSWERS,
    HERE,
    PUBLISHED,
    normal,
    published_questions,
    random_questions,
)

MODULE = "k8s.io/dynamic-resource-allocation"
TABLE = Path("structured/internal/allocatortesting/allocator_testing.go")
CALL = "\t\t\tresults, err := allocator.Allocate(ctx, tc.node, unwrap(claimsToAllocate...))\n"
DUMP = "\t\t\tdumpCase(name, tc, tc.node, unwrap(claimsToAllocate...))\n"


def main() -> None:
    """Build, ask, write."""
    go = shutil.which("go")
    if go is None:
        raise SystemExit("record_reference: there is no Go here")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = folder / "reference"
        subprocess.run([go, "build", "-o", str(program), "."], cwd=HERE / "reference", check=True)
        write(PUBLISHED, dumped(go, folder))
        asked = [*published_questions(), *random_questions()]
        done = subprocess.run(
            [str(program)],
            input="\n".join(json.dumps(one) for one in asked),
            capture_output=True,
            text=True,
            check=True,
        )
    write(ANSWERS, [answered(json.loads(line)) for line in done.stdout.splitlines()])


def dumped(go: str, folder: Path) -> list[dict[str, Any]]:
    """The inputs of the table of tests that the module itself has, which a copy of it writes down."""
    found = subprocess.run(
        [go, "list", "-m", "-f", "{{.Dir}}", MODULE],
        cwd=HERE / "reference",
        capture_output=True,
        text=True,
        check=True,
    )
    copy, lines = folder / "module", folder / "cases.jsonl"
    shutil.copytree(found.stdout.strip(), copy, copy_function=shutil.copyfile)
    table = (copy / TABLE).read_text(encoding="utf-8")
    assert table.count(CALL) == 1
    (copy / TABLE).write_text(table.replace(CALL, DUMP + CALL), encoding="utf-8")
    shutil.copyfile(HERE / "published" / "dump.go", (copy / TABLE).with_name("dump.go"))
    subprocess.run(
        [go, "test", "-mod=mod", "-count=1", "-run", "TestAllocator$", "./structured"],
        cwd=copy,
        env=os.environ | {"DUMP_TO": str(lines)},
        check=True,
    )
    cases = [json.loads(line) for line in lines.read_text(encoding="utf-8").splitlines()]
    return sorted(cases, key=lambda one: str(one["name"]))


def answered(found: dict[str, Any]) -> dict[str, Any]:
    """One answer, short."""
    return {
        "outcome": found["outcome"],
        **({"results": normal(found["results"])} if "results" in found else {}),
    }


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write rows of JSON, equal bytes for equal rows."""
    text = "".join(json.dumps(one, sort_keys=True, separators=(",", ":")) + "\n" for one in rows)
    path.write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    main()
