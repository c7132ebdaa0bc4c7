"""I1: the auditor finds every way in which more of a device is given than there is, and no other."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.auditor.record import Document
from gpufleet.auditor.rules import Rules
from tests.auditor.stories import MEMORY_MIB, Story, held, instance, share, whole


def a_story() -> Story:
    story = Story()
    story.node("n", gpus=2)
    story.node("other", gpus=2)
    return story


FITTING = (
    ([whole("n-0")], [whole("n-1")]),
    ([share("n-0", 500)], [share("n-0", 500)]),
    ([share("n-0", 0, 40_000)], [share("n-0", 0, 40_000)]),
    ([instance("n-0", "3g.40gb", 0)], [instance("n-0", "3g.40gb", 4)]),
    ([instance("n-0", "1g.10gb", 0)], [instance("n-0", "1g.10gb", 1)]),
)
TOO_MUCH = (
    ([whole("n-0")], [whole("n-0")]),
    ([whole("n-0")], [share("n-0", 1)]),
    ([share("n-0", 600)], [share("n-0", 401)]),
    ([share("n-0", 0, 60_000)], [share("n-0", 0, 20_001)]),
    ([instance("n-0", "1g.10gb", 2)], [instance("n-0", "1g.10gb", 2)]),
    ([instance("n-0", "3g.40gb", 0)], [instance("n-0", "1g.10gb", 2)]),
    ([instance("n-0", "4g.40gb", 0)], [instance("n-0", "4g.40gb", 4)]),
    ([instance("n-0", "1g.10gb", 0)], [whole("n-0")]),
)


@pytest.mark.parametrize(("first", "second"), FITTING)
def test_what_fits_is_no_finding(first: Sequence[Document], second: Sequence[Document]) -> None:
    story = a_story()
    one, two = story.running("a", "n", *first), story.running("b", "n", *second)
    story.report("n", [*held(one, *first), *held(two, *second)])
    assert story.findings() == []


@pytest.mark.parametrize(("first", "second"), TOO_MUCH)
def test_two_grants_of_more_than_a_device_has_are_found(
    first: Sequence[Document], second: Sequence[Document]
) -> None:
    story = a_story()
    story.running("a", "n", *first)
    assert "I1" not in story.broken()
    story.running("b", "n", *second)
    found = [one for one in story.findings() if one.promise == "I1"]
    assert len(found) == 1
    assert set(found[0].objects) == {"space/a", "space/b"}
    assert "n-0" in found[0].words


def test_what_ended_may_be_given_again_and_what_only_leaves_may_not() -> None:
    story = a_story()
    one = story.running("a", "n", whole("n-0"))
    leaving = story.leave(one, "somebody")
    story.running("b", "n", whole("n-0"))
    assert "I1" in story.broken()
    story = a_story()
    story.phase(story.running("a", "n", whole("n-0")), "Succeeded")
    story.running("b", "n", whole("n-0"))
    assert "I1" not in story.broken()
    assert leaving["status"]["phase"] == "Running"


def test_a_device_of_which_the_node_says_that_another_holds_it_is_found() -> None:
    story = a_story()
    one = story.running("a", "n", whole("n-0"))
    story.report("n", held(one, whole("n-1")))
    story.running("b", "n", whole("n-1"))
    assert "I1" in story.broken()


def test_a_report_that_vanishes_frees_nothing() -> None:
    story = a_story()
    one = story.running("a", "n", whole("n-0"))
    story.report("n", held(one, whole("n-1")))
    story.report("n", [], gone=True)
    story.running("b", "n", whole("n-1"))
    assert "I1" in story.broken()


def test_grants_without_ids_are_counted_against_the_node() -> None:
    story = a_story()
    story.report("n", [], gone=True)
    for name in ("a", "b"):
        story.phase(story.bind(story.pod(name), "n", []), "Running")
    assert story.broken() == set()
    story.phase(story.bind(story.pod("c"), "n", []), "Running")
    assert story.broken() == {"I1"}


def test_ids_and_missing_ids_are_counted_together() -> None:
    story = a_story()
    for number in range(2):
        story.running(f"named-{number}", "n", whole(f"n-{number}"))
    story.report("n", [], gone=True)
    story.bind(story.pod("unnamed"), "n", [])
    assert "I1" in story.broken()


def test_a_node_that_reports_one_device_in_two_hands_is_found() -> None:
    story = a_story()
    one, two = story.running("a", "n", whole("n-0")), story.running("b", "n", whole("n-1"))
    story.report("n", [*held(one, whole("n-0")), *held(two, whole("n-0"))])
    assert "I1" in story.broken()


def test_a_device_that_two_nodes_report_is_found() -> None:
    story = a_story()
    story.node("n-copy", gpus=0)
    known = next(write.latest for write in story.writes if write.latest["metadata"]["name"] == "n-copy")
    copied = {"metadata": known["metadata"], "spec": {"devices": [{"id": "n-0"}], "holders": []}}
    story.put("nodedevices", copied)
    assert "I1" in story.broken()


def test_an_unknown_version_of_a_grant_holds_what_it_names() -> None:
    story = a_story()
    story.running("a", "n", whole("n-0"))
    bound = story.bind(story.pod("b"), "n", [whole("n-0")])
    assert '"v": 1' in bound["metadata"]["annotations"]["gpufleet.io/grant"]
    text = bound["metadata"]["annotations"]["gpufleet.io/grant"].replace('"v": 1', '"v": 99')
    story = a_story()
    story.running("a", "n", whole("n-0"))
    pod = story.pod("b", annotations={"gpufleet.io/grant": text})
    story.put("pods", {**pod, "spec": {**pod["spec"], "nodeName": "n"}})
    assert "I1" in story.broken()


def test_twins_that_were_swapped_on_purpose_are_no_finding_while_nothing_is_reported() -> None:
    rules = Rules(swapped=frozenset({"a-1"}), at_rest=False)
    story = Story(rules)
    story.node("n", gpus=2)
    story.running("a", "n", whole("n-0"))
    story.running("b", "n", whole("n-0"))
    assert story.findings() == []


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 1000)), max_size=8))
def test_shares_are_found_exactly_when_they_are_more_than_a_device(parts: list[tuple[int, int]]) -> None:
    story = Story()
    story.node("n", gpus=3)
    used = [0, 0, 0]
    expected = False
    for number, (device, milli) in enumerate(parts):
        pod = story.bind(story.pod(f"p-{number}", gpus=0), "n", [share(f"n-{device}", milli)])
        assert pod["spec"]["nodeName"] == "n"
        used[device] += milli
        expected = expected or used[device] > 1000
    assert ("I1" in story.broken()) == expected


def test_memory_is_that_of_the_report() -> None:
    assert sum(part["memoryMiB"] for parts in FITTING[2] for part in parts) == MEMORY_MIB
