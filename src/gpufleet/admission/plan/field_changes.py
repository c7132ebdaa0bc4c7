"""Two versions of an object as the fields in which they differ, named as people name them."""

from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Any

import msgspec

from gpufleet.admission.plan.answer import FieldChange


class _Absent:
    """Stands for a value that is not there: null is one."""


_ABSENT = _Absent()


def field_changes(before: Any, after: Any, path: str = "") -> Iterator[FieldChange]:
    """Each field that differs, in the order of the object. What is new is told whole."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for name in dict.fromkeys((*before, *after)):
            way = f"{path}.{name}" if path else str(name)
            yield from field_changes(before.get(name, _ABSENT), after.get(name, _ABSENT), way)
    elif isinstance(before, list) and isinstance(after, list):
        for number, (one, other) in enumerate(zip_longest(before, after, fillvalue=_ABSENT)):
            yield from field_changes(one, other, f"{path}[{number}]")
    elif before is _ABSENT or after is _ABSENT or before != after:
        yield FieldChange(path, _text(before), _text(after))


def _text(value: Any) -> str | None:
    if isinstance(value, _Absent):
        return None
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
