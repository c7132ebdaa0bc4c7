"""The terms of a grant as text, and back: what a pod was bound with.

They are read as strictly as the devices beside them: an unknown field, a number out of range or a text that
is too long refuses the whole grant.
"""

import msgspec

from gpufleet.kube.codec.durations import MAXIMUM_US
from gpufleet.kube.codec.field_path import inside
from gpufleet.kube.objects.structure import Structure
from gpufleet.model.backfill_promise import BackfillPromise
from gpufleet.model.bound_terms import NEVER_STALE, BoundGang, BoundTerms
from gpufleet.model.gang import Gang, Slices
from gpufleet.model.identifiers import GangName, GpuModelName, QueueName, TopologyLevelName
from gpufleet.model.model_errors import InputError

# Far more than any real grant has; a number or a text beyond is damage and not data.
MOMENT_MAX_US = 2**60
PRIORITY_MAX = 2**31 - 1
MEMBERS_MAX = 2**31 - 1
ENTRIES_MAX = 1000
TEXT_MAX = 1024


class WrittenPromise(Structure, frozen=True, forbid_unknown_fields=True):
    """The promise with which the pod was let in behind a reservation."""

    holder: str
    within_us: int | None = None


class WrittenSlices(Structure, frozen=True, forbid_unknown_fields=True):
    """Members that belong together."""

    level: str
    size: int


class WrittenGang(Structure, frozen=True, forbid_unknown_fields=True):
    """A gang as its member was bound with it."""

    name: str
    min_members: int
    role: str = ""
    role_minimums: tuple[tuple[str, int], ...] = ()
    required_level: str | None = None
    preferred_level: str | None = None
    slices: tuple[WrittenSlices, ...] = ()
    slices_preferred: bool = False
    balanced: bool = False
    model_order: tuple[str, ...] = ()
    created_at_us: int = 0
    stale_after_us: int | None = None
    may_be_deleted: bool = False


class WrittenTerms(Structure, frozen=True, forbid_unknown_fields=True):
    """What a pod was bound with."""

    queue: str
    at_us: int
    preemptible: bool
    priority: int = 0
    replaceable: bool = True
    run_time_us: int | None = None
    run_time_max_us: int | None = None
    interruptible: bool = False
    checkpointed_at_us: int | None = None
    # Grants of running pods say ``seats``.
    promises: tuple[WrittenPromise, ...] = msgspec.field(default=(), name="seats")
    gang: WrittenGang | None = None


def written_terms(terms: BoundTerms) -> WrittenTerms:
    """The terms as they stand in a grant."""
    return WrittenTerms(
        queue=terms.queue,
        at_us=terms.at_us,
        priority=terms.priority,
        preemptible=terms.preemptible,
        replaceable=terms.replaceable,
        run_time_us=terms.run_time_us,
        run_time_max_us=terms.run_time_max_us,
        interruptible=terms.interruptible,
        checkpointed_at_us=terms.checkpointed_at_us,
        promises=tuple(WrittenPromise(one.holder, one.within_us) for one in terms.promises),
        gang=None if terms.gang is None else _written_gang(terms.gang),
    )


def _written_gang(bound: BoundGang) -> WrittenGang:
    gang = bound.gang
    return WrittenGang(
        name=gang.name,
        min_members=gang.min_members,
        role=bound.role,
        role_minimums=gang.role_minimums,
        required_level=gang.required_level,
        preferred_level=gang.preferred_level,
        slices=tuple(WrittenSlices(one.level, one.size) for one in gang.slices),
        slices_preferred=gang.slices_preferred,
        balanced=gang.balanced,
        model_order=gang.model_order,
        created_at_us=gang.created_at_us,
        stale_after_us=bound.stale_after_us,
        may_be_deleted=bound.may_be_deleted,
    )


def read_terms(written: WrittenTerms) -> BoundTerms:
    """What a pod was bound with. Raises InputError, naming the field."""
    with inside("terms"):
        _check_text(written.queue, "queue")
        _check(written.at_us, 0, MOMENT_MAX_US, "atUs")
        _check(written.priority, -PRIORITY_MAX - 1, PRIORITY_MAX, "priority")
        _check(written.run_time_us, 1, MAXIMUM_US, "runTimeUs")
        _check(written.run_time_max_us, 1, MAXIMUM_US, "runTimeMaxUs")
        _check(written.checkpointed_at_us, 0, MOMENT_MAX_US, "checkpointedAtUs")
        _check(len(written.promises), 0, ENTRIES_MAX, "seats")
        for promise in written.promises:
            with inside("seats"):
                _check_text(promise.holder, "holder")
                _check(promise.within_us, 0, MAXIMUM_US, "withinUs")
        queue = QueueName(written.queue)
        return BoundTerms(
            queue=queue,
            priority=written.priority,
            at_us=written.at_us,
            preemptible=written.preemptible,
            replaceable=written.replaceable,
            run_time_us=written.run_time_us,
            run_time_max_us=written.run_time_max_us,
            interruptible=written.interruptible,
            checkpointed_at_us=written.checkpointed_at_us,
            promises=tuple(BackfillPromise(one.holder, one.within_us) for one in written.promises),
            gang=None if written.gang is None else _read_gang(written.gang, queue, written.priority),
        )


def _read_gang(written: WrittenGang, queue: QueueName, priority: int) -> BoundGang:
    with inside("gang"):
        _check_text(written.name, "name")
        _check(written.min_members, 1, MEMBERS_MAX, "minMembers")
        _check(written.created_at_us, 0, MOMENT_MAX_US, "createdAtUs")
        _check(written.stale_after_us, NEVER_STALE, MAXIMUM_US, "staleAfterUs")
        for entries in (written.role_minimums, written.slices, written.model_order):
            _check(len(entries), 0, ENTRIES_MAX, "entries")
        for _, count in written.role_minimums:
            _check(count, 1, MEMBERS_MAX, "roleMinimums")
        for one in written.slices:
            _check(one.size, 1, MEMBERS_MAX, "slices")
    gang = Gang(
        name=GangName(written.name),
        min_members=written.min_members,
        queue=queue,
        priority=priority,
        required_level=_level(written.required_level),
        created_at_us=written.created_at_us,
        role_minimums=written.role_minimums,
        preferred_level=_level(written.preferred_level),
        slices=tuple(Slices(TopologyLevelName(one.level), one.size) for one in written.slices),
        slices_preferred=written.slices_preferred,
        balanced=written.balanced,
        model_order=tuple(map(GpuModelName, written.model_order)),
    )
    return BoundGang(gang, written.role, written.stale_after_us, written.may_be_deleted)


def _level(name: str | None) -> TopologyLevelName | None:
    return None if name is None else TopologyLevelName(name)


def _check_text(text: str, field: str) -> None:
    if not 0 < len(text) <= TEXT_MAX:
        raise InputError("not a name", field=field, value=text[:80], expected=f"1 to {TEXT_MAX} characters")


def _check(number: int | None, least: int, most: int, field: str) -> None:
    if number is not None and not least <= number <= most:
        raise InputError("out of range", field=field, value=number, expected=f"{least} to {most}")
