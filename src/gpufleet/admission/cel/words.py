"""Small pieces of CEL: literals, and what occurs in many expressions.

Each function gives a text that is an expression by itself, in brackets where it needs them. Names in it are
the caller's: ``c`` is a container and ``p`` a pod as ``cel.pods`` describes them.
"""

import re
from collections.abc import Iterable

import msgspec

from gpufleet.kube.meanings.gpu_resources import UNITS, ResourceUnit
from gpufleet.model.resource_names import MIG_PREFIX


def literal(value: str) -> str:
    """A text: JSON's escapes are CEL's too."""
    return msgspec.json.encode(value).decode()


def literals(values: Iterable[str]) -> str:
    """A list of texts, in order, so that the same data gives the same expression."""
    return f"[{', '.join(map(literal, sorted(values)))}]"


def found_in(text: str, pattern: re.Pattern[str]) -> str:
    """Whether the pattern is somewhere in the text."""
    return f"{text}.matches({literal(pattern.pattern)})"


def is_whole_match(text: str, pattern: re.Pattern[str]) -> str:
    """Whether the whole text is of this pattern."""
    return f"{text}.matches({literal(f'^(?:{pattern.pattern})$')})"


def begins_with(text: str, pattern: re.Pattern[str]) -> str:
    """Whether the text begins with this pattern."""
    return f"{text}.matches({literal(f'^(?:{pattern.pattern})')})"


def is_gpu(name: str) -> str:
    """Whether a resource of this name runs a container on a GPU."""
    return f"({name} in {literals(UNITS)} || {name}.startsWith({literal(MIG_PREFIX)}))"


def is_device(name: str) -> str:
    """Whether units of this resource are counted as devices."""
    devices = [one for one, unit in UNITS.items() if unit is not ResourceUnit.MEASURE]
    return f"({name} in {literals(devices)} || {name}.startsWith({literal(MIG_PREFIX)}))"


def amount(value: str) -> str:
    """An amount as a text; empty where there is none."""
    return f"({value} == null ? '' : string({value}))"


def container_words(container: str = "c") -> str:
    """How a finding names a container."""
    return f"'container ' + string({container}.source.?name.orValue(''))"


def uses_gpu(pod: str = "p") -> str:
    """Whether a pod asks for a GPU, or runs what computes on one."""
    return f"({pod}.asks || {pod}.containers.exists(c, c.isForGpus))"


def any_of(conditions: Iterable[str]) -> str:
    """Whether one of these holds."""
    return f"({' || '.join(conditions)})"
