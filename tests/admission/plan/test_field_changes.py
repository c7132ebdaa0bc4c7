"""Fields before and after, as people name them."""

from gpufleet.admission.plan.answer import FieldChange
from gpufleet.admission.plan.field_changes import field_changes


def test_each_field_that_differs_is_told_once() -> None:
    before = {"spec": {"name": "a", "kept": 1, "list": [{"x": 1}], "gone": None}}
    after = {"spec": {"name": "b", "kept": 1, "list": [{"x": 1}, {"y": [2]}], "new": True}}
    assert list(field_changes(before, after)) == [
        FieldChange("spec.name", "a", "b"),
        FieldChange("spec.list[1]", None, '{"y":[2]}'),
        FieldChange("spec.gone", "null", None),
        FieldChange("spec.new", None, "true"),
    ]


def test_what_is_the_same_has_no_change() -> None:
    assert list(field_changes({"a": [1, {"b": "c"}]}, {"a": [1, {"b": "c"}]})) == []
