"""Fields of objects that came as JSON: the values are read where they are, and no tree is made of them.

A cluster sends thousands of objects, and advice reads a few fields of each. ``json_values`` makes the tree of
a value for the few readers that ask for ``node``.
"""

from collections.abc import Iterator
from typing import Any, Final

from gpufleet.lint.source.fields import Field
from gpufleet.lint.source.json_values import node_of, text_of
from gpufleet.lint.source.nodes import Scalar, Style

_MISSING: Final = object()
_Way = tuple[str | int, ...]


class WireField(Field):
    """One place in an object of JSON. ``node``, ``parent`` and ``key`` are worked out when they are read."""

    __slots__ = ("_above", "_value", "_way")

    def __init__(self, value: object, above: "WireField | None" = None, way: _Way = ()) -> None:
        # The fields of the class above stay unset: its own __init__ is not called, as most are never read.
        self._value = value
        self._above = above
        self._way = way

    def __getattr__(self, name: str) -> Any:
        """Work out a field that was not read before; Python asks here only where a slot is empty."""
        match name:
            case "node":
                self.node = None if self._value is _MISSING else node_of(self._value)
            case "parent":
                above = self._above
                self.parent = above if above is None else above.at(*map(str, self._way[:-1]))
            case "key":
                self.key = self._way[-1] if self._way else ""
            case "key_node":
                is_named = bool(self._way) and isinstance(self._way[-1], str) and self._value is not _MISSING
                self.key_node = Scalar(str(self._way[-1]), Style.QUOTED, 0, 0) if is_named else None
            case _:
                raise AttributeError(name)
        return getattr(self, name)

    def at(self, *keys: str) -> "WireField":
        """The field under these names, which may be missing."""
        if not keys:
            return self
        value = self._value
        # This loop stands in each method that takes names: a call costs as much as it does, half a million
        # times in a diagnosis. JSON has no other mapping than dict, and to compare its type is the cheapest.
        for key in keys:
            if type(value) is not dict:
                value = _MISSING
                break
            value = value.get(key, _MISSING)
        return WireField(value, self, keys)

    def text_at(self, *keys: str) -> str | None:
        """The single value under these names; None where there is none."""
        # Without a field: a diagnosis reads hundreds of thousands of values in this way.
        value = self._value
        for key in keys:
            if type(value) is not dict:
                return None
            value = value.get(key, _MISSING)
        if type(value) is str:
            return value
        return None if value is _MISSING else text_of(value)

    def texts_at(self, *keys: str) -> dict[str, str]:
        """The single values of the mapping under these names."""
        value = self._value
        for key in keys:
            if type(value) is not dict:
                return {}
            value = value.get(key)
        return _texts(value)

    def items_at(self, *keys: str) -> "list[Field]":
        """The items of the list under these names; none of anything else."""
        # Most lists that are asked for are missing: then no field is made.
        value = self._value
        for key in keys:
            if type(value) is not dict:
                return []
            value = value.get(key)
        if type(value) is not list:
            return []
        above = WireField(value, self, keys)
        return [WireField(item, above, (index,)) for index, item in enumerate(value)]

    def names_at(self, *keys: str) -> tuple[str, ...]:
        """The names in the mapping under these names; none of anything else."""
        value = self._value
        for key in keys:
            if type(value) is not dict:
                return ()
            value = value.get(key)
        return tuple(value) if type(value) is dict else ()

    def items(self) -> "list[Field]":
        """The items of a list; none of anything else."""
        if not isinstance(self._value, list):
            return []
        return [WireField(item, self, (index,)) for index, item in enumerate(self._value)]

    def entries(self) -> "Iterator[tuple[str, Field]]":
        """The fields of a mapping by name; none of anything else."""
        yield from self.by_name().items()

    def by_name(self) -> "dict[str, Field]":
        """The fields of a mapping by name; none of anything else."""
        value = self._value
        if not isinstance(value, dict):
            return {}
        return {name: WireField(one, self, (name,)) for name, one in value.items()}

    def texts(self) -> dict[str, str]:
        """The single values of a mapping, such as labels, by name."""
        return _texts(self._value)

    @property
    def exists(self) -> bool:
        """Whether a value stands here; null is none, as Kubernetes drops it."""
        return self._value is not _MISSING and self._value is not None

    @property
    def text(self) -> str | None:
        """A single value as JSON writes it; None where there is none."""
        value = self._value
        if isinstance(value, str):
            return value
        return None if value is _MISSING else text_of(value)

    @property
    def integer(self) -> int | None:
        """A whole number; None where there is none."""
        value = self._value
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    @property
    def is_true(self) -> bool:
        """Whether true stands here."""
        return self._value is True

    @property
    def offset(self) -> int:
        """Where the field stands: values of the wire have no place in a text."""
        return 0

    @property
    def keys(self) -> _Way:
        """The way from the root of the object."""
        return self._way if self._above is None else (*self._above.keys, *self._way)


def _texts(value: object) -> dict[str, str]:
    found: dict[str, str] = {}
    if isinstance(value, dict):
        for name, one in value.items():
            text = one if isinstance(one, str) else text_of(one)
            if text is not None:
                found[name] = text
    return found
