"""A field that a document cannot have is refused with the one that was meant, or with those there are."""

import msgspec
import pytest

from gpufleet.devices.documents import read_document
from gpufleet.model.model_errors import InputError


class Inner(msgspec.Struct, forbid_unknown_fields=True):
    """A part of the document."""

    replicas: int = 1


class Outer(msgspec.Struct, forbid_unknown_fields=True):
    """The document."""

    sharing: Inner = msgspec.field(default_factory=Inner)
    version: str = ""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("sharin: {}", "expected a known field; did you mean sharing?"),
        ("sharing: {replica: 2}", "sharing.replica: .*did you mean replicas?"),
        ("replicas: 2", "known in this place; did you mean sharing.replicas?"),
        ("nothing-like-it: 2", "expected one of sharing, version"),
    ],
)
def test_an_unknown_field_is_refused_with_a_way_out(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as refused:
        read_document(text, Outer, "file.yaml", InputError)
    assert str(refused.value).startswith("file.yaml, ")
