"""When work counts as idle and what is kept: read from annotations of a workload and of its namespace.

A workload's own annotation counts before its namespace's. A namespace's rule concerns notebooks and model
servers alone, since the owner of a Deployment has not asked for an end of it. A text that is no rule parks
nothing, and its owner is told. ``activity`` judges by the rule.
"""

from collections.abc import Mapping

import msgspec

from gpufleet.kube.codec.durations import read_duration
from gpufleet.kube.codec.times import microseconds
from gpufleet.model.gpu_project import MINUTE_US, PARK_AFTER_MIN_US, PARK_WARNING_MIN_US
from gpufleet.model.model_errors import InputError
from gpufleet.operator.parking.parking_keys import KEEP_UNTIL, NEVER, PARK_AFTER, PARK_WARNING

PARK_WARNING_DEFAULT_US = 15 * MINUTE_US
"""Time to see the warning and to answer it."""


class IdleRule(msgspec.Struct, frozen=True):
    """Work is warned after ``after_us`` without activity, and parked ``warning_us`` later."""

    after_us: int
    warning_us: int = PARK_WARNING_DEFAULT_US


def read_rule(own: Mapping[str, str], of_namespace: Mapping[str, str]) -> IdleRule | None:
    """The rule of a workload, None where it has none. Raises InputError, which names the annotation."""
    text = own.get(PARK_AFTER, of_namespace.get(PARK_AFTER, NEVER))
    if text == NEVER:
        return None
    after_us = _length(text, PARK_AFTER, PARK_AFTER_MIN_US)
    warning = own.get(PARK_WARNING, of_namespace.get(PARK_WARNING))
    if warning is None:
        return IdleRule(after_us)
    return IdleRule(after_us, _length(warning, PARK_WARNING, PARK_WARNING_MIN_US))


def read_keep_until(own: Mapping[str, str]) -> int:
    """Until when a workload is kept, microseconds since 1970; 0 without that. Raises InputError."""
    text = own.get(KEEP_UNTIL)
    if text is None:
        return 0
    try:
        return microseconds(text)
    except InputError as error:
        field = f"metadata.annotations[{KEEP_UNTIL}]"
        raise InputError(error.problem, field=field, value=text, expected=error.expected) from None


def _length(text: str, key: str, least_us: int) -> int:
    field = f"metadata.annotations[{key}]"
    length_us = read_duration(text, field)
    if length_us < least_us:
        expected = f"at least {least_us // MINUTE_US}m, or {NEVER} for {PARK_AFTER}"
        raise InputError("too short", field=field, value=text, expected=expected)
    return length_us
