"""What all structs of the wire have in common, and how equal parts are kept once.

Thousands of pods differ in their names and agree in nearly everything else. ``Shared`` keeps one of
several equal values, so that a fleet's pods cost little more memory than their names.
"""

from typing import Any, TypeVar

import msgspec

Value = TypeVar("Value")


class Structure(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """A part of an object. Lists are tuples; what the server may leave out has a default."""


class Shared:
    """Keeps one of several equal values. It forgets all of them when it has seen too many."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._known: dict[bytes, Any] = {}
        self._encode = msgspec.msgpack.Encoder().encode

    def __len__(self) -> int:
        return len(self._known)

    def one(self, value: Value) -> Value:
        """The value, or an equal one that was seen before."""
        key = self._encode(value)
        known: Value | None = self._known.get(key)
        if known is not None:
            return known
        if len(self._known) >= self._limit:
            self._known.clear()
        self._known[key] = value
        return value
