"""Fields of JSON read as the same text does when it is parsed; only places in a text are not there."""

import json
from collections.abc import Iterator

import pytest

from gpufleet.lint.source.fields import Field
from gpufleet.lint.source.nodes import data_of
from gpufleet.lint.source.parse import parse
from gpufleet.lint.source.text import SourceText
from gpufleet.lint.source.wire_fields import WireField

BODY = {
    "metadata": {"name": "a", "labels": {"nvidia.com/gpu.present": "true", "count": 3, "none": None}},
    "spec": {
        "containers": [{"name": "main", "stdin": True, "ports": [80, 2.5]}, "no mapping"],
        "replicas": 0,
        "paused": False,
        "empty": {},
        "nothing": None,
        "text": "",
    },
}
TEXT = json.dumps(BODY)


def parsed() -> Field:
    return Field(parse(SourceText("a.json", TEXT)).documents[0])


def all_below(field: Field) -> Iterator[Field]:
    yield field
    for one in (*(child for _, child in field.entries()), *field.items()):
        yield from all_below(one)


def test_every_field_reads_as_in_the_text() -> None:
    read = list(zip(all_below(WireField(BODY)), all_below(parsed()), strict=True))
    assert len(read) == 21
    for wire, text in read:
        assert (wire.path, wire.key, wire.keys) == (text.path, text.key, text.keys)
        assert (wire.exists, wire.text, wire.integer, wire.is_true, wire.texts()) == (
            text.exists,
            text.text,
            text.integer,
            text.is_true,
            text.texts(),
        ), text.path
        assert {name: one.text for name, one in wire.by_name().items()} == {
            name: one.text for name, one in text.by_name().items()
        }
        assert wire.node is not None
        assert text.node is not None
        assert data_of(wire.node) == data_of(text.node)


@pytest.mark.parametrize(
    "keys", [("spec",), ("spec", "nothing"), ("spec", "absent"), ("spec", "replicas", "below"), ()]
)
def test_a_path_leads_to_the_same_field_with_the_same_fields_around_it(keys: tuple[str, ...]) -> None:
    wire, text = WireField(BODY).at(*keys), parsed().at(*keys)
    assert (wire.path, wire.exists, wire.node is None) == (text.path, text.exists, text.node is None)
    assert (wire.key_node is None) == (text.key_node is None)
    above, above_text = wire.parent, text.parent
    assert (above is None) == (above_text is None)
    if above is not None and above_text is not None:
        assert (above.path, above.texts()) == (above_text.path, above_text.texts())


@pytest.mark.parametrize(
    "keys",
    [
        ("metadata", "name"),
        ("metadata", "labels"),
        ("metadata", "labels", "count"),
        ("metadata", "labels", "none"),
        ("spec", "paused"),
        ("spec", "containers"),
        ("spec", "replicas", "below"),
        ("absent", "below"),
        (),
    ],
)
def test_values_that_are_read_without_a_field_are_those_of_the_field(keys: tuple[str, ...]) -> None:
    missing = WireField(BODY).at("absent")
    for field in (WireField(BODY), parsed(), missing):
        assert field.text_at(*keys) == field.at(*keys).text
        assert field.texts_at(*keys) == field.at(*keys).texts()
        assert field.names_at(*keys) == tuple(field.at(*keys).by_name())
        items, same = field.items_at(*keys), field.at(*keys).items()
        assert [one.path for one in items] == [one.path for one in same]
        assert [one.texts() for one in items] == [one.texts() for one in same]
    assert WireField(BODY).text_at(*keys) == parsed().text_at(*keys)
    assert WireField(BODY).texts_at(*keys) == parsed().texts_at(*keys)


def test_an_item_knows_the_list_around_it() -> None:
    item = WireField(BODY).at("spec", "containers").items()[0]
    assert item.path == "spec.containers[0]"
    assert item.parent is not None
    assert item.parent.path == "spec.containers"
    assert item.at("name").path == "spec.containers[0].name"


def test_a_slot_that_fields_do_not_have_is_none() -> None:
    with pytest.raises(AttributeError):
        _ = WireField(BODY).absent
