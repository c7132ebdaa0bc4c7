"""What is written of kept places into the condition of a node is read back as it was, and nothing else is."""

import json

import msgspec
import pytest

from gpufleet.cluster.nodes.replacement_records import BYTES_MAX, read, victims_of, written
from gpufleet.engine.instruction import MovedFrom, ReplacementPlace
from gpufleet.kube.codec.lasting_conditions import Said
from gpufleet.kube.objects.node import PLACES_KEPT, Node
from gpufleet.model.identifiers import DeviceId, GangName, NodeName, PodUid
from gpufleet.model.pod import Pod
from tests.engine.fleet_builder import pod, shape, share

NODE = NodeName("n0")


def place(number: int, like: Pod | None = None, node: NodeName = NODE) -> ReplacementPlace:
    """A place for the pod that comes instead of ``p`` with this number."""
    known = pod(f"p{number}/moved", shape(1)) if like is None else like
    return ReplacementPlace(PodUid(f"p{number}"), known, node, (DeviceId(f"{node}/{number}"),), number)


def node_that_says(said: Said, name: str = NODE) -> Node:
    """A node with the condition, as it comes from the API server."""
    condition = {
        "type": PLACES_KEPT, "status": said.status, "reason": said.reason, "message": said.message
    }  # fmt: skip
    value = {"metadata": {"name": name}, "status": {"conditions": [condition]}}
    return msgspec.convert(value, Node)


def test_all_of_it_is_read_back() -> None:
    member = msgspec.structs.replace(
        place(1, pod("p1/moved", share(500), labels=(("app", "x"),), priority=3, queue="team")),
        gang=GangName("default/g"),
        origin=MovedFrom("default/p1", NodeName("n9"), None, 7, 8),
        until_us=9,
    )
    places = (place(0), member)
    assert read(node_that_says(written(places))) == places
    assert victims_of(written(places)) == {"p0", "p1"}


def test_where_none_is_kept_nothing_is_read() -> None:
    said = written(())
    assert (said.status, read(node_that_says(said)), victims_of(said)) == ("False", (), frozenset())
    assert read(msgspec.convert({"metadata": {"name": NODE}}, Node)) == ()


def test_of_too_many_places_the_first_are_written() -> None:
    places = tuple(map(place, range(2000)))
    said = written(places)
    found = read(node_that_says(said))
    assert 0 < len(found) < len(places)
    assert found == places[: len(found)]
    assert len(said.message) <= BYTES_MAX


def test_what_is_not_read_back_as_it_was_is_not_written() -> None:
    strange = place(0, pod("p0/moved", shape(1), labels=(("a", "\x9b"),)))
    assert written((strange,)).status == "False"
    assert read(node_that_says(written((strange, place(1))))) == (place(1),)


def test_what_a_node_says_of_another_counts_for_nothing() -> None:
    said = written((place(0), place(1, node=NodeName("n1"))))
    assert read(node_that_says(said)) == (place(0),)


@pytest.mark.parametrize("change", [{"v": 2}, {"more": 1}, {"places": 3}, {"places": [{"victim": "p"}]}])
def test_what_is_not_of_its_form_says_nothing(change: dict[str, object]) -> None:
    said = written((place(0),))
    message = json.dumps({**json.loads(said.message), **change})
    assert read(node_that_says(said._replace(message=message))) == ()
    assert read(node_that_says(said._replace(message=message[:-1]))) == ()
