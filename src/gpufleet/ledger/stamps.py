"""The moments that the API server wrote into an object, and the latest of them: the moment of a version.

All are of one clock, the server's, but for those of a kubelet in the state of containers. They have whole
seconds.
"""

from collections.abc import Iterable

from gpufleet.kube.codec.times import microseconds
from gpufleet.ledger.stamped_objects import StampedCondition, StampedContainerStatus, StampedMetadata

US_PER_S = 1_000_000
"""Deletion grace periods are whole seconds."""

DAY_US = 86_400 * US_PER_S
"""Days are of UTC, which the stamps count without leap seconds."""


def moment(stamp: str | None) -> int | None:
    """A stamp as microseconds since 1970; None where it is not set or says 1970."""
    return microseconds(stamp) or None


def deletion_us(metadata: StampedMetadata) -> int | None:
    """When the deletion was asked for: the server writes when the time to end is over."""
    at_us = moment(metadata.deletion_timestamp)
    if at_us is None:
        return None
    return at_us - US_PER_S * (metadata.deletion_grace_period_seconds or 0)


def metadata_moments(metadata: StampedMetadata) -> list[int | None]:
    """When the object was made, changed and asked to go."""
    changed = [moment(one.time) for one in metadata.managed_fields]
    return [moment(metadata.creation_timestamp), deletion_us(metadata), *changed]


def condition_moments(conditions: Iterable[StampedCondition]) -> list[int | None]:
    """When conditions turned."""
    return [moment(one.last_transition_time) for one in conditions]


def container_moments(statuses: Iterable[StampedContainerStatus]) -> list[int | None]:
    """When runs of containers began and ended."""
    runs = [run for status in statuses for run in status.runs]
    return [moment(stamp) for run in runs for stamp in (run.started_at, run.finished_at)]


def latest(*moments: Iterable[int | None]) -> int:
    """The latest moment that is known; 0 where none is."""
    return max((one for some in moments for one in some if one is not None), default=0)
