"""Taints and tolerations: the cases of Kubernetes' own tests, and what may not be written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.model.model_errors import InputError
from gpufleet.model.taint import EFFECTS, Taint, Toleration, tolerates, untolerated

FOO = Taint("foo", "bar")


@pytest.mark.parametrize(
    ("toleration", "taint", "expected"),
    [
        (Toleration("foo", "Exists", effect="NoSchedule"), Taint("foo"), True),
        (Toleration("foo", "Exists", effect="NoSchedule"), FOO, True),
        (Toleration("", "Exists", effect="NoSchedule"), FOO, True),
        (Toleration("", "Exists"), Taint("foo", "bar", "NoExecute"), True),
        (Toleration("foo", "Equal", "bar", "NoSchedule"), FOO, True),
        (Toleration("foo", "", "bar", "NoSchedule"), FOO, True),
        (Toleration("foo", "Equal", "other", "NoSchedule"), FOO, False),
        (Toleration("foo", "Equal", "bar", "NoSchedule"), Taint("foo", "bar", "NoExecute"), False),
        (Toleration("foo", "Equal", "bar"), Taint("foo", "bar", "NoExecute"), True),
        (Toleration("fo", "Exists"), FOO, False),
        (Toleration("sla", "Gt", "950"), Taint("sla", "800"), False),
        (Toleration("sla", "Gt", "750"), Taint("sla", "950"), True),
        (Toleration("sla", "Gt", "950"), Taint("sla", "950"), False),
        (Toleration("sla", "Lt", "800"), Taint("sla", "950"), False),
        (Toleration("sla", "Lt", "950"), Taint("sla", "800"), True),
        (Toleration("sla", "Lt", "0"), Taint("sla", "0"), False),
        (Toleration("sla", "Gt", "-100"), Taint("sla", "0"), True),
        (Toleration("sla", "Gt", "950"), Taint("sla", "high"), False),
        (Toleration("sla", "Gt", "100"), Taint("sla", "0200"), False),
        (Toleration("sla", "Gt", "9223372036854775806"), Taint("sla", "9223372036854775807"), True),
        (Toleration("sla", "Gt", "0"), Taint("sla", "9223372036854775808"), False),
        (Toleration("sla", "Lt", "100", "NoExecute"), Taint("sla", "1"), False),
    ],
)
def test_tolerates(toleration: Toleration, taint: Taint, expected: bool) -> None:
    assert tolerates(toleration, taint) is expected


def test_the_first_repelling_taint_is_named() -> None:
    preferred = Taint("slow", effect="PreferNoSchedule")
    gpu = Taint("nvidia.com/gpu", "present")
    drain = Taint("drain", effect="NoExecute")
    tolerated = Toleration("nvidia.com/gpu", "Exists")
    assert untolerated((preferred,), ()) is None
    assert untolerated((preferred, gpu, drain), ()) == gpu
    assert untolerated((preferred, gpu, drain), (tolerated,)) == drain
    assert untolerated((preferred, gpu, drain), (Toleration(operator="Exists"),)) is None


def test_an_unset_operator_is_equal() -> None:
    assert Toleration("foo", "", "bar") == Toleration("foo", "Equal", "bar")


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (("",), "key"),
        (("-foo",), "key"),
        (("a b",), "key"),
        (("foo", "b\nr"), "value"),
        (("foo", "x" * 64), "value"),
        (("foo", "bar", "noschedule"), "effect"),
        (("foo", "bar", ""), "effect"),
    ],
)
def test_malformed_taints_are_refused(arguments: tuple[str, ...], field: str) -> None:
    with pytest.raises(InputError) as refusal:
        Taint(*arguments)
    assert refusal.value.field == field
    assert refusal.value.expected


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ((), "operator"),
        (("", "Equal", "bar"), "operator"),
        (("", "Gt", "1"), "operator"),
        (("foo", "exists"), "operator"),
        (("foo", "Exists", "bar"), "value"),
        (("foo", "Equal", "b r"), "value"),
        (("foo", "Gt", "+100"), "value"),
        (("foo", "Gt", "0100"), "value"),
        (("foo", "Lt", "1_000"), "value"),
        (("foo", "Lt", "-0"), "value"),
        (("foo", "Lt", "\uff11"), "value"),
        (("foo", "Lt", "9223372036854775808"), "value"),
        (("foo", "Exists", "", "Never"), "effect"),
        (("fo/o/bar", "Exists"), "key"),
    ],
)
def test_malformed_tolerations_are_refused(arguments: tuple[str, ...], field: str) -> None:
    with pytest.raises(InputError) as refusal:
        Toleration(*arguments)
    assert refusal.value.field == field
    assert refusal.value.expected


def test_as_kubectl_writes_them() -> None:
    assert str(FOO) == "foo=bar:NoSchedule"
    assert str(Taint("foo", effect="NoExecute")) == "foo:NoExecute"


NAMES = st.sampled_from(["a", "b", "nvidia.com/gpu"])
VALUES = st.sampled_from(["", "x", "7", "8"])
TAINTS = st.builds(Taint, NAMES, VALUES, st.sampled_from(EFFECTS))
EQUALS = st.builds(Toleration, NAMES, st.just("Equal"), VALUES, st.sampled_from(["", *EFFECTS]))


@given(st.lists(TAINTS), st.lists(EQUALS), EQUALS)
def test_one_more_toleration_never_closes_a_node(
    taints: list[Taint], tolerations: list[Toleration], more: Toleration
) -> None:
    if untolerated(taints, tolerations) is None:
        assert untolerated(taints, [*tolerations, more]) is None
    blocking = untolerated(taints, tolerations)
    if blocking is not None:
        assert blocking in taints
        assert not any(tolerates(toleration, blocking) for toleration in tolerations)
