"""Clusters of many kinds that are well: nobody there is told that something is broken.

The files are in tests/corpus/clusters; where they come from is said beside them.
"""

from pathlib import Path

import pytest

from gpufleet.doctor.check import Grade
from gpufleet.doctor.checks import all_checks
from gpufleet.doctor.diagnosis import diagnose
from tests.doctor.facts_of_text import facts_of

CLUSTERS = Path(__file__).parents[1] / "corpus/clusters"
ARGUED: dict[str, frozenset[str]] = {}
"""Checks that may see a risk in a cluster, and why."""


@pytest.mark.parametrize("path", sorted(CLUSTERS.glob("*.yaml")), ids=lambda path: path.stem)
def test_a_healthy_cluster_gets_no_complaint(path: Path) -> None:
    found = diagnose(facts_of(path.read_text("utf-8")), all_checks())
    told = [f"{one.check.id}: {one.failure.says}" for one in found.causes if one.check.grade is Grade.BROKEN]
    assert not told
    risks = {one.check.id for one in found.causes}
    assert risks <= ARGUED.get(path.stem, frozenset())
