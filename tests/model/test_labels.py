"""Label requirements: every operator against every kind of value, selectors and affinity."""

import pytest

from gpufleet.model.labels import (
    LabelSelector,
    NodeAffinity,
    NodeNameRequirement,
    NodeTerm,
    Operator,
    PreferredTerm,
    Requirement,
    contradictions,
    equals,
)
from gpufleet.model.model_errors import InputError

IN, NOT_IN = Operator.IN, Operator.NOT_IN
EXISTS, DOES_NOT_EXIST = Operator.EXISTS, Operator.DOES_NOT_EXIST
GREATER, LESS = Operator.GREATER, Operator.LESS

REQUIREMENTS = {
    "In": Requirement("k", IN, ("a", "7")),
    "NotIn": Requirement("k", NOT_IN, ("a", "7")),
    "Exists": Requirement("k", EXISTS),
    "DoesNotExist": Requirement("k", DOES_NOT_EXIST),
    "Gt": Requirement("k", GREATER, ("7",)),
    "Lt": Requirement("k", LESS, ("7",)),
}


@pytest.mark.parametrize(
    ("value", "satisfied"),
    [
        (None, {"NotIn", "DoesNotExist"}),
        ("", {"NotIn", "Exists"}),
        ("a", {"In", "Exists"}),
        ("b", {"NotIn", "Exists"}),
        ("7", {"In", "Exists"}),
        ("8", {"NotIn", "Exists", "Gt"}),
        ("007", {"NotIn", "Exists"}),
        ("006", {"NotIn", "Exists", "Lt"}),
        ("9223372036854775807", {"NotIn", "Exists", "Gt"}),
        ("9223372036854775808", {"NotIn", "Exists"}),
        ("8.5", {"NotIn", "Exists"}),
        ("1e3", {"NotIn", "Exists"}),
        ("1_0", {"NotIn", "Exists"}),
    ],
)
def test_operators(value: str | None, satisfied: set[str]) -> None:
    found = {name for name, wanted in REQUIREMENTS.items() if wanted.accepts_value(value)}
    assert found == satisfied
    labels = {} if value is None else {"k": value}
    assert {name for name, wanted in REQUIREMENTS.items() if wanted.accepts(labels)} == satisfied
    allowed = {name for name, wanted in REQUIREMENTS.items() if wanted.allowed_values().accepts(value)}
    assert allowed == satisfied


def test_order_and_repetition_of_values_make_no_difference() -> None:
    first = Requirement("zone", IN, ("b", "a", "b"))
    assert first == Requirement("zone", IN, ("a", "b"))
    assert hash(first) == hash(Requirement("zone", IN, ("a", "b")))
    assert str(first) == "zone In [a, b]"
    assert str(Requirement("zone", EXISTS)) == "zone Exists"


@pytest.mark.parametrize(
    ("key", "operator", "values", "field"),
    [
        ("", IN, ("a",), "key"),
        ("a b", IN, ("a",), "key"),
        ("Upper.case/x", IN, ("a",), "key"),
        ("a/b/c", IN, ("a",), "key"),
        ("/x", IN, ("a",), "key"),
        ("x" * 64, IN, ("a",), "key"),
        (f"{'x.' * 127}/y", IN, ("a",), "key"),
        ("x\n", IN, ("a",), "key"),
        ("k", IN, (), "values"),
        ("k", NOT_IN, (), "values"),
        ("k", IN, ("a b",), "values"),
        ("k", IN, ("\uff11",), "values"),
        ("k", IN, ("x" * 64,), "values"),
        ("k", EXISTS, ("a",), "values"),
        ("k", DOES_NOT_EXIST, ("",), "values"),
        ("k", GREATER, (), "values"),
        ("k", LESS, ("1", "2"), "values"),
        ("k", GREATER, ("abc",), "values"),
        ("k", GREATER, ("-1",), "values"),
        ("k", LESS, ("9223372036854775808",), "values"),
    ],
)
def test_malformed_requirements_are_refused(
    key: str, operator: Operator, values: tuple[str, ...], field: str
) -> None:
    with pytest.raises(InputError) as refusal:
        Requirement(key, operator, values)
    assert refusal.value.field == field
    assert refusal.value.expected


@pytest.mark.parametrize("key", ["a", "A", "nvidia.com/gpu.product", "x" * 63, "a.b/c_d-e", "0/0"])
def test_good_keys(key: str) -> None:
    assert Requirement(key, EXISTS).key == key


def test_label_selector() -> None:
    assert LabelSelector().accepts({})
    both = LabelSelector((*equals([("app", "train")]), Requirement("old", DOES_NOT_EXIST)))
    assert both.accepts({"app": "train"})
    assert not both.accepts({"app": "train", "old": ""})
    with pytest.raises(InputError, match="does not compare"):
        LabelSelector((Requirement("k", GREATER, ("1",)),))


def test_absent_affinity_accepts_all_and_empty_affinity_none() -> None:
    assert NodeAffinity().accepts({}, "n1")
    assert not NodeAffinity(terms=()).accepts({}, "n1")
    assert not NodeAffinity(terms=(NodeTerm(),)).accepts({}, "n1")


def test_terms_are_alternatives_and_requirements_go_together() -> None:
    zone_a, zone_b = equals([("zone", "a")]), equals([("zone", "b")])
    big = Requirement("gpu.memory", GREATER, ("40000",))
    affinity = NodeAffinity(terms=(NodeTerm((*zone_a, big)), NodeTerm(zone_b)))
    assert affinity.accepts({"zone": "a", "gpu.memory": "81920"}, "n")
    assert not affinity.accepts({"zone": "a", "gpu.memory": "40000"}, "n")
    assert affinity.accepts({"zone": "b"}, "n")
    assert not affinity.accepts({"gpu.memory": "81920"}, "n")


def test_an_empty_term_beside_another_adds_nothing() -> None:
    affinity = NodeAffinity(terms=(NodeTerm(), NodeTerm(equals([("zone", "a")]))))
    assert affinity.accepts({"zone": "a"}, "n")
    assert not affinity.accepts({"zone": "b"}, "n")


def test_match_fields() -> None:
    only_first = NodeTerm(fields=(NodeNameRequirement(IN, "n1.example"),))
    assert only_first.accepts({}, "n1.example")
    assert not only_first.accepts({}, "n2.example")
    never_first = NodeTerm(equals([("a", "b")]), (NodeNameRequirement(NOT_IN, "n1"),))
    assert never_first.accepts({"a": "b"}, "n2")
    assert not never_first.accepts({"a": "b"}, "n1")
    assert not never_first.accepts({}, "n2")
    with pytest.raises(InputError, match="In or NotIn"):
        NodeNameRequirement(GREATER, "n1")
    with pytest.raises(InputError, match="not a node name"):
        NodeNameRequirement(IN, "../../etc")


def test_preference_sums_the_weights_that_hold() -> None:
    near = PreferredTerm(10, NodeTerm(equals([("zone", "a")])))
    fast = PreferredTerm(5, NodeTerm((Requirement("nvme", EXISTS),)))
    affinity = NodeAffinity(preferred=(near, fast, PreferredTerm(7, NodeTerm())))
    assert affinity.accepts({}, "n")
    assert affinity.preference({"zone": "a", "nvme": ""}, "n") == 15
    assert affinity.preference({}, "n") == 0
    for weight in (0, 101, -1):
        with pytest.raises(InputError, match="weight"):
            PreferredTerm(weight, NodeTerm())


def test_contradictions_name_the_labels() -> None:
    good = Requirement("zone", IN, ("a", "b"))
    assert contradictions([good, Requirement("zone", NOT_IN, ("a",))]) == ()
    impossible = [
        good,
        Requirement("zone", NOT_IN, ("a", "b")),
        Requirement("memory", GREATER, ("10",)),
        Requirement("memory", LESS, ("11",)),
        Requirement("tier", EXISTS),
    ]
    assert contradictions(impossible) == ("memory", "zone")
