"""A digest of all state of the engine, by which two moments are compared.

Everything that an object holds is gone through, so that no field can be forgotten: arrays, attributes,
and the order of entries, since that decides between equals. Left out is what is named in ``NOT_STATE``, each
with its reason. Spare rows of arrays do not count, so an array that grew is the same as before.
"""

from collections.abc import Iterator, Mapping
from enum import Enum, auto
from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

import msgspec
import numpy as np

from gpufleet.engine.arrays import layout
from gpufleet.engine.arrays.handle import Handle
from gpufleet.engine.arrays.tables import GROWTH, TableStore
from gpufleet.engine.lifecycle.engine_state import EngineState
from gpufleet.engine.place.gangs.shape_rooms import ShapeRooms
from gpufleet.engine.place.refusal.shape_verdicts import ShapeVerdicts
from gpufleet.engine.place.refusal.survey_cache import SurveyCache
from gpufleet.engine.queueing.shares import QueueShares

NOT_STATE = {
    ("TableStore", "_handle"): "addresses of arrays",
    ("ShapeTable", "rankings"): "scores are brought up to date when they are asked for",
    ("ShapeTable", "_handle"): "addresses of arrays",
    ("ShapeTable", "_slot_by_row"): "slots of scores, in the order of their last use",
    ("ShapeTable", "_variants"): "shapes of which only the models differ, made when they are asked for",
    ("PolicyState", "_handle"): "addresses of arrays",
    ("PolicyTables", "by_device"): "scratch of a kernel",
    ("PolicyTables", "chosen"): "scratch of a kernel",
    ("Gate", "_options"): "worked out anew after a change of the tree",
    ("Gate", "_options_at"): "says when the options were worked out",
    ("Departures", "_rows"): "rows of pods that leave, worked out anew after a change",
    ("Departures", "_rows_as_of"): "says when these rows were worked out",
    ("Neighbours", "changes"): "counts changes there and back, for caches",
    ("DeviceClaims", "_answers"): "whether nodes serve claims, worked out anew after a change",
    ("DeviceCatalogue", "_answers"): "whether nodes serve claims, worked out anew after a change",
    ("DeviceCatalogue", "_index"): "slices by node and pool, made anew after a change",
    ("DeviceCatalogue", "_nodes"): "what nodes reach, worked out when it is asked for",
    ("DeviceCatalogue", "_nodes_by_pool"): "of which nodes that was worked out",
    ("Turns", "_measured"): "shares, worked out anew where use is another",
    ("Turns", "_measured_now"): "shares, worked out anew where use is another",
    ("Turns", "_terms_by_row"): "worked out anew after a change of the tree",
    ("Turns", "_as_of"): "says for which tree the terms were worked out",
    ("Turns", "_asks"): "what shapes are charged, worked out when it is asked for",
    ("Turns", "_called_contestants"): "worked out anew where the first of a line is another",
    ("Turns", "_lasting_keys"): "keys of queues, worked out anew where use or contestant is another",
    ("Turns", "_counted_then"): "says for which use the keys were worked out",
}
"""Attributes by the name of their class, and why they are no state."""
CACHES = (Handle, SurveyCache, ShapeRooms, ShapeVerdicts, QueueShares)
"""What is worked out from state, and kept with that from which it was worked out."""
WRITTEN_AS_A_LIST = frozenset({"journal", "changes", "changed_at", "gained_at", "counters"})
"""The journal itself, and which nodes' scores are out of date since when."""
CALLABLE = (FunctionType, MethodType, BuiltinFunctionType, partial, type)
VALUES = (str, bytes, int, float, bool, type(None), Enum, msgspec.Struct, np.generic)
"""What never changes; structs of the model are frozen."""


class Treatment(Enum):
    """What is noted of an object."""

    VALUE = auto()
    LEFT_OUT = auto()
    MAPPING = auto()
    PARTS = auto()


TREATMENTS: dict[type, Treatment] = {}
"""By the class of an object: a look at the bases of each object takes most of the time of a digest."""

Digest = dict[str, object]
"""What is at each path from the root."""


def digest(state: EngineState) -> Digest:
    """All state, by paths such as ``gangs.by_name[g0].waiting``."""
    # Columns are brought up to date when they are read, and priorities are counted from then on; before that
    # they are no state.
    assert state.pods.eviction_columns.cells.size
    assert state.pods.placed_priorities is not None
    found: Digest = {}
    _note(found, {}, "", state)
    return found


def difference(before: Digest, after: Digest) -> list[str]:
    """What is not the same, in words; empty if all is."""
    paths = dict.fromkeys([*before, *after])
    return [
        f"{path}: {before.get(path, 'absent')!r} became {after.get(path, 'absent')!r}"
        for path in paths
        if before.get(path, "absent") != after.get(path, "absent")
    ]


def _note(found: Digest, seen: dict[int, str], path: str, value: Any) -> None:
    treatment = _treatment(type(value))
    if treatment is Treatment.VALUE:
        found[path] = value
        return
    if treatment is Treatment.LEFT_OUT:
        return
    if id(value) in seen:
        found[path] = f"same as {seen[id(value)]}"
        return
    if not isinstance(value, tuple):
        # Tuples are made anew again and again, so where one is says nothing.
        seen[id(value)] = path
    if isinstance(value, TableStore):
        _note_tables(found, path, value)
    elif isinstance(value, np.ndarray):
        found[path] = _cells(value, 0)
    else:
        for name, part in _parts(value):
            _note(found, seen, f"{path}{name}", part)


def _treatment(kind: type) -> Treatment:
    found = TREATMENTS.get(kind)
    if found is None:
        found = TREATMENTS[kind] = _treatment_by_bases(kind)
    return found


def _treatment_by_bases(kind: type) -> Treatment:
    if issubclass(kind, VALUES):
        return Treatment.VALUE
    if issubclass(kind, (*CACHES, *CALLABLE)):
        return Treatment.LEFT_OUT
    return Treatment.MAPPING if issubclass(kind, Mapping) else Treatment.PARTS


def _note_tables(found: Digest, path: str, store: TableStore) -> None:
    for field, array in store.tables._asdict().items():
        if field not in WRITTEN_AS_A_LIST:
            # That use fell is noted for whoever looks next, who then finds that it did not.
            left_out = [layout.QUEUE_FELL] if field == "queues" else []
            found[f"{path}.{field}"] = _cells(np.delete(array, left_out, axis=0), GROWTH[field][1])
    counters = store.tables.counters
    found[f"{path}.journal"] = int(counters[layout.COUNTER_JOURNAL_LENGTH])
    found[f"{path}.writes_a_charge"] = store.writes_a_charge


def _cells(array: "np.ndarray[Any, Any]", empty: int) -> tuple[bytes, ...]:
    """Where the cells are that are not empty, and what is in them."""
    places = np.nonzero(array != empty)
    return (*(one.tobytes() for one in places), array[places].tobytes())


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """What an object holds, each with how its path goes on."""
    if _treatment(type(value)) is Treatment.MAPPING:
        # Which key comes first decides between equals.
        yield ".keys", repr(list(value))
        for key, one in value.items():
            yield f"[{key}]", one
    elif isinstance(value, set | frozenset):
        yield ".members", repr(sorted(map(repr, value)))
    elif isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        yield ".length", len(value)
        for number, one in enumerate(value):
            yield f"[{number}]", one
    else:
        for name in _attributes(value):
            if (type(value).__name__, name) not in NOT_STATE:
                yield f".{name}", getattr(value, name)


def _attributes(value: Any) -> list[str]:
    slots = (name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ()))
    named = getattr(value, "_fields", ())
    return [*named, *(name for name in slots if hasattr(value, name)), *getattr(value, "__dict__", {})]
