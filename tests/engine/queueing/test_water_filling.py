"""What claims are owed: published examples, arithmetic by hand, and a slow reference in fractions."""

from dataclasses import replace
from fractions import Fraction

from hypothesis import assume, given
from hypothesis import strategies as st

from gpufleet.engine.queueing.water_filling import Claim, owed_by_name

MANY = 1_000_000
GPU = 1000


def test_the_surplus_of_kueues_third_story() -> None:
    """Kueue, KEP-1714, story 3: of 300 GPUs, cohorts C1 and C2 get 150 each; within C1, queues 1A, 1B and
    1C, of which 1C is three times as important, get 30, 30 and 90.
    """
    cohorts = owed_by_name(300, [Claim("CS", 0, nominal=300), Claim("C1", MANY), Claim("C2", MANY)])
    assert cohorts == {"CS": 0, "C1": 150, "C2": 150}
    queues = [Claim("1A", MANY), Claim("1B", MANY), Claim("1C", MANY, weight_milli=3000)]
    assert owed_by_name(cohorts["C1"], queues) == {"1A": 30, "1B": 30, "1C": 90}


def test_the_pools_of_osmos_guide() -> None:
    """OSMO, "Scheduler Configuration" (KAI's queues): 100 GPUs; A has a guarantee of 30, weight 1 and a
    maximum of 70, B a guarantee of 50 and weight 3. By hand: 20 are left over, 5 and 15.
    """

    def pools(a: int, b: int) -> dict[str, int]:
        wanted = [Claim("A", a, 30, limit=70), Claim("B", b, 50, weight_milli=3000)]
        return owed_by_name(100, wanted)

    assert pools(MANY, MANY) == {"A": 35, "B": 65}
    assert pools(MANY, 0) == {"A": 70, "B": 0}, "its maximum"
    assert pools(0, MANY) == {"A": 0, "B": 100}
    assert pools(MANY, 40) == {"A": 60, "B": 40}
    assert pools(20, MANY) == {"A": 20, "B": 80}


def test_quota_goes_first_then_priority_then_weight() -> None:
    """KAI, docs/fairness: quota to all queues; then, by priority, what is left by weight; nobody more than
    requested. By hand: 20 + 30 + 30 of 100 are quota. Of the other 20, B of high priority wants 10, and
    C and D, of equal priority and weights 1 and 4, share the rest 2 to 8.
    """
    claims = [
        Claim("A", 20, nominal=20),
        Claim("B", 40, nominal=30, priority=100),
        Claim("C", 80, nominal=30, priority=50),
        Claim("D", 80, priority=50, weight_milli=4000),
    ]
    assert owed_by_name(100, claims) == {"A": 20, "B": 40, "C": 32, "D": 8}


def test_who_wants_less_leaves_the_rest_to_the_others() -> None:
    """By hand: 12 among three are 4 each; the first wants 1, so the others get 11 / 2 each: 6 and 5."""
    assert owed_by_name(12, [Claim("a", 1), Claim("b", 9), Claim("c", 9)]) == {"a": 1, "b": 6, "c": 5}


def test_whole_gpus_go_to_the_claim_that_has_least_for_its_weight() -> None:
    """10 GPUs by 1:2:3 are 1 2/3, 3 1/3 and 5. Of nine they have 2, 3 and 4, for their weights 2, 3 / 2 and
    4 / 3: the tenth goes to the last.
    """
    claims = [
        Claim(name, MANY, weight_milli=weight * 1000) for name, weight in (("a", 1), ("b", 2), ("c", 3))
    ]
    assert owed_by_name(10 * GPU, claims, GPU) == {"a": 2 * GPU, "b": 3 * GPU, "c": 5 * GPU}


def test_equal_claims_go_by_name() -> None:
    claims = [Claim(name, MANY) for name in "cab"]
    assert owed_by_name(4 * GPU, claims, GPU) == {"a": 2 * GPU, "b": GPU, "c": GPU}


def test_a_gpu_is_broken_where_no_more_is_wanted_or_left() -> None:
    claims = [Claim("a", 500), Claim("b", 5 * GPU), Claim("c", 5 * GPU)]
    assert owed_by_name(3 * GPU, claims, GPU) == {"a": 500, "b": 1500, "c": GPU}


def test_weight_zero_gets_what_nobody_else_wants_whatever_its_priority() -> None:
    claims = [Claim("low", 6), Claim("scavenger", MANY, nominal=1, priority=9, weight_milli=0)]
    assert owed_by_name(5, claims) == {"low": 4, "scavenger": 1}
    assert owed_by_name(9, claims) == {"low": 6, "scavenger": 3}


def test_too_much_promised_is_divided_by_what_was_promised() -> None:
    claims = [Claim("a", MANY, nominal=30), Claim("b", MANY, nominal=10), Claim("c", MANY)]
    assert owed_by_name(20, claims) == {"a": 15, "b": 5, "c": 0}


claims_of_names = st.lists(
    st.builds(
        Claim,
        name=st.just(""),
        demand=st.integers(0, 60),
        nominal=st.integers(0, 20),
        limit=st.none() | st.integers(0, 60),
        priority=st.integers(0, 2),
        weight_milli=st.sampled_from((0, 1, 500, 1000, 1000, 2000, 3000)),
    ),
    min_size=1,
    max_size=6,
).map(lambda claims: [replace(claim, name=f"q{number}") for number, claim in enumerate(claims)])
capacities = st.integers(0, 200)
units = st.sampled_from((1, 3, 10))


def rational(capacity: int, claims: list[Claim]) -> dict[str, Fraction]:
    """The same without rounding, by raising the water until the next vessel is full."""
    owed = {claim.name: Fraction(min(claim.nominal, claim.most)) for claim in claims}
    if sum(owed.values()) > capacity:
        return level({claim.name: (claim.nominal, owed[claim.name]) for claim in claims}, Fraction(capacity))
    ranks = sorted({(claim.weight_milli == 0, -claim.priority) for claim in claims})
    for rank in ranks:
        alike = [claim for claim in claims if (claim.weight_milli == 0, -claim.priority) == rank]
        left = capacity - sum(owed.values())
        vessels = {one.name: (one.weight_milli or 1, one.most - owed[one.name]) for one in alike}
        for name, amount in level(vessels, Fraction(left)).items():
            owed[name] += amount
    return owed


def level(vessels: dict[str, tuple[int, Fraction]], water: Fraction) -> dict[str, Fraction]:
    held = dict.fromkeys(vessels, Fraction(0))
    while water:
        rising = {name: weight for name, (weight, room) in vessels.items() if weight and held[name] < room}
        if not rising:
            break
        rise = min((vessels[name][1] - held[name]) / weight for name, weight in rising.items())
        rise = min(rise, water / sum(rising.values()))
        for name, weight in rising.items():
            held[name] += rise * weight
            water -= rise * weight
    return held


def one_unit_after_the_other(capacity: int, claims: list[Claim], unit: int) -> dict[str, int]:
    """The same as turns give it out: each unit to the claim that has least of what is left over for its
    weight.
    """
    owed = {claim.name: min(claim.nominal, claim.most) for claim in claims}
    extra = dict.fromkeys(owed, 0)

    def right(claim: Claim) -> tuple[bool, int, Fraction, int, str]:
        weight = claim.weight_milli
        has = Fraction(extra[claim.name], weight or 1)
        return not weight, -claim.priority, has, -weight, claim.name

    while left := capacity - sum(owed.values()) - sum(extra.values()):
        wanting = [claim for claim in claims if owed[claim.name] + extra[claim.name] < claim.most]
        if not wanting:
            break
        first = min(wanting, key=right)
        extra[first.name] += min(unit, left, first.most - owed[first.name] - extra[first.name])
    return {name: amount + extra[name] for name, amount in owed.items()}


@given(capacities, claims_of_names, units)
def test_it_is_what_turns_give_out_one_unit_after_the_other(
    capacity: int, claims: list[Claim], unit: int
) -> None:
    assume(sum(min(claim.nominal, claim.most) for claim in claims) <= capacity)
    assert owed_by_name(capacity, claims, unit) == one_unit_after_the_other(capacity, claims, unit)


@given(capacities, claims_of_names, units)
def test_no_claim_is_more_than_a_unit_for_each_from_the_rational_water_filling(
    capacity: int, claims: list[Claim], unit: int
) -> None:
    exact, owed = rational(capacity, claims), owed_by_name(capacity, claims, unit)
    # One rounding for each rank: what the ranks before did not fill is never left to the ranks after.
    assert all(owed[name] < exact[name] + unit for name in owed)
    assert all(owed[name] > exact[name] - unit * len(claims) for name in owed)


def test_a_unit_goes_to_a_claim_that_has_none_before_a_heavy_one_gets_its_second() -> None:
    """Weights 3, 2, 1 and 1 share five: each gets one, the heaviest first, then the first has least for its
    weight, 1 / 3 against 1 / 2.
    """
    claims = [
        Claim(name, MANY, weight_milli=weight * 1000)
        for name, weight in zip("abcd", (1, 3, 2, 1), strict=True)
    ]
    assert owed_by_name(2, claims) == {"a": 0, "b": 1, "c": 1, "d": 0}
    assert owed_by_name(5, claims) == {"a": 1, "b": 2, "c": 1, "d": 1}


@given(capacities, claims_of_names, units)
def test_nothing_is_left_that_anybody_wants_and_nobody_gets_too_much(
    capacity: int, claims: list[Claim], unit: int
) -> None:
    owed = owed_by_name(capacity, claims, unit)
    assert all(0 <= owed[claim.name] <= claim.most for claim in claims)
    promised = sum(min(claim.nominal, claim.most) for claim in claims)
    if promised > capacity:
        assert sum(owed.values()) == capacity
    else:
        assert sum(owed.values()) == min(capacity, sum(claim.most for claim in claims))
        assert all(owed[claim.name] >= min(claim.nominal, claim.most) for claim in claims)


@given(capacities, claims_of_names, units, st.integers(1, 4000))
def test_more_weight_never_gets_less(capacity: int, claims: list[Claim], unit: int, more: int) -> None:
    first = claims[0]
    heavier = [replace(first, weight_milli=first.weight_milli + more), *claims[1:]]
    before, after = (owed_by_name(capacity, told, unit)[first.name] for told in (claims, heavier))
    assert after >= before


@given(capacities, claims_of_names, units)
def test_nobody_envies_another_for_its_weight(capacity: int, claims: list[Claim], unit: int) -> None:
    """Of two claims of equal priority, one that wants more has at least as much for its weight, up to a
    unit, as the other has beyond its nominal amount.
    """
    assume(sum(min(claim.nominal, claim.most) for claim in claims) <= capacity)
    owed = owed_by_name(capacity, claims, unit)
    extra = {claim.name: owed[claim.name] - min(claim.nominal, claim.most) for claim in claims}
    for one in claims:
        for other in claims:
            alike = one.priority == other.priority and one.weight_milli and other.weight_milli
            if alike and owed[one.name] < one.most:
                mine = Fraction(extra[one.name] + unit, one.weight_milli)
                assert mine >= Fraction(extra[other.name] - unit, other.weight_milli)


@given(capacities, claims_of_names, units)
def test_equal_claims_differ_by_a_unit_at_most(capacity: int, claims: list[Claim], unit: int) -> None:
    twin = replace(claims[0], name="twin")
    owed = owed_by_name(capacity, [*claims, twin], unit)
    assert abs(owed["twin"] - owed[claims[0].name]) <= unit


@given(capacities, claims_of_names, units)
def test_the_order_of_the_claims_does_not_matter(capacity: int, claims: list[Claim], unit: int) -> None:
    assert owed_by_name(capacity, claims[::-1], unit) == owed_by_name(capacity, claims, unit)
