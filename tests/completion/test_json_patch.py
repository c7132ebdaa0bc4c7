"""RFC 6902, as far as completion writes it; the examples are those of its appendix A."""

import pytest

from gpufleet.completion.json_patch import escaped, patched_copy


def test_a_field_is_added_and_the_object_before_stays() -> None:
    before = {"foo": "bar"}
    assert patched_copy(before, [{"op": "add", "path": "/baz", "value": "qux"}]) == {
        "baz": "qux",
        "foo": "bar",
    }
    assert before == {"foo": "bar"}


def test_an_item_is_added_at_its_place_or_at_the_end() -> None:
    at_one = [{"op": "add", "path": "/foo/1", "value": "qux"}]
    assert patched_copy({"foo": ["bar", "baz"]}, at_one) == {"foo": ["bar", "qux", "baz"]}
    at_the_end = [{"op": "add", "path": "/foo/-", "value": ["abc", "def"]}]
    assert patched_copy({"foo": ["bar"]}, at_the_end) == {"foo": ["bar", ["abc", "def"]]}


def test_fields_and_items_are_removed() -> None:
    assert patched_copy({"baz": "qux", "foo": "bar"}, [{"op": "remove", "path": "/baz"}]) == {"foo": "bar"}
    assert patched_copy({"foo": ["bar", "qux"]}, [{"op": "remove", "path": "/foo/1"}]) == {"foo": ["bar"]}


def test_names_with_slashes_and_tildes_are_escaped() -> None:
    assert escaped("m~n/k") == "m~0n~1k"
    added = [{"op": "add", "path": f"/{escaped('nvidia.com/gpu~')}", "value": 1}]
    assert patched_copy({}, added) == {"nvidia.com/gpu~": 1}


def test_a_path_that_is_not_there_is_an_error() -> None:
    with pytest.raises(KeyError):
        patched_copy({"q": {"bar": 2}}, [{"op": "add", "path": "/a/b", "value": 1}])
