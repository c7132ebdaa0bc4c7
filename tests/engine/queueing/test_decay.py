"""Decayed use: against the formula in exact and in high precision, and however often somebody readings."""

from decimal import Decimal, getcontext

from hypothesis import given
from hypothesis import strategies as st

from gpufleet.engine.queueing.decay import (
    ERROR_MOST,
    FACTOR_BITS,
    FACTORS,
    FRACTION_BITS,
    TICKS_A_HALF_LIFE,
    DecayedUse,
    remembered,
    tick_length_us,
)

HOUR_US = 3_600_000_000
HALF_LIFE_US = HOUR_US // TICKS_A_HALF_LIFE * TICKS_A_HALF_LIFE
ONE = 1 << FRACTION_BITS


def test_the_table_is_that_of_the_powers_of_two() -> None:
    getcontext().prec = 60
    scale = Decimal(2) ** FACTOR_BITS
    for ticks in (0, 1, 2, 1023, 2048, 3000, 4095):
        exact = Decimal(2) ** (Decimal(-ticks) / TICKS_A_HALF_LIFE) * scale
        assert abs(FACTORS[ticks] - exact) <= 13, "at most one unit in the last place for each root"
    assert list(FACTORS) == sorted(FACTORS, reverse=True)
    assert len(set(FACTORS)) == TICKS_A_HALF_LIFE


def test_half_is_left_after_a_half_life_and_a_quarter_after_two() -> None:
    assert remembered(1 << 20, TICKS_A_HALF_LIFE) == 1 << 19
    assert remembered(1 << 20, 2 * TICKS_A_HALF_LIFE) == 1 << 18
    assert remembered(1 << 20, TICKS_A_HALF_LIFE // 2) == 741_455, "2^19.5 = 741455.2..."
    assert remembered(-(1 << 20), TICKS_A_HALF_LIFE) == -(1 << 19)


def test_use_grows_into_the_average_and_fades_by_half_lives() -> None:
    """Eight GPUs for one half-life from nothing: 4. Another: 6. Then nothing for two: 3 and 1.5."""
    use = DecayedUse(0, used=8)
    values = []
    for number, used in enumerate((8, 0, 0, 0)):
        use = use.at((number + 1) * HALF_LIFE_US, HALF_LIFE_US)
        values.append(use.value)
        use = use.using(8 if number == 0 else used)
    assert values == [4 * ONE, 6 * ONE, 3 * ONE, 3 * ONE // 2]


def test_a_jump_of_the_clock_by_a_thousand_years_forgets_all_and_goes_on() -> None:
    use = DecayedUse(0, used=8).at(HALF_LIFE_US, HALF_LIFE_US).using(3)
    later = use.at(1000 * 365 * 24 * HOUR_US, HALF_LIFE_US)
    assert later.value == 3 * ONE
    assert later.at(HOUR_US, HALF_LIFE_US) == later, "time does not go back"


def test_a_half_life_shorter_than_a_tick_can_be_is_taken_for_the_shortest() -> None:
    assert tick_length_us(1) == tick_length_us(4096) == 1
    use = DecayedUse(0, used=2).at(4096, 1)
    assert use.value == ONE


def test_another_half_life_holds_from_its_moment_on() -> None:
    """Eight GPUs for three days, in the middle of a tick of the longer half-life: still eight."""
    week_us, days_us = 168 * HOUR_US, 72 * HOUR_US + 12_345
    use = DecayedUse(0, used=8, value=8 * ONE).at(days_us, week_us).regauged(HALF_LIFE_US)
    assert use.at(days_us + HALF_LIFE_US, HALF_LIFE_US).value == 8 * ONE
    faded = use.using(0).at(days_us + HALF_LIFE_US, HALF_LIFE_US).value
    assert abs(faded - 4 * ONE) <= 8 * ONE // TICKS_A_HALF_LIFE


Stretch = tuple[int, int]
stretches = st.lists(st.tuples(st.integers(0, 64_000), st.integers(1, HOUR_US)), min_size=1, max_size=6)
half_lives = st.integers(4096, 30 * 24 * HOUR_US)


def followed(told: list[Stretch], half_life_us: int, start_us: int, readings: int) -> DecayedUse:
    """The decayed use after stretches of (use, how long), looked at so many times in each."""
    use, at_us = DecayedUse(start_us), start_us
    for used, long_us in told:
        use = use.at(at_us, half_life_us).using(used)
        for look in range(1, readings + 1):
            use = use.at(at_us + long_us * look // (readings + 1), half_life_us)
        at_us += long_us
    return use.at(at_us, half_life_us)


@given(stretches, half_lives, st.integers(0, HOUR_US), st.integers(1, 300))
def test_looking_often_or_rarely_gives_the_same(
    told: list[Stretch], half_life_us: int, start_us: int, readings: int
) -> None:
    rarely = followed(told, half_life_us, start_us, 0)
    often = followed(told, half_life_us, start_us, readings)
    assert abs(rarely.value - often.value) <= ERROR_MOST
    assert (rarely.at_us, rarely.used, rarely.area) == (often.at_us, often.used, often.area)


@given(st.integers(0, 10**15), st.integers(0, 10**15), st.integers(1, 20_000))
def test_looking_at_every_tick_gives_the_same_as_looking_once(past: int, used: int, ticks: int) -> None:
    often = once = DecayedUse(0, used, past << FRACTION_BITS)
    for tick in range(1, ticks + 1):
        often = often.at(tick, 1)
    assert abs(often.value - once.at(ticks, 1).value) <= ERROR_MOST


@given(stretches, half_lives, st.integers(0, HOUR_US))
def test_the_value_is_that_of_the_formula(told: list[Stretch], half_life_us: int, start_us: int) -> None:
    """Against the formula in 60 digits, up to what a tick may shift: a 1/4,096 of a half-life."""
    getcontext().prec = 60
    tick_us = tick_length_us(half_life_us)
    expected = Decimal(0)
    for used, long_us in told:
        factor = Decimal(2) ** (Decimal(-long_us) / (tick_us * TICKS_A_HALF_LIFE))
        expected = used + (expected - used) * factor
    found = Decimal(followed(told, half_life_us, start_us, 0).value) / ONE
    highest = max(used for used, _ in told)
    # The tick that has not ended yet, and one that several stretches share, each at most one tick's worth.
    shift = 2 * highest * (1 - Decimal(2) ** (Decimal(-1) / TICKS_A_HALF_LIFE))
    assert abs(found - expected) <= shift * len(told) + Decimal(ERROR_MOST) / ONE


@given(stretches, half_lives)
def test_past_use_stays_within_what_was_used(told: list[Stretch], half_life_us: int) -> None:
    use = followed(told, half_life_us, 0, 3)
    assert -ERROR_MOST <= use.value <= (max(used for used, _ in told) << FRACTION_BITS) + ERROR_MOST
