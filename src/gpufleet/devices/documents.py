"""Typed values out of documents that people write, with the field that was probably meant."""

import re
from collections.abc import Iterator
from typing import TypeGuard, TypeVar

import msgspec

from gpufleet.devices.yaml_text import read_yaml
from gpufleet.model.label_advice import nearest
from gpufleet.model.model_errors import InputError

T = TypeVar("T")

_GOT = re.compile(r"got `(\w+)`")
_STEP = re.compile(r"\[(\.\.\.|\d+)\]|\.?([^.\[]+)")
_NAMES: dict[type, str] = {str: "str", bool: "bool", int: "int", float: "float"}
"""What msgspec calls the types of single values."""


class Notice(msgspec.Struct, frozen=True):
    """A field that was read and has no effect, with the reason."""

    field: str
    reason: str

    def __str__(self) -> str:
        """The notice as a sentence for the document's owner."""
        return f"{self.field} has no effect: {self.reason}"


def read_document(text: str | bytes, kind: type[T], where: str, refusal: type[InputError]) -> T:
    """The document as a value of this kind. Raises ``refusal`` naming the field."""
    return converted(read_yaml(text, where, refusal), kind, where, refusal)


def converted(plain: object, kind: type[T], where: str, refusal: type[InputError], under: str = "") -> T:
    """Plain values as a value of this kind; ``under`` is the field at which they stand."""
    try:
        return msgspec.convert(plain, kind)
    except msgspec.ValidationError as error:
        problem, _, path = str(error).partition(" - at `$")
        path = path.rstrip("`").lstrip(".")
        path, value = _misfit(plain, path, problem)
        unknown = problem.partition("unknown field `")[2].partition("`")[0]
        field = ".".join(part for part in (under, path, unknown) if part).replace(".[", "[")
        expected = _meant(unknown, path, kind) if unknown else ""
        if not field:
            names = (one.encode_name for one in msgspec.structs.fields(kind)) if _is_struct(kind) else ()
            expected = f"an object with fields such as {', '.join(names)}"
        raise refusal(problem, field=field, value=value, expected=expected, where=where) from error


def _misfit(plain: object, path: str, problem: str) -> tuple[str, object]:
    """The path with all its names, and the single value there that has a wrong type; None for others."""
    got = _GOT.search(problem)
    if got is None:
        return path, None
    steps = [index or name for index, name in _STEP.findall(path)]
    found = next(_values_at(plain, steps, got[1]), None)
    return (path, None) if found is None else (found[0].lstrip("."), found[1])


def _values_at(plain: object, steps: list[str], kind: str) -> Iterator[tuple[str, object]]:
    """The values of a type at the end of a path, each with the path that leads to it."""
    if not steps:
        if _NAMES.get(type(plain)) == kind:
            yield "", plain
        return
    first, rest = steps[0], steps[1:]
    if isinstance(plain, list):
        for path, value in _values_at(plain[int(first)], rest, kind):
            yield f"[{first}]{path}", value
    elif isinstance(plain, dict):
        # The names of a mapping stand in no path of msgspec's, so that each of them may be meant.
        names = list(plain) if first == "..." else [first]
        for name in names:
            for path, value in _values_at(plain.get(name), rest, kind):
                yield f".{name}{path}", value


def _meant(unknown: str, path: str, kind: object) -> str:
    """What is expected in place of a field that is not known there."""
    known = _field_paths(kind)
    near = nearest(unknown, known)
    if near == unknown:
        return f"a field that is known in this place; did you mean {known[unknown]}?"
    if near:
        return f"a known field; did you mean {near}?"
    if not path and _is_struct(kind):
        return f"one of {', '.join(one.encode_name for one in msgspec.structs.fields(kind))}"
    return ""


def _is_struct(kind: object) -> TypeGuard[type[msgspec.Struct]]:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _field_paths(kind: object) -> dict[str, str]:
    """Where each field of a kind, and of all kinds within it, stands, by its name; the outermost holds."""
    paths: dict[str, str] = {}
    seen: set[type] = set()
    waiting = [("", msgspec.inspect.type_info(kind))]
    while waiting:
        # Breadth first, so that of two fields of one name the outer one is proposed.
        path, info = waiting.pop(0)
        if isinstance(info, msgspec.inspect.StructType):
            if info.cls not in seen:
                seen.add(info.cls)
                for field in info.fields:
                    inner = f"{path}.{field.encode_name}".lstrip(".")
                    paths.setdefault(field.encode_name, inner)
                    waiting.append((inner, field.type))
        elif isinstance(info, msgspec.inspect.UnionType):
            waiting.extend((path, one) for one in info.types)
        elif isinstance(info, msgspec.inspect.TupleType):
            waiting.extend((f"{path}[]", one) for one in info.item_types)
        elif isinstance(info, msgspec.inspect.CollectionType):
            waiting.append((f"{path}[]", info.item_type))
        elif isinstance(info, msgspec.inspect.DictType):
            waiting.append((f"{path}.NAME", info.value_type))
    return paths
