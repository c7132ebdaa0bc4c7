"""Quantities read as the API server reads them; expected amounts are facts of its own tests."""

import functools
import operator
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.model.model_errors import InputError
from gpufleet.model.quantity import (
    MAXIMUM_INT64,
    MAXIMUM_LENGTH,
    NANO_PER_UNIT,
    ZERO,
    Notation,
    Quantity,
    parse_quantity,
)

DECIMAL, BINARY, EXPONENT = Notation.DECIMAL, Notation.BINARY, Notation.EXPONENT

READ = [
    ("0", "0", DECIMAL),
    ("0n", "0", DECIMAL),
    ("0Ki", "0", BINARY),
    ("0k", "0", DECIMAL),
    ("1", "1", DECIMAL),
    ("1Ki", "1024", BINARY),
    ("7Mi", "7340032", BINARY),
    ("6Gi", "6442450944", BINARY),
    ("5Ti", "5497558138880", BINARY),
    ("4Pi", "4503599627370496", BINARY),
    ("3Ei", "3458764513820540928", BINARY),
    ("100Ti", "109951162777600", BINARY),
    ("5n", "0.000000005", DECIMAL),
    ("4u", "0.000004", DECIMAL),
    ("3m", "0.003", DECIMAL),
    ("50k", "50000", DECIMAL),
    ("7M", "7000000", DECIMAL),
    ("6G", "6000000000", DECIMAL),
    ("300T", "300000000000000", DECIMAL),
    ("2P", "2000000000000000", DECIMAL),
    ("1E", "1000000000000000000", DECIMAL),
    ("12E", "12000000000000000000", DECIMAL),
    ("1E-3", "0.001", EXPONENT),
    ("1e3", "1000", EXPONENT),
    ("1E3", "1000", EXPONENT),
    ("1E18", "1000000000000000000", EXPONENT),
    ("1.3E+6", "1300000", EXPONENT),
    ("1.40e9", "1400000000", EXPONENT),
    ("0.5e-2", "0.005", EXPONENT),
    ("100.035k", "100035", DECIMAL),
    ("0.00050k", "0.5", DECIMAL),
    ("6.987654321G", "6987654321", DECIMAL),
    ("1.01E", "1010000000000000000", DECIMAL),
    ("100.035Ki", "102435.84", BINARY),
    ("0.5Mi", "524288", BINARY),
    ("0.05Gi", "53687091.2", BINARY),
    ("0.025Ti", "27487790694.4", BINARY),
    # Finer than nano: away from zero.
    ("3.001n", "0.000000004", DECIMAL),
    ("1.1E-9", "0.000000002", EXPONENT),
    ("0.0000000001", "0.000000001", DECIMAL),
    ("0.00000000050", "0.000000001", DECIMAL),
    ("0.9n", "0.000000001", DECIMAL),
    ("0.00000012345", "0.000000124", DECIMAL),
    ("1e-1000", "0.000000001", EXPONENT),
    # Binary amounts alone are capped.
    ("9Ei", "9223372036854775807", BINARY),
    ("9223372036854775807Ki", "9223372036854775807", BINARY),
    ("9223372036854775807", "9223372036854775807", DECIMAL),
    ("9223372036854775808", "9223372036854775808", DECIMAL),
    ("1e30", "1000000000000000000000000000000", EXPONENT),
    # Odd, and still read.
    ("0.000000000001Ki", "0.000000002", DECIMAL),
    (".0001k", "0.1", DECIMAL),
    ("1.", "1", DECIMAL),
    ("1.G", "1000000000", DECIMAL),
]

REFUSED = [
    "",
    "1.1.M",
    "1+1.0M",
    "0.1mi",
    "0.1am",
    "aoeu",
    ".5i",
    "1i",
    "-3.01e-",
    "1e",
    " 1",
    "1 ",
    "1\n",
    ".",
    "-",
    "Ki",
    "m",
    "e3",
    "16g",
    "16gi",
    "16 Gi",
    "16GiB",
    "1Gi5",
    "--1",
    "0x10",
    "NaN",
    "inf",
    "10,000",
    "1_000",
    "\uff11\uff16Gi",
    "\u0661",
    "1\u0000",
    "\ufeff1",
    "1\u202e",
    "\ud800",
    "1e1001",
    "1e-99999999999",
    "9" * (MAXIMUM_LENGTH + 1),
]

CANONICAL = [
    ("1024Mi", "1Gi"),
    ("307200Ki", "300Mi"),
    ("1025024Mi", "1001Gi"),
    ("1.5Gi", "1536Mi"),
    ("1.5", "1500m"),
    ("1000M", "1G"),
    ("0.001T", "1G"),
    ("1000u", "1m"),
    ("1080000000n", "1080m"),
    ("1000E", "1e21"),
    ("1000000E", "1e24"),
    (".001e12", "1e9"),
    ("1000e-12", "1e-9"),
    ("80e-3", "80e-3"),
    ("300e6", "300e6"),
    ("12e2", "1200"),
    ("00", "0"),
    ("-0", "0"),
    ("+1", "1"),
    (".001Ki", "1024m"),
    (".000000000001Ki", "2n"),
    ("5000m", "5"),
    ("1025", "1025"),
    ("999999999999999999.1", "999999999999999999100m"),
    ("1.000000000000000001E", "1000000000000000001"),
    ("10000000000000000000000m", "10E"),
    ("9223372036854775807000m", "9223372036854775807"),
]


def nano(amount: str) -> int:
    exact = Fraction(amount) * NANO_PER_UNIT
    assert exact.denominator == 1
    return exact.numerator


@pytest.mark.parametrize(("text", "amount", "notation"), READ)
def test_reads_what_the_server_reads(text: str, amount: str, notation: Notation) -> None:
    quantity = parse_quantity(text)
    assert (quantity.nano, quantity.notation) == (nano(amount), notation)


@pytest.mark.parametrize(("text", "amount"), [row[:2] for row in READ])
def test_signs(text: str, amount: str) -> None:
    assert parse_quantity("+" + text).nano == nano(amount)
    assert parse_quantity("-" + text).nano == -nano(amount)


@pytest.mark.parametrize("text", REFUSED)
def test_refuses_what_the_server_refuses_or_nobody_means(text: str) -> None:
    with pytest.raises(InputError) as refusal:
        parse_quantity(text, field="limits[memory]")
    assert refusal.value.field == "limits[memory]"
    assert str(refusal.value).startswith("limits[memory]: ")
    assert "16Gi" in refusal.value.expected
    assert str(refusal.value).isascii()
    assert len(str(refusal.value)) < 400


@pytest.mark.parametrize(("text", "spelling"), CANONICAL)
def test_canonical_spelling(text: str, spelling: str) -> None:
    assert str(parse_quantity(text)) == spelling
    if spelling != "0":
        assert str(parse_quantity("-" + text.lstrip("+"))) == "-" + spelling


@pytest.mark.parametrize(
    ("text", "value", "milli_value"),
    [
        ("9.01", 10, 9010),
        ("-9.01", -10, -9010),
        ("1n", 1, 1),
        ("1500m", 2, 1500),
        ("0.0005", 1, 1),
        ("16Gi", 17179869184, 17179869184000),
    ],
)
def test_rounding_is_away_from_zero(text: str, value: int, milli_value: int) -> None:
    quantity = parse_quantity(text)
    assert (quantity.value(), quantity.milli_value()) == (value, milli_value)


def test_equality_and_order_ignore_the_notation() -> None:
    assert parse_quantity("1024Mi") == parse_quantity("1Gi") == parse_quantity("1073741824")
    assert operator.ne(parse_quantity("1024Mi"), parse_quantity("1Gi")) is False
    assert parse_quantity("-0") == ZERO
    assert hash(parse_quantity("1024Mi")) == hash(parse_quantity("1Gi"))
    assert parse_quantity("100Gi") < parse_quantity("10000T")
    assert max(parse_quantity("1k"), parse_quantity("1Ki")) == parse_quantity("1024")
    assert parse_quantity("1") != 1


def test_adding_to_zero_keeps_the_notation() -> None:
    for text in ("100m", "1Gi", "2e3"):
        assert str(ZERO + parse_quantity(text)) == str(parse_quantity(text) + ZERO) == text


def test_binary_sums_beyond_the_last_suffix_stay_readable() -> None:
    assert str(Quantity(2**70 * NANO_PER_UNIT, BINARY)) == "1024Ei"


SUFFIXES = ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]
SUFFIXES += ["e3", "E+6", "e-2", "E0"]


@st.composite
def texts(draw: st.DrawFn) -> str:
    sign = draw(st.sampled_from(["", "+", "-"]))
    whole = draw(st.text("0123456789", min_size=1, max_size=20))
    fraction = draw(st.one_of(st.just(""), st.text("0123456789", max_size=12).map(".".__add__)))
    return sign + whole + fraction + draw(st.sampled_from(SUFFIXES))


@given(texts())
def test_spelling_and_reading_again_changes_nothing(text: str) -> None:
    quantity = parse_quantity(text)
    again = parse_quantity(str(quantity))
    assert again == quantity
    assert str(again) == str(quantity)


@given(texts())
def test_the_amount_is_the_exact_one_rounded_once(text: str) -> None:
    number, suffix = text, ""
    for candidate in sorted(SUFFIXES, key=len, reverse=True):
        if candidate and text.endswith(candidate):
            number, suffix = text.removesuffix(candidate), candidate
            break
    digits = number.lstrip("+-")
    exact = Fraction(digits) * _factor(suffix)
    if suffix.endswith("i"):
        exact = min(exact, Fraction(MAXIMUM_INT64))
    rounded = -((-exact * NANO_PER_UNIT) // 1)
    assert parse_quantity(text).nano == (-rounded if text.startswith("-") else rounded)


def _factor(suffix: str) -> Fraction:
    if suffix.endswith("i"):
        return Fraction(1024) ** " KMGTPE".index(suffix[0])
    if len(suffix) > 1:
        return Fraction(10) ** int(suffix[1:])
    return Fraction(1000) ** (["n", "u", "m", "", "k", "M", "G", "T", "P", "E"].index(suffix) - 3)


@given(st.lists(texts(), min_size=1, max_size=5))
def test_sums_are_exact_and_adding_never_makes_less(parts: list[str]) -> None:
    quantities = [parse_quantity(part) for part in parts]
    total = functools.reduce(operator.add, quantities)
    assert total.nano == sum(quantity.nano for quantity in quantities)
    for more in quantities:
        assert ((total + more) < total) == (more.nano < 0)


@given(st.text(max_size=12))
def test_any_text_is_read_or_refused_as_bad_input(text: str) -> None:
    try:
        quantity = parse_quantity(text)
    except InputError:
        return
    assert text.isascii()
    assert parse_quantity(str(quantity)) == quantity
