"""The flags about automatic moves, read."""

import re

from gpufleet.kube.codec.durations import read_duration
from gpufleet.model.defragmentation import DayWindow, DefragmentationRules
from gpufleet.model.identifiers import QueueName
from gpufleet.model.model_errors import InputError

EVERY_MIN_US = 60_000_000
"""A run looks at every node: more than one a minute would only take time from decisions."""

MINUTE_US = 60_000_000
GPU_MINUTE = 60_000
"""In GPU-milliseconds, the unit in which the engine counts lost work."""

_WINDOW = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])-([01][0-9]|2[0-3]):([0-5][0-9])")


def rules_of(
    to_start: str | None,
    every: str | None,
    window: str | None,
    moves_a_run: int,
    moves_a_day: int,
    gpu_minutes_a_day: int | None,
    queues: tuple[str, ...],
) -> DefragmentationRules | None:
    """When pods are moved; None where nothing asks for it. Raises InputError for what makes no sense."""
    start_after_us = None if to_start is None else read_duration(to_start, "--defragment-to-start")
    every_us = None if every is None else read_duration(every, "--defragment-every")
    if every_us is not None and every_us < EVERY_MIN_US:
        raise InputError("too often", field="--defragment-every", value=every, expected="1m or more")
    if window is not None and every is None:
        raise InputError("nothing is done in it", field="--defragment-window", value=window)
    if start_after_us is None and every_us is None:
        return None
    return DefragmentationRules(
        start_after_us,
        every_us,
        None if window is None else window_of(window),
        moves_a_run,
        moves_a_day,
        None if gpu_minutes_a_day is None else gpu_minutes_a_day * GPU_MINUTE,
        tuple(map(QueueName, queues)),
    )


def window_of(text: str) -> DayWindow:
    """A time of the day."""
    found = _WINDOW.fullmatch(text)
    if found is None:
        expected = "HH:MM-HH:MM, as in 22:00-05:30"
        raise InputError("not a time of the day", field="--defragment-window", value=text, expected=expected)
    hours, minutes, until_hours, until_minutes = map(int, found.groups())
    return DayWindow((60 * hours + minutes) * MINUTE_US, (60 * until_hours + until_minutes) * MINUTE_US)
