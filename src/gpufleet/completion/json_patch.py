"""JSON Patch (RFC 6902) as completion writes it: what it adds and removes, done to a copy."""

import copy
from collections.abc import Iterable, Mapping
from typing import Any

Body = dict[str, Any]
END = "-"
"""In a path: behind the last item of a list."""


def patched_copy(body: Mapping[str, Any], patch: Iterable[Body]) -> Body:
    """The object with each operation done in turn. Raises KeyError for a path that is not there."""
    found: Body = copy.deepcopy(dict(body))
    for one in patch:
        *way, last = map(_plain, one["path"].removeprefix("/").split("/"))
        place: Any = found
        for step in way:
            place = place[int(step)] if isinstance(place, list) else place[step]
        if one["op"] == "remove":
            del place[int(last) if isinstance(place, list) else last]
        elif isinstance(place, list):
            place.insert(len(place) if last == END else int(last), copy.deepcopy(one["value"]))
        else:
            place[last] = copy.deepcopy(one["value"])
    return found


def escaped(name: str) -> str:
    """A name as one step of a path."""
    return name.replace("~", "~0").replace("/", "~1")


def _plain(step: str) -> str:
    return step.replace("~1", "/").replace("~0", "~")
