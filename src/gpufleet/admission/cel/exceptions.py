"""Exceptions as CEL: the annotations by which lint accepts a finding, with their last day.

An annotation ``ignore.lint.gpufleet.io/GPU006: "until 2027-01-31: why"`` of the object, of its pods or of its
namespace excepts it from that rule; the first that is there counts. After its last day it excepts nothing.
CEL has no clock: at a creation, the server's own time of creation is that of now. At an update of an older
object a date that has passed may still count, and its pods are judged at their own creation.
``gpufleet.lint.suppressions`` reads the same annotations in Python.
"""

from gpufleet.admission.cel.pods import Variable
from gpufleet.admission.cel.words import literal
from gpufleet.lint.suppressions import ANNOTATION_DOMAIN

_DATE = r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])"
_DATED = rf"^until\s+{_DATE}\s*:\s*\S"

VARIABLES = (
    Variable("today", "string(object.metadata.?creationTimestamp.orValue('')).split('T')[0]"),
    Variable(
        "notes",
        "[object.metadata.?annotations.orValue({})] + variables.templates.map(t, "
        "t.?metadata.?annotations.orValue({})) + (namespaceObject == null ? [] : "
        "[namespaceObject.metadata.?annotations.orValue({})])",
    ),
)


def is_excepted(rule_id: str) -> str:
    """Whether the object is excepted from the rule today."""
    key = literal(ANNOTATION_DOMAIN + rule_id)
    dated = f"text.matches({literal(_DATED)}) && text.find({literal(_DATE)}) >= variables.today"
    counts = f"text != '' && (!text.startsWith('until ') || ({dated}))"
    first = f"variables.notes.filter(one, {key} in one).map(one, string(one[{key}]).trim())"
    return f"[{first}].exists(texts, size(texts) > 0 && [texts[0]].exists(text, {counts}))"
