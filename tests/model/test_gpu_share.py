"""Shares as people write them, and the ways in which they write them wrongly."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.model.gpu_share import check_memory_fits, parse_fraction_milli, parse_memory_mib
from gpufleet.model.model_errors import InputError

NOT_NUMBERS = [
    "",
    "abc",
    "-1",
    "-0.5",
    "+0.5",
    "0",
    "0.0",
    "1e999",
    "1e-1",
    "NaN",
    "inf",
    "10,000",
    "0,5",
    "1_000",
    " 0.5",
    "0.5 ",
    "\t1",
    "1\n",
    "\uff11",
    "\u0660.\u0665",
    "\ufeff1",
    "0.5\u0000",
    "\u202e1",
    "\ud800",
    "$(reboot)",
    "0" * 300_000,
]


@pytest.mark.parametrize(
    ("text", "milli"),
    [
        ("0.5", 500),
        ("1", 1000),
        ("1.0", 1000),
        ("0.001", 1),
        ("0.250", 250),
        ("50%", 500),
        ("100%", 1000),
        ("0.1%", 1),
    ],
)
def test_fractions(text: str, milli: int) -> None:
    assert parse_fraction_milli(text) == milli


@pytest.mark.parametrize(
    "text", [*NOT_NUMBERS, "101%", "1.001", "2", "0.0005", "33.33%", "0%", ".5", "1.", "5 %", "%"]
)
def test_what_is_no_fraction(text: str) -> None:
    with pytest.raises(InputError) as refusal:
        parse_fraction_milli(text, field="metadata.annotations[share]")
    assert refusal.value.field == "metadata.annotations[share]"
    assert "0.001 to 1" in refusal.value.expected
    assert str(refusal.value).isascii()
    assert len(str(refusal.value)) < 400


@pytest.mark.parametrize(
    ("text", "memory_mib"),
    [("4096", 4096), ("4Gi", 4096), ("16G", 15259), ("1Mi", 1), ("1k", 1), ("2147483647", 2**31 - 1)],
)
def test_memory(text: str, memory_mib: int) -> None:
    assert parse_memory_mib(text) == memory_mib


@pytest.mark.parametrize(
    "text", [*NOT_NUMBERS, "1.5", "100m", "4gi", "4 Gi", "0Gi", "-4Gi", "2147483648", "9Ei", "1e3"]
)
def test_what_is_no_memory(text: str) -> None:
    with pytest.raises(InputError) as refusal:
        parse_memory_mib(text, field="metadata.annotations[memory]")
    assert refusal.value.field == "metadata.annotations[memory]"
    assert refusal.value.expected
    assert str(refusal.value).isascii()


def test_more_memory_than_the_card_has() -> None:
    check_memory_fits(40960, 40960)
    with pytest.raises(InputError, match="at most the card's 40960 MiB"):
        check_memory_fits(40961, 40960, field="metadata.annotations[memory]")


@given(st.integers(min_value=1, max_value=1000))
def test_every_thousandth_can_be_written(milli: int) -> None:
    assert parse_fraction_milli(f"{milli / 1000:.3f}") == milli
    assert parse_fraction_milli(f"{milli // 10}.{milli % 10}%") == milli
