"""The algebra of label values: all operator pairs by table, and the laws of sets by property."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.model.label_values import ANYTHING, MAXIMUM_INTEGER, LabelValues
from gpufleet.model.labels import Operator, Requirement

FORMS = {
    "In a": Requirement("k", Operator.IN, ("a",)),
    "In a 5": Requirement("k", Operator.IN, ("a", "5")),
    "In 9": Requirement("k", Operator.IN, ("9",)),
    "NotIn a": Requirement("k", Operator.NOT_IN, ("a",)),
    "NotIn a 5": Requirement("k", Operator.NOT_IN, ("a", "5")),
    "Exists": Requirement("k", Operator.EXISTS),
    "DoesNotExist": Requirement("k", Operator.DOES_NOT_EXIST),
    "Gt 4": Requirement("k", Operator.GREATER, ("4",)),
    "Gt 8": Requirement("k", Operator.GREATER, ("8",)),
    "Lt 5": Requirement("k", Operator.LESS, ("5",)),
    "Lt 10": Requirement("k", Operator.LESS, ("10",)),
}

# The pairs that cannot hold together; every other pair of forms can.
CLASHES = {
    frozenset(pair)
    for pair in [
        ("In a", "In 9"),
        ("In a", "NotIn a"),
        ("In a", "NotIn a 5"),
        ("In a", "DoesNotExist"),
        ("In a", "Gt 4"),
        ("In a", "Gt 8"),
        ("In a", "Lt 5"),
        ("In a", "Lt 10"),
        ("In a 5", "In 9"),
        ("In a 5", "NotIn a 5"),
        ("In a 5", "DoesNotExist"),
        ("In a 5", "Gt 8"),
        ("In a 5", "Lt 5"),
        ("In 9", "DoesNotExist"),
        ("In 9", "Lt 5"),
        ("Exists", "DoesNotExist"),
        ("DoesNotExist", "Gt 4"),
        ("DoesNotExist", "Gt 8"),
        ("DoesNotExist", "Lt 5"),
        ("DoesNotExist", "Lt 10"),
        ("Gt 4", "Lt 5"),
        ("Gt 8", "Lt 5"),
    ]
}


@pytest.mark.parametrize("right", FORMS)
@pytest.mark.parametrize("left", FORMS)
def test_which_pairs_of_requirements_can_hold_together(left: str, right: str) -> None:
    both = FORMS[left].allowed_values().intersection(FORMS[right].allowed_values())
    assert both.is_empty() == (frozenset([left, right]) in CLASHES)


@pytest.mark.parametrize(
    ("requirement", "empty"),
    [
        (Requirement("k", Operator.LESS, ("0",)), True),
        (Requirement("k", Operator.LESS, ("1",)), False),
        (Requirement("k", Operator.GREATER, (str(MAXIMUM_INTEGER),)), True),
        (Requirement("k", Operator.GREATER, (str(MAXIMUM_INTEGER - 1),)), False),
    ],
)
def test_comparisons_at_the_ends_of_the_integers(requirement: Requirement, empty: bool) -> None:
    assert requirement.allowed_values().is_empty() is empty


VALUES = ["", "a", "b", "0", "4", "5", "05", "6", "9", "10", "11", str(MAXIMUM_INTEGER), "1.5"]
SAMPLES: list[str | None] = [None, *VALUES, str(MAXIMUM_INTEGER + 1), "zz"]
LISTED = st.lists(st.sampled_from(VALUES), min_size=1, max_size=4).map(tuple)
BOUNDS = st.sampled_from(["0", "4", "5", "9", "10", str(MAXIMUM_INTEGER)]).map(lambda one: (one,))
NOTHING = st.just(())
REQUIREMENTS = st.one_of(
    st.builds(Requirement, st.just("k"), st.sampled_from([Operator.IN, Operator.NOT_IN]), LISTED),
    st.builds(Requirement, st.just("k"), st.sampled_from([Operator.GREATER, Operator.LESS]), BOUNDS),
    st.builds(
        Requirement,
        st.just("k"),
        st.sampled_from([Operator.EXISTS, Operator.DOES_NOT_EXIST]),
        NOTHING,
    ),
)
SETS = st.recursive(
    REQUIREMENTS.map(Requirement.allowed_values),
    lambda inner: st.one_of(
        inner.map(LabelValues.complement),
        st.tuples(inner, inner).map(lambda pair: pair[0].intersection(pair[1])),
        st.tuples(inner, inner).map(lambda pair: pair[0].union(pair[1])),
    ),
    max_leaves=8,
)


@given(REQUIREMENTS)
def test_a_requirement_and_its_set_agree(requirement: Requirement) -> None:
    allowed = requirement.allowed_values()
    for value in SAMPLES:
        assert allowed.accepts(value) == requirement.accepts_value(value)


@given(SETS, SETS)
def test_intersection_union_and_complement_mean_what_they_say(left: LabelValues, right: LabelValues) -> None:
    both, either, neither = left.intersection(right), left.union(right), left.complement()
    for value in SAMPLES:
        assert both.accepts(value) == (left.accepts(value) and right.accepts(value))
        assert either.accepts(value) == (left.accepts(value) or right.accepts(value))
        assert neither.accepts(value) != left.accepts(value)


@given(SETS, SETS)
def test_laws(left: LabelValues, right: LabelValues) -> None:
    assert left.complement().complement() == left
    assert left.intersection(right) == right.intersection(left)
    assert left.intersection(left) == left
    assert left.intersection(ANYTHING) == left
    assert left.intersection(left.complement()).is_empty()


@given(SETS)
def test_empty_sets_accept_nothing_and_others_something(allowed: LabelValues) -> None:
    inside = {str(end) for low, high in allowed.ranges for end in (low, high)}
    # Unusual spellings reach members whose usual spelling is an exception.
    inside |= {value.zfill(40) for value in inside}
    tried = [*SAMPLES, *allowed.exceptions, *inside, "quite-another"]
    assert allowed.is_empty() == (not any(allowed.accepts(value) for value in tried))
