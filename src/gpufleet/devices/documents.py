"""Typed values out of documents that people write, with the field that was probably meant."""

from typing import TypeGuard, TypeVar

import msgspec

from gpufleet.devices.yaml_text import read_yaml
from gpufleet.model.label_advice import nearest
from gpufleet.model.model_errors import InputError

T = TypeVar("T")


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
        unknown = problem.partition("unknown field `")[2].partition("`")[0]
        field = ".".join(part for part in (under, path, unknown) if part).replace(".[", "[")
        meant = nearest(unknown, _field_names(kind)) if unknown else None
        expected = f"a known field; did you mean {meant}?" if meant else ""
        if not field:
            names = (one.encode_name for one in msgspec.structs.fields(kind)) if _is_struct(kind) else ()
            expected = f"an object with fields such as {', '.join(names)}"
        raise refusal(problem, field=field, expected=expected, where=where) from error


def _is_struct(kind: object) -> TypeGuard[type[msgspec.Struct]]:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _field_names(kind: object) -> set[str]:
    """The fields of a kind and of all kinds within it."""
    names: set[str] = set()
    seen: set[type] = set()
    waiting = [msgspec.inspect.type_info(kind)]
    while waiting:
        info = waiting.pop()
        if isinstance(info, msgspec.inspect.StructType):
            if info.cls not in seen:
                seen.add(info.cls)
                names.update(field.encode_name for field in info.fields)
                waiting.extend(field.type for field in info.fields)
        elif isinstance(info, msgspec.inspect.UnionType):
            waiting.extend(info.types)
        elif isinstance(info, msgspec.inspect.TupleType):
            waiting.extend(info.item_types)
        elif isinstance(info, msgspec.inspect.CollectionType):
            waiting.append(info.item_type)
        elif isinstance(info, msgspec.inspect.DictType):
            waiting.append(info.value_type)
    return names
