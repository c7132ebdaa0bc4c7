"""The page of explain has a table of all causes, and nothing beside them."""

import re

from gpufleet.engine.explanations.causes import all_causes
from gpufleet.explain.answer import WITHOUT_ENGINE
from tests.conventions.project import ROOT

PAGE = (ROOT / "docs" / "explain.md").read_text(encoding="utf-8")
TABLE = PAGE.partition("\n## Causes\n")[2].partition("\n## ")[0]
ROW = re.compile(r"^\| (?P<names>`[^|]*`) \| (?P<meaning>[^|]+) \|$", re.MULTILINE)


def documented() -> list[str]:
    """The causes of the table."""
    return [name for row in ROW.finditer(TABLE) for name in re.findall(r"`([^`]+)`", row["names"])]


def test_every_cause_stands_in_the_table_once() -> None:
    known = [*(one.name for one in all_causes()), *WITHOUT_ENGINE]
    assert len(known) == len(set(known))
    assert sorted(documented()) == sorted(known)


def test_every_cause_of_the_engine_has_a_sentence() -> None:
    for one in all_causes():
        assert one.words.endswith(".")
