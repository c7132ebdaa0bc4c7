"""What an image requires of the node's driver, in the words of NVIDIA's container toolkit.

The variables NVIDIA_REQUIRE_* hold expressions such as
``cuda>=12.3 brand=tesla,driver>=470,driver<471``: alternatives are separated by spaces, what must hold
together by commas. Here they are only read, for the toolkit that they tell of; whether one holds on a node,
to the letter of NVIDIA's runtimes, is the business of ``gpufleet.cuda``.
"""

import enum
import re

import msgspec

from gpufleet.model.cuda_compatibility import FAMILIES, Toolkit, parse_toolkit
from gpufleet.model.model_errors import InputError

# Images of NVIDIA have some hundred characters there.
MAXIMUM_LENGTH = 16_384
CUDA = "cuda"
DRIVER = "driver"
ARCHITECTURE = "arch"
BRAND = "brand"
_VERSIONS = (CUDA, DRIVER, ARCHITECTURE)
_CONDITION = re.compile(r"([^<>=!]+)(!=|<=|>=|=|<|>)([^<>=!]+)")
_VERSION = re.compile(r"[0-9]+(?:\.[0-9]+)*")


class Operator(enum.Enum):
    """How a condition compares."""

    EQUAL = "="
    NOT_EQUAL = "!="
    LESS = "<"
    LESS_EQUAL = "<="
    GREATER = ">"
    GREATER_EQUAL = ">="


class RequirementCondition(msgspec.Struct, frozen=True):
    """One comparison: ``cuda>=12.3``. What it is about is in small letters."""

    about: str
    operator: Operator
    value: str


class Requirement(msgspec.Struct, frozen=True):
    """Alternatives, in each of which all conditions must hold; without any, nothing is required."""

    alternatives: tuple[tuple[RequirementCondition, ...], ...] = ()

    def toolkit(self) -> Toolkit | None:
        """The toolkit of an image that requires this as NVIDIA's images do; None for any other.

        Those ask for the toolkit's version of CUDA, or else for one of the drivers on which forward
        compatibility is supported.
        """
        plain = [one for one in self.alternatives if _asks_for_cuda(one)]
        found = {parse_toolkit(one[0].value) for one in plain}
        toolkit = found.pop() if len(found) == 1 else None
        family = None if toolkit is None else FAMILIES.get(toolkit.major)
        if toolkit is None or family is None:
            return None
        others = [one for one in self.alternatives if one not in plain]
        return toolkit if all(_asks_for_driver(one, family.forward_from) for one in others) else None


def parse_requirement(text: str, *, field: str) -> Requirement:
    """Read one of the variables NVIDIA_REQUIRE_*. Raises InputError for what the toolkit refuses."""
    if len(text) > MAXIMUM_LENGTH:
        raise InputError(f"{len(text)} characters", field=field, expected=f"at most {MAXIMUM_LENGTH}")
    alternatives = []
    for written in text.split(" "):
        conditions = tuple(_condition(one, field) for one in written.split(",") if one)
        if conditions:
            alternatives.append(conditions)
    return Requirement(tuple(alternatives))


def _condition(text: str, field: str) -> RequirementCondition:
    found = _CONDITION.fullmatch(text)
    if found is None:
        expected = "conditions such as cuda>=12.3, separated by commas and spaces"
        raise InputError("not a condition", field=field, value=text, expected=expected)
    about, operator, value = found[1].lower(), Operator(found[2]), found[3]
    if about in _VERSIONS and not _VERSION.fullmatch(value):
        raise InputError("not a version", field=field, value=text, expected=f"{about}>=12.3, say")
    if about not in _VERSIONS and operator not in (Operator.EQUAL, Operator.NOT_EQUAL):
        raise InputError("a text is not larger or smaller", field=field, value=text, expected="= or !=")
    return RequirementCondition(about, operator, value)


def _asks_for_cuda(conditions: tuple[RequirementCondition, ...]) -> bool:
    """Whether it asks for a version of CUDA and nothing else."""
    first, *more = conditions
    return not more and first.about == CUDA and first.operator is Operator.GREATER_EQUAL


def _asks_for_driver(conditions: tuple[RequirementCondition, ...], least: int) -> bool:
    """Whether it can only hold with a driver of that branch or a newer one."""
    return any(
        one.about == DRIVER
        and one.operator in (Operator.GREATER_EQUAL, Operator.GREATER, Operator.EQUAL)
        and int(one.value.partition(".")[0]) >= least
        for one in conditions
    )
