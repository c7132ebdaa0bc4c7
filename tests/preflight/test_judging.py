"""Preflight finds what has brought driver upgrades to a stop, and nothing where nothing is wrong."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from gpufleet.preflight.facts import Case, HostFacts, ImageFacts, NodeState
from gpufleet.preflight.finding import FindingSeverity
from gpufleet.preflight.judging import judge

FOLDER = Path(__file__).parent
HEALTHY = msgspec.yaml.decode((FOLDER / "healthy.yaml").read_bytes())
WEDGES: list[dict[str, Any]] = msgspec.yaml.decode((FOLDER / "wedges.yaml").read_bytes())
OTHERS: list[dict[str, Any]] = msgspec.yaml.decode((FOLDER / "other_findings.yaml").read_bytes())


def over(base: Any, change: Any) -> Any:
    """The base with a change laid over it; lists are replaced."""
    if not isinstance(base, dict) or not isinstance(change, dict):
        return change
    return {**base, **{key: over(base.get(key, {}), value) for key, value in change.items()}}


def case_of(change: dict[str, Any]) -> Case:
    return msgspec.convert(over(HEALTHY, change), Case)


def test_nothing_is_found_where_nothing_is_wrong() -> None:
    assert judge(case_of({})) == ()


@pytest.mark.parametrize("wedge", [*WEDGES, *OTHERS], ids=lambda one: one["rule"])
def test_a_wedge_is_found_with_a_way_out(wedge: dict[str, Any]) -> None:
    found = {one.rule: one for one in judge(case_of(wedge["case"]))}
    assert wedge["rule"] in found, wedge["cause"]
    finding = found[wedge["rule"]]
    assert finding.severity is not FindingSeverity.UNKNOWN
    assert finding.message
    assert finding.way_out


def test_each_report_is_there_once() -> None:
    reports = [report for one in WEDGES for report in one["report"].split(", ")]
    assert len(reports) == len(set(reports)) == 30


def test_what_is_not_known_is_one_finding_that_names_it_all() -> None:
    wanted = case_of({}).wanted
    (finding,) = judge(Case(wanted))
    assert finding.severity is FindingSeverity.UNKNOWN
    for part in (
        "the kernel",
        "loaded modules",
        "secure boot",
        "which pods hold GPUs",
        "what the image is for",
    ):
        assert part in finding.message


def test_unknown_facts_are_never_taken_for_well_or_ill() -> None:
    wanted = case_of({}).wanted
    known = Case(wanted, HostFacts(secure_boot=True), ImageFacts(), NodeState())
    assert {one.severity for one in judge(known)} == {FindingSeverity.UNKNOWN}


def test_what_blocks_comes_first() -> None:
    found = judge(case_of({"node": {"gpu_pods": ["a/b"], "is_ready": False}, "host": {"free_mib": None}}))
    assert [one.severity for one in found] == [
        FindingSeverity.BLOCKS,
        FindingSeverity.WARNS,
        FindingSeverity.UNKNOWN,
    ]


def test_a_driver_of_the_host_asks_nothing_of_images() -> None:
    change = {
        "wanted": {"source": "Host", "image": ""},
        "host": {"secure_boot": True, "driver_package": "nvidia"},
    }
    assert judge(case_of(change)) == ()
