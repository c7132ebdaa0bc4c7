"""What the settings of a rollout, and the periods of MIG layouts, mean as a FleetPolicy says them.

Whether a calendar knows the times of a window is checked by ``operator.fleet_state``, which has the rules of
cron. ``fleet_policies`` reads the rest of the policy.
"""

import re

import msgspec

from gpufleet.kube.codec.durations import read_duration
from gpufleet.kube.codec.field_path import inside
from gpufleet.kube.codec.written_words import check_length
from gpufleet.kube.objects import fleet_policies as wire
from gpufleet.model.mig_period import MigPeriod
from gpufleet.model.model_errors import InputError
from gpufleet.model.rollout_settings import NodeCount, RolloutSettings, Window

WINDOWS_MAX = 16
"""As in the definition of FleetPolicy."""

US_PER_S = 10**6
_PERCENT = re.compile(r"([0-9]{1,3})%")


def read_rollout_settings(written: wire.RolloutSpec) -> RolloutSettings:
    """The settings. Raises InputError, naming the field, for what cannot be."""
    with inside("rollout"):
        if len(written.windows) > WINDOWS_MAX:
            problem = f"{len(written.windows)} entries"
            raise InputError(problem, field="windows", expected=f"at most {WINDOWS_MAX}")
        return RolloutSettings(
            canaries=written.canaries,
            nodes_at_once=_count(written.max_parallel, "maxParallel"),
            failures_most=_count(written.max_failed, "maxFailed"),
            soak_s=_seconds(written.soak, "soak"),
            windows=tuple(_window(position, one) for position, one in enumerate(written.windows)),
            drain_s=_seconds(written.drain_timeout, "drainTimeout"),
            checkpoint_s=_seconds(written.checkpoint_timeout, "checkpointTimeout"),
            change_s=_seconds(written.change_timeout, "changeTimeout"),
            validation_s=_seconds(written.validation_timeout, "validationTimeout"),
            is_paused=written.paused,
            place_s=_seconds_if_any(written.place_timeout, "placeTimeout"),
        )


def _count(written: int | str, field: str) -> NodeCount:
    with inside(field):
        if isinstance(written, int):
            return NodeCount(written)
        found = _PERCENT.fullmatch(written)
        if found is None:
            expected = "a whole number of nodes, or a percentage from 0% to 100%"
            raise InputError("not a number of nodes", value=written, expected=expected)
        return NodeCount(int(found[1]), is_percent=True)


def _seconds(written: str, field: str) -> int:
    """Whole seconds: a rollout counts in no smaller unit."""
    length_us = read_duration(written, field)
    if length_us % US_PER_S:
        raise InputError("parts of a second", field=field, value=written, expected="whole seconds")
    return length_us // US_PER_S


def _seconds_if_any(written: str | None, field: str) -> int | None:
    return None if written is None else _seconds(written, field)


def _window(position: int, written: wire.WindowSpec) -> Window:
    with inside(f"windows[{position}]"):
        return Window(written.schedule, _seconds(written.duration, "duration"), written.time_zone)


def read_mig_periods(written: tuple[wire.MigPeriodSpec, ...]) -> tuple[MigPeriod, ...]:
    """The times at which cards have another layout. Raises InputError, naming the field."""
    check_length(len(written), WINDOWS_MAX, "migPeriods")
    found = []
    for position, one in enumerate(written):
        with inside(f"migPeriods[{position}]"):
            window = Window(one.schedule, _seconds(one.duration, "duration"), one.time_zone)
            found.append(MigPeriod(window, one.instances, _seconds(one.notice, "notice")))
    return tuple(found)


def rollout_status_patch(status: wire.RolloutStatus | None) -> dict[str, object]:
    """The merge patch of the part of a status that tells of a rollout; None takes it off."""
    return {"status": {"rollout": None if status is None else msgspec.to_builtins(status)}}
