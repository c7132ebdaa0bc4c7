"""Drivers and toolkits, by NVIDIA's release notes and its page on CUDA compatibility."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.model.cuda_compatibility import (
    AS_OF,
    FAMILIES,
    PACKAGED,
    Support,
    Toolkit,
    parse_driver,
    parse_toolkit,
    refused_majors,
    supports,
    write_driver,
)
from tests.conventions.project import ROOT

OK, MINOR, NO, UNKNOWN = Support.OK, Support.OK_BY_MINOR_VERSION, Support.NO, Support.UNKNOWN
DRIVERS = st.tuples(st.integers(390, 700), st.integers(0, 300), st.integers(0, 99))
LISTED = st.sampled_from(sorted(PACKAGED)).map(lambda listed: Toolkit(*listed))


def asked(driver: str, toolkit: str, *, forward_compatible: bool = True) -> tuple[Support, str]:
    """The answer, and the least driver that it names."""
    version, wanted = parse_driver(driver), parse_toolkit(toolkit)
    assert version is not None
    assert wanted is not None
    verdict = supports(version, wanted, forward_compatible=forward_compatible)
    assert verdict.reason
    return verdict.support, verdict.least_driver


@pytest.mark.parametrize(
    ("driver", "toolkit", "support"),
    [
        # The driver that came with it, and any newer one.
        ("550.54.14", "12.4", OK),
        ("595.71.05", "12.4", OK),
        ("700.10", "12.4", OK),
        ("580.65.06", "11.8", OK),
        # An update needs its own driver; the first release's runs it with fewer features.
        ("550.54.14", "12.4.0", OK),
        ("550.54.14", "12.4.1", MINOR),
        ("550.54.15", "12.4.1", OK),
        # The whole version counts, number by number.
        ("525.60.11", "12.0", UNKNOWN),
        ("525.60.13", "12.9", MINOR),
        ("525.105.17", "12.9", MINOR),
        ("580.65.06", "13.2", MINOR),
        ("595.71.05", "13.3", MINOR),
        ("610.43.02", "13.3.1", OK),
        ("450.80.02", "11.8", MINOR),
        # An update of which nobody wrote down the driver.
        ("545.23.08", "12.3.2", MINOR),
        ("550.54.14", "12.3.2", OK),
        # CUDA 11.0 came with a driver below its family's floor.
        ("450.51.06", "11.0", OK),
        # Before 11 there is no minor version compatibility.
        ("440.33.01", "10.2", OK),
        ("418.39", "10.1", OK),
    ],
)
def test_published_pairs(driver: str, toolkit: str, support: Support) -> None:
    assert asked(driver, toolkit)[0] is support


@pytest.mark.parametrize(
    ("driver", "toolkit", "least"),
    [
        ("470.82.01", "13.0", "580.65.06"),
        ("470.256.02", "13.2.1", "580.65.06"),
        ("390.157", "12.4", "525.60.13"),
        ("390.157", "11.8", "450.80.02"),
        ("390.157", "11.0", "450.36.06"),
    ],
)
def test_a_sure_no_names_the_least_driver(driver: str, toolkit: str, least: str) -> None:
    assert asked(driver, toolkit) == (NO, least)


def test_where_forward_compatibility_may_help_nobody_knows() -> None:
    assert asked("470.82.01", "12.4") == (UNKNOWN, "")
    assert asked("535.104.05", "13.0") == (UNKNOWN, "")


def test_cards_without_forward_compatibility_get_a_sure_no() -> None:
    assert asked("470.82.01", "12.4", forward_compatible=False) == (NO, "525.60.13")
    assert asked("418.39", "10.2", forward_compatible=False) == (NO, "440.33")


@pytest.mark.parametrize("toolkit", ["14.0", "13.4", "12.7", "12.10", "9.2"])
def test_a_toolkit_that_is_not_listed_is_never_ok(toolkit: str) -> None:
    assert asked("610.43.02", toolkit)[0] is UNKNOWN


def test_a_toolkit_that_is_not_listed_may_be_a_sure_no() -> None:
    assert asked("470.82.01", "13.9") == (NO, "580.65.06")


@given(toolkit=LISTED, drivers=st.lists(DRIVERS, min_size=2, max_size=2).map(sorted))
def test_a_newer_driver_is_never_worse(toolkit: Toolkit, drivers: list[tuple[int, int, int]]) -> None:
    order = (NO, UNKNOWN, MINOR, OK)
    older, newer = (order.index(supports(driver, toolkit).support) for driver in drivers)
    assert older <= newer


@given(driver=DRIVERS, toolkit=LISTED)
def test_a_refused_major_version_is_a_sure_no_for_all_its_toolkits(
    driver: tuple[int, int, int], toolkit: Toolkit
) -> None:
    if toolkit.major in refused_majors(driver):
        assert supports(driver, toolkit).support is NO


@pytest.mark.parametrize(
    ("driver", "consumer", "refused"),
    [
        ("580.65.06", True, ()),
        ("550.54.14", True, (13,)),
        ("550.54.14", False, ()),
        ("470.82.01", True, (12, 13)),
        ("470.82.01", False, (13,)),
        ("390.157", False, (11, 12, 13)),
    ],
)
def test_refused_major_versions(driver: str, refused: tuple[int, ...], *, consumer: bool) -> None:
    version = parse_driver(driver)
    assert version is not None
    assert refused_majors(version, forward_compatible=not consumer) == refused


@pytest.mark.parametrize("text", ["", "simulated", "6.10.5", "550", "550.54.14.1", "550.54.x", "550.54.14\n"])
def test_other_texts_are_no_versions_of_the_driver(text: str) -> None:
    assert parse_driver(text) is None


@pytest.mark.parametrize("listed", [driver for drivers in PACKAGED.values() for driver in drivers])
def test_a_driver_is_written_as_it_is_read(listed: tuple[int, ...]) -> None:
    assert parse_driver(write_driver(listed)) == listed


def test_the_documents_have_the_same_table_and_its_date() -> None:
    page = (ROOT / "docs" / "cuda-compatibility.md").read_text(encoding="utf-8")
    assert AS_OF in page
    for (major, minor), drivers in PACKAGED.items():
        written = ", ".join(write_driver(driver) for driver in dict.fromkeys(drivers))
        assert f"| {major}.{minor} | {written} |" in page
    for major, family in FAMILIES.items():
        floor = "none" if family.floor is None else write_driver(family.floor)
        assert f"| {major} | {floor} | {family.forward_from} |" in page
