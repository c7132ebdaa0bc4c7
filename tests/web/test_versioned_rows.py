"""Rows with versions: what a stream is told since, whatever came between."""

from hypothesis import given
from hypothesis import strategies as st

from gpufleet.web import versioned_rows
from gpufleet.web.versioned_rows import VersionedRows

KEYS = st.sampled_from(["a", "b", "c", "d"])
CHANGES = st.lists(st.tuples(KEYS, st.one_of(st.none(), st.binary(min_size=1, max_size=1))), max_size=30)


def changed(rows: VersionedRows, truth: dict[str, bytes], key: str, row: bytes | None, version: int) -> None:
    if row is None:
        rows.remove(key, version)
        truth.pop(key, None)
    else:
        rows.put(key, row, version)
        truth[key] = row


@given(CHANGES, CHANGES)
def test_what_was_told_before_and_what_came_since_are_all_rows(
    before: list[tuple[str, bytes | None]], after: list[tuple[str, bytes | None]]
) -> None:
    rows, truth, version = VersionedRows(), dict[str, bytes](), 0
    for version, (key, row) in enumerate(before, start=1):
        changed(rows, truth, key, row, version)
    told, seen = version, dict(truth)
    for number, (key, row) in enumerate(after, start=told + 1):
        changed(rows, truth, key, row, number)
    since = rows.since(told)
    assert since is not None
    for key in since.removed:
        seen.pop(key, None)
    assert {**seen, **since.changed} == truth
    assert sorted(rows.whole()) == sorted(truth.values())


def test_a_row_that_is_set_again_as_it_was_is_no_change() -> None:
    rows = VersionedRows()
    assert rows.put("a", b"1", 1)
    assert not rows.put("a", b"1", 2)
    assert rows.since(1) == ({}, ())


def test_who_is_further_behind_than_rows_that_are_gone_are_remembered_begins_anew() -> None:
    rows = VersionedRows()
    for number in range(1, versioned_rows.GONE_MAX + 3):
        rows.put(str(number), b"1", number)
        rows.remove(str(number), number)
    assert rows.since(1) is None
    assert rows.since(versioned_rows.GONE_MAX) is not None
