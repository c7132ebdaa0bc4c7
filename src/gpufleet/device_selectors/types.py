"""Types of expressions, and when one may stand for another. ``checking`` works with them.

Rules: the language definition of CEL, section "Gradual Type Checking". A parameter (``A``) stands for any
type, the same in one call; ``dyn`` and ``any`` fit everything and are looked at when a device is there.
"""

from dataclasses import dataclass

from gpufleet.device_selectors.values import Value, type_name


@dataclass(frozen=True, slots=True)
class Type:
    """A type by its name, with those of its parts."""

    name: str
    parts: tuple["Type", ...] = ()
    is_parameter: bool = False

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.parts))})" if self.parts else self.name


BOOL = Type("bool")
INT = Type("int")
UINT = Type("uint")
DOUBLE = Type("double")
STRING = Type("string")
BYTES = Type("bytes")
NULL = Type("null_type")
DYN = Type("dyn")
ANY = Type("any")
ERROR = Type("!error!")
TYPE = Type("type")
DURATION = Type("google.protobuf.Duration")
TIMESTAMP = Type("google.protobuf.Timestamp")
QUANTITY = Type("kubernetes.Quantity")
VERSION = Type("kubernetes.Semver")
IP = Type("net.IP")
CIDR = Type("net.CIDR")
URL = Type("kubernetes.URL")
A = Type("A", is_parameter=True)
B = Type("B", is_parameter=True)

_NULLABLE = frozenset(
    one.name for one in (DURATION, TIMESTAMP, QUANTITY, VERSION, IP, CIDR, URL, Type("optional_type"))
)
"""Types for which null may stand."""


def list_of(element: Type) -> Type:
    """A list of these."""
    return Type("list", (element,))


def map_of(key: Type, value: Type) -> Type:
    """A map from keys to values."""
    return Type("map", (key, value))


def optional_of(value: Type) -> Type:
    """A value of this type, or none."""
    return Type("optional_type", (value,))


def is_dynamic(one: Type) -> bool:
    """The type fits everything."""
    return one in {DYN, ANY, ERROR}


class Substitutions:
    """What parameters stand for, as far as it is known."""

    def __init__(self, known: dict[Type, Type] | None = None) -> None:
        self._known = dict(known or {})
        self._free = 0

    def new_parameter(self) -> Type:
        """A parameter that stands for nothing yet."""
        self._free += 1
        return Type(f"_var{self._free}", is_parameter=True)

    def fits(self, given: tuple[Type, ...], wanted: tuple[Type, ...]) -> bool:
        """Each given type may stand for its wanted one; what that says of parameters is kept then."""
        # A match that fails half-way must say nothing of parameters: the next overload is tried after it.
        before = dict(self._known)
        if len(given) == len(wanted) and all(
            self._fits(one, other) for one, other in zip(given, wanted, strict=True)
        ):
            return True
        self._known = before
        return False

    def resolved(self, one: Type, free: Type | None = None) -> Type:
        """The type with its parameters put in; those that stand for nothing become ``free``."""
        if one in self._known:
            return self.resolved(self._known[one], free)
        if one.is_parameter:
            return free or one
        if not one.parts:
            return one
        return Type(one.name, tuple(self.resolved(part, free) for part in one.parts))

    def _fits(self, given: Type, wanted: Type) -> bool:
        if wanted.is_parameter:
            is_valid, is_known = self._stands_for(given, wanted)
            if is_valid or is_known:
                return is_valid
        if given.is_parameter:
            return self._stands_for(wanted, given)[0]
        if is_dynamic(given) or is_dynamic(wanted):
            return True
        if NULL in {given, wanted}:
            other = wanted if given == NULL else given
            return other == NULL or other.name in _NULLABLE
        if given.name == "type" and wanted.name == "type":
            return True
        return (
            given.name == wanted.name
            and len(given.parts) == len(wanted.parts)
            and all(self._fits(one, other) for one, other in zip(given.parts, wanted.parts, strict=True))
        )

    def _stands_for(self, one: Type, parameter: Type) -> tuple[bool, bool]:
        """Whether the parameter may stand for the type, and whether it was known before."""
        if one == parameter:
            return True, True
        if parameter in self._known:
            known = self._known[parameter]
            if one == known:
                return True, True
            if not self._fits(one, known):
                return False, True
            wider = most_general(one, known)
            if not self._occurs(parameter, wider):
                self._known[parameter] = wider
            return True, True
        # A parameter within what it stands for would never be resolved to its end.
        if self._occurs(parameter, one):
            return False, False
        self._known[parameter] = one
        return True, False

    def _occurs(self, parameter: Type, within: Type) -> bool:
        if parameter == within:
            return True
        if within.is_parameter:
            return within in self._known and self._occurs(parameter, self._known[within])
        return any(self._occurs(parameter, part) for part in within.parts)


def most_general(one: Type, other: Type) -> Type:
    """The one of two types that fits more."""
    return one if _is_as_general(one, other) else other


def _is_as_general(one: Type, other: Type) -> bool:
    if one in {DYN, ANY} or one.is_parameter:
        return True
    if other in {DYN, ANY} or other.is_parameter:
        return False
    return (
        one.name == other.name
        and len(one.parts) == len(other.parts)
        and all(_is_as_general(*pair) for pair in zip(one.parts, other.parts, strict=True))
    )


def has_type(value: Value, wanted: Type) -> bool:
    """The value is of this type, as far as it can be seen without looking into lists and maps."""
    return wanted.is_parameter or is_dynamic(wanted) or type_name(value) == wanted.name
