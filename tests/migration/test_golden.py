"""Objects of other systems, what they become, and the report on each of their fields.

After a change that is meant: `python -m tests.migration.test_golden`.
"""

from pathlib import Path

import pytest

from gpufleet.migration.command import MigrationOutcome, from_files
from gpufleet.migration.report import as_text

FOLDER = Path(__file__).parent / "cases"
CASES = sorted(path.stem for path in FOLDER.glob("*.yaml") if not path.name.endswith(".out.yaml"))


def outcome(case: str) -> MigrationOutcome:
    return from_files(case.partition("-")[0], [str(FOLDER / f"{case}.yaml")])


@pytest.mark.parametrize("case", CASES)
def test_manifests(case: str) -> None:
    assert outcome(case).manifests == (FOLDER / f"{case}.out.yaml").read_text(encoding="utf-8")


@pytest.mark.parametrize("case", CASES)
def test_report(case: str) -> None:
    expected = (FOLDER / f"{case}.report.txt").read_text(encoding="utf-8")
    assert f"{as_text(outcome(case).report)}\n" == expected


def test_every_case_is_listed() -> None:
    listed = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert all(f"| `{case}` |" in listed for case in CASES)


if __name__ == "__main__":
    for name in CASES:
        found = outcome(name)
        (FOLDER / f"{name}.out.yaml").write_text(found.manifests, encoding="utf-8")
        (FOLDER / f"{name}.report.txt").write_text(f"{as_text(found.report)}\n", encoding="utf-8")
