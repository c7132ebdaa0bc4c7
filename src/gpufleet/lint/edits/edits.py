"""What a fix changes, in terms of the object: rules say it, ``layout`` finds the characters."""

from collections.abc import Iterable
from dataclasses import dataclass

from gpufleet.lint.source.fields import Field
from gpufleet.lint.source.nodes import Data, Mapping, Scalar, Sequence
from gpufleet.lint.source.scalars import Plain


@dataclass(frozen=True)
class Replace:
    """Another single value in place of the one that stands here."""

    field: Field
    value: Plain


@dataclass(frozen=True)
class Rename:
    """A field's value under another name in its mapping."""

    field: Field
    name: str


@dataclass(frozen=True)
class Remove:
    """The field, or the item of a list, with all that it holds."""

    field: Field


@dataclass(frozen=True)
class Insert:
    """A new field of a mapping, which may be missing itself."""

    mapping: Field
    name: str
    value: Data


@dataclass(frozen=True)
class Append:
    """A new item at the end of a list, which may be missing itself."""

    sequence: Field
    value: Data


Edit = Replace | Rename | Remove | Insert | Append


@dataclass(frozen=True)
class Fix:
    """Edits that belong together, and what they do in words."""

    does: str
    edits: tuple[Edit, ...]


_EMPTY_MEANS_NOTHING = frozenset(
    {
        "default",
        "defaultRequest",
        "env",
        "limits",
        "nodeSelector",
        "requests",
        "resources",
        "securityContext",
        "tolerations",
        "volumeMounts",
        "volumes",
    }
)


def removal(field: Field) -> Remove:
    """Removes the field, and what is left empty around it where empty says nothing."""
    return removals([field])[0]


def removals(fields: Iterable[Field]) -> tuple[Remove, ...]:
    """Removes the fields, and what is left empty around them together where empty says nothing."""
    left = {field.keys: field for field in fields}
    while True:
        parents = {one.parent.keys: one.parent for one in left.values() if one.parent is not None}
        emptied = [parent for parent in parents.values() if _is_emptied(parent, left)]
        if not emptied:
            return tuple(Remove(field) for field in left.values())
        for parent in emptied:
            left = {keys: one for keys, one in left.items() if keys[:-1] != parent.keys}
            left[parent.keys] = parent


def _is_emptied(parent: Field, removed: dict[tuple[str | int, ...], Field]) -> bool:
    """Whether all that a field holds is removed, and it says nothing without."""
    node = parent.node
    count = sum(keys[:-1] == parent.keys for keys in removed if keys)
    if parent.key not in _EMPTY_MEANS_NOTHING:
        return False
    if isinstance(node, Sequence):
        return len(node.items) == count
    return isinstance(node, Mapping) and len(node.entries) == count and not node.merged


def setting(mapping: Field, name: str, value: Plain) -> Edit:
    """Gives a field of a mapping this single value, whether it is there or not."""
    field = mapping.at(name)
    return Replace(field, value) if isinstance(field.node, Scalar) else Insert(mapping, name, value)
