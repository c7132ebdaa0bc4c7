"""What expressions compute with: CEL's values as Python has them, and what equality and size mean.

int is CEL's int, ``Uint`` its uint, float its double; bool, str, bytes, None, list and dict are themselves.
Durations are nanoseconds (``Duration``), times nanoseconds since 1970 (``Timestamp``).
"""

import ipaddress
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult

from gpufleet.device_selectors.cel_errors import EvaluationError
from gpufleet.model.quantity import Quantity

INT_MAXIMUM = 2**63 - 1
INT_MINIMUM = -(2**63)
UINT_MAXIMUM = 2**64 - 1
"""CEL's numbers have 64 bits."""

BYTE_BITS = 8
"""Addresses count by their bytes."""

Value = Any
"""Whatever an expression may compute with; ``checking`` has the types."""


class Uint(int):
    """A number without a sign, of 64 bits."""


class Duration(int):
    """A length of time in nanoseconds."""


class Timestamp(int):
    """A moment in nanoseconds since 1970, UTC."""


@dataclass(frozen=True, slots=True)
class Optional:
    """A value that may be absent."""

    value: Value = None
    is_there: bool = False


NONE = Optional()


class Failed:
    """Stands for an argument or a result that has no value, where only its cost is asked for."""


FAILED = Failed()


@dataclass(frozen=True, slots=True)
class TypeValue:
    """A type as a value: what ``type(x)`` gives."""

    name: str


@dataclass(frozen=True, slots=True)
class Url:
    """A URL and its parts."""

    text: str
    parts: SplitResult


@dataclass(frozen=True, slots=True)
class Ip:
    """An address of IPv4 or IPv6."""

    address: ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True)
class Cidr:
    """A network, with the address as it was written."""

    address: ipaddress.IPv4Interface | ipaddress.IPv6Interface


class DefaultMap(dict[str, Value]):
    """A map in which every key is found: an unknown one has an empty map (domains of a device)."""


_NUMBER = re.compile(r"0|[1-9]\d*")
_IDENTIFIER = re.compile(r"[0-9A-Za-z-]+")


@dataclass(frozen=True, slots=True)
class Version:
    """A semantic version 2.0.0; build metadata counts for nothing in comparisons."""

    major: int
    minor: int
    patch: int
    prerelease: tuple[str, ...] = ()
    build: tuple[str, ...] = ()

    @staticmethod
    def parse(text: str) -> "Version":
        """Read it strictly. Raises ValueError."""
        if not text:
            raise ValueError("Version string empty")
        head, _, build = text.partition("+")
        core, dash, prerelease = head.partition("-")
        numbers = core.split(".")
        if len(numbers) != 3 or not all(_NUMBER.fullmatch(one) for one in numbers):
            raise ValueError(f"{text!r} is no version such as 1.2.3")
        before = tuple(prerelease.split(".")) if dash else ()
        after = tuple(build.split(".")) if "+" in text else ()
        for one in (*before, *after):
            if not _IDENTIFIER.fullmatch(one):
                raise ValueError(f"Invalid character(s) found in prerelease or build of {text!r}")
        if any(one.isdigit() and len(one) > 1 and one[0] == "0" for one in before):
            raise ValueError(f"Numeric PreRelease version must not contain leading zeroes {text!r}")
        major, minor, patch = (int(one) for one in numbers)
        if max(major, minor, patch) > UINT_MAXIMUM:
            raise ValueError(f"a number of {text!r} is too large")
        return Version(major, minor, patch, before, after)

    @staticmethod
    def parse_normalized(text: str) -> "Version":
        """Read it with a "v" before it, missing parts and leading zeros. Raises ValueError."""
        parts = text.removeprefix("v").split(".", 2)
        for place, part in enumerate(parts):
            if len(part) > 1:
                short = part.lstrip("0")
                parts[place] = short if short and short[0].isdigit() else f"0{short}"
        if len(parts) < 3:
            if any(sign in parts[-1] for sign in "+-"):
                raise ValueError("short version cannot contain PreRelease/Build meta data")
            parts += ["0"] * (3 - len(parts))
        return Version.parse(".".join(parts))

    def compare(self, other: "Version") -> int:
        """Below 0, 0 or above 0, by the precedence of semver.org section 11."""
        mine, others = (self.major, self.minor, self.patch), (other.major, other.minor, other.patch)
        if mine != others:
            return -1 if mine < others else 1
        # A version comes after all of its prereleases.
        if not self.prerelease or not other.prerelease:
            return bool(other.prerelease) - bool(self.prerelease)
        for left, right in zip(self.prerelease, other.prerelease, strict=False):
            if (found := _compare_identifiers(left, right)) != 0:
                return found
        return _sign(len(self.prerelease) - len(other.prerelease))


def _compare_identifiers(left: str, right: str) -> int:
    if left.isdigit() and right.isdigit():
        return _sign(int(left) - int(right))
    if left.isdigit() != right.isdigit():
        return -1 if left.isdigit() else 1
    return (left > right) - (left < right)


def _sign(number: int) -> int:
    return (number > 0) - (number < 0)


_NUMBERS = (int, Uint, float)


def is_equal(left: Value, right: Value) -> bool:
    """CEL's equality: numbers by amount across their types, everything else within its type."""
    kind, other = type(left), type(right)
    if kind in _NUMBERS and other in _NUMBERS:
        return bool(left == right)
    if kind is list and other is list:
        return len(left) == len(right) and all(
            is_equal(one, two) for one, two in zip(left, right, strict=True)
        )
    if isinstance(left, dict) and isinstance(right, dict):
        return len(left) == len(right) and all(
            (there := found(right, key)).is_there and is_equal(value, there.value)
            for key, value in left.items()
        )
    if kind is Optional and other is Optional:
        return left.is_there == right.is_there and (not left.is_there or is_equal(left.value, right.value))
    if kind is Version and other is Version:
        return bool(left.compare(right) == 0)
    return kind is other and bool(left == right)


def found(mapping: dict[Any, Value], key: Value) -> Optional:
    """The value of a key. Numbers find each other across their types; True is not 1."""
    kind = type(key)
    if kind is float:
        if not key.is_integer():
            return NONE
        key = int(key)
    if key in mapping:
        # Python takes True for 1, so what it finds is compared as CEL compares.
        for one in (key,) if kind is str else mapping:
            if is_equal(one, key):
                return Optional(mapping[one], is_there=True)
    if type(mapping) is DefaultMap:
        return Optional({}, is_there=True)
    return NONE


def size(value: Value) -> int:
    """What the cost of a call counts: characters, bytes or elements; 1 for everything else."""
    kind = type(value)
    if kind is Optional:
        return size(value.value) if value.is_there else 1
    if kind in {str, bytes, list} or isinstance(value, dict):
        return len(value)
    if kind is Ip:
        return int(value.address.max_prefixlen) // BYTE_BITS
    if kind is Cidr:
        return -(-int(value.address.network.prefixlen) // BYTE_BITS)
    return 1


def elements(value: Value) -> Iterator[Value]:
    """What a loop over the value meets. Raises EvaluationError where it cannot be looped over."""
    if type(value) is list or isinstance(value, dict):
        return iter(list(value))
    raise EvaluationError(f"got '{type_name(value)}', expected iterable type")


_NAMES: dict[type, str] = {
    bool: "bool",
    int: "int",
    Uint: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    type(None): "null_type",
    list: "list",
    dict: "map",
    DefaultMap: "map",
    Duration: "google.protobuf.Duration",
    Timestamp: "google.protobuf.Timestamp",
    Optional: "optional_type",
    TypeValue: "type",
    Quantity: "kubernetes.Quantity",
    Version: "kubernetes.Semver",
    Ip: "net.IP",
    Cidr: "net.CIDR",
    Url: "kubernetes.URL",
    Failed: "error",
}


def type_name(value: Value) -> str:
    """The name of the value's type as CEL has it."""
    return _NAMES[type(value)]
