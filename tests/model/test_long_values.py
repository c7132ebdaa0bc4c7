"""A sentence about a value is short, however long the value, its field or its file is."""

import pytest

from gpufleet.model.model_errors import InputError, printable

LONG = 200_000


def nested(levels: int) -> list[object]:
    found: list[object] = []
    for _ in range(levels):
        found = [found]
    return found


@pytest.mark.parametrize(
    "value",
    [1 << LONG, -(1 << LONG), {"a": 1 << LONG}, "x" * LONG, ["x" * LONG], nested(100_000)],
    ids=["number", "below zero", "in a map", "text", "in a list", "nested"],
)
def test_any_value_is_shown_in_a_few_words(value: object) -> None:
    assert len(printable(value)) < 200
    assert len(str(InputError("out of range", field="spec", value=value))) < 300


def test_fields_and_files_do_not_flood_a_sentence() -> None:
    error = InputError("wrong", field=f"labels[{'x' * LONG}]", where="y" * LONG, value="z" * LONG)
    assert len(str(error)) < 2000
    assert "characters" in str(error)
    assert error.field == f"labels[{'x' * LONG}]"
