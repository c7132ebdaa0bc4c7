"""The page of explain has a table of all causes, and nothing beside them."""

import re

from gpufleet.cluster.verdict_words import GANG_MALFORMED
from gpufleet.cluster.waiting_reasons import UNSCHEDULABLE, waiting_reason
from gpufleet.engine.explanations.causes import BESIDE_NODES, all_causes
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


def test_causes_that_nodes_do_not_help_stand_under_their_reason() -> None:
    section = PAGE.partition("\n## Reasons of the condition\n")[2].partition("\n## ")[0]
    told = {
        row["names"].strip("`"): set(re.findall(r"`([^`]+)`", row["meaning"]))
        for row in ROW.finditer(section)
    }
    causes = {cause.name for cause in all_causes()} | {GANG_MALFORMED}
    reasons = {cause: waiting_reason(cause, never_fits=False) for cause in causes}
    for reason in set(reasons.values()) - {UNSCHEDULABLE}:
        assert told[reason] == {cause for cause, its in reasons.items() if its == reason}
    beside_nodes = {cause.name for cause in BESIDE_NODES}
    assert told[UNSCHEDULABLE] == {cause for cause in beside_nodes if reasons[cause] == UNSCHEDULABLE}


def test_every_cause_of_the_engine_has_a_sentence() -> None:
    for one in all_causes():
        assert one.words.endswith(".")
