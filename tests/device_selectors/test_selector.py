"""What selectors say of what is wrong with them, and what no selector can do to the scheduler."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.device_selectors.cel_errors import CostExceededError, ExpressionError
from gpufleet.device_selectors.parsing import DEPTH_MAX, LENGTH_MAX
from gpufleet.device_selectors.selector import DeviceView, Selector, Verdict, selector
from gpufleet.device_selectors.values import Version
from gpufleet.model.quantity import parse_quantity

GPU = DeviceView(
    "gpu.nvidia.com",
    {"productName": "NVIDIA H100 80GB HBM3", "type": "gpu", "driverVersion": Version(570, 86, 15)},
    {"memory": parse_quantity("81559Mi")},
)


@pytest.mark.parametrize(
    ("text", "words", "offset"),
    [
        ("device.attributes[", "mismatched input '<EOF>'", 18),
        ("gpu.memory > 3", "undeclared reference to 'gpu'", 0),
        ("device.memory > 3", "undefined field 'memory'", 6),
        ("device.driver == 3", "found no matching overload for '_==_' applied to '(string, int)'", 14),
        ("device.driver", "must evaluate to bool or the unknown type, not string", 0),
        ('"a".matches("[")', "invalid matches argument", 12),
        ("device.driver == 'a", "a string is not closed", 17),
        ("let == 1", "reserved identifier: let", 0),
    ],
)
def test_a_wrong_selector_is_refused_with_the_place(text: str, words: str, offset: int) -> None:
    with pytest.raises(ExpressionError, match=re.escape(words)) as refused:
        selector(text)
    assert refused.value.offset == offset


def test_nvidias_own_selectors_choose_its_devices() -> None:
    name = "device.attributes['gpu.nvidia.com']"
    assert selector(f"device.driver == 'gpu.nvidia.com' && {name}.type == 'gpu'").verdict(GPU).is_match
    assert selector(f"{name}.productName.lowerAscii().matches('^.*h100.*$')").verdict(GPU).is_match
    large = "device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('80Gi')) >= 0"
    assert not selector(large).verdict(GPU).is_match
    newer = f"{name}.driverVersion.isGreaterThan(semver('570.0.0'))"
    assert selector(newer).verdict(GPU).is_match


def test_an_attribute_that_is_not_there_fails_the_selector_unless_the_rest_settles_it() -> None:
    index = "device.attributes['gpu.nvidia.com'].index == 0"
    assert selector(index).verdict(GPU).error == "no such key: index"
    assert selector(f"{index} || device.driver == 'gpu.nvidia.com'").verdict(GPU).is_match


def test_a_selector_that_costs_too_much_is_ended() -> None:
    ten = "[1,2,3,4,5,6,7,8,9,10]"
    loops = "".join(f"{ten}.all(v{depth}, " for depth in range(7)) + "true" + ")" * 7
    with pytest.raises(CostExceededError, match="costs more than 1000"):
        selector(loops).verdict(GPU, cost_max=1000)


def test_a_pattern_of_a_user_takes_no_exponential_time() -> None:
    """Python's own expressions would take hours for this one."""
    device = DeviceView("d", {"s": "a" * 60 + "!"}, {})
    assert not selector("device.attributes['d'].s.matches('^(a+)+$')").verdict(device).is_match


def test_length_and_depth_have_limits() -> None:
    with pytest.raises(ExpressionError, match=str(LENGTH_MAX)):
        selector("'" + "a" * LENGTH_MAX + "' == ''")
    for deep in ("(" * 2_000 + "true" + ")" * 2_000, "1" + " + 1" * 2_000 + " == 1", "a" + ".b" * 2_000):
        with pytest.raises(ExpressionError, match=f"at most {DEPTH_MAX}"):
            selector(deep)


PIECES = st.sampled_from(
    (
        *("device", ".attributes", "['a']", ".b", "(", ")", "==", "1", "'x'", "&&", "||", "!", "-"),
        *("[", "]", "{", "}", ".all(x, ", "?", ":", ",", "in", ".?c", ".orValue(", "true", "null"),
        *("1.5", "2u", "b'y'", ".size()", "has("),
    )
)


@given(st.lists(PIECES, max_size=14).map(" ".join))
def test_whatever_is_written_it_is_refused_or_has_a_verdict(text: str) -> None:
    try:
        found = selector(text).verdict(GPU)
    except (ExpressionError, CostExceededError):
        return
    assert found.cost >= 0


def test_versions_are_ordered_as_their_specification_orders_them() -> None:
    """The example of semver.org, section 11."""
    order = ["1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta", "1.0.0-beta.2"]
    order += ["1.0.0-beta.11", "1.0.0-rc.1", "1.0.0", "2.0.0", "2.1.0", "2.1.1"]
    versions = [Version.parse(one) for one in order]
    for at, one in enumerate(versions):
        assert [one.compare(other) for other in versions] == [
            (at > place) - (at < place) for place in range(len(versions))
        ]


def test_a_verdict_holds_for_all_devices_that_differ_in_what_is_not_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[object] = []
    found = Selector._found

    def counted(self: Selector, device: DeviceView, cost_max: int) -> Verdict:
        asked.append(device)
        return found(self, device, cost_max)

    monkeypatch.setattr(Selector, "_found", counted)
    kept = 'device.attributes["d.example"].kept == 1'
    more = 'device.capacity["d.example"].memory.isGreaterThan(quantity("1"))'
    one = selector(f"{kept} && {more}")

    def view(**attributes: bool | int | str) -> DeviceView:
        return DeviceView("d.example", attributes, {"memory": parse_quantity("2")})

    assert [one.verdict(view(kept=1, uuid=f"u{number}")).is_match for number in range(3)] == [True] * 3
    assert len(asked) == 1
    assert not one.verdict(view(kept=2, uuid="u")).is_match
    # Equal to 1 for Python, and no number for CEL.
    assert not one.verdict(view(kept=True)).is_match
    assert one.verdict(view(uuid="u")).error
    assert not one.verdict(DeviceView("other.example", {"kept": 1}, {})).is_match
    assert len(asked) == 5
