"""A folder of months has the same bytes however often its writer was killed, whatever came twice or late."""

import hashlib
import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gpufleet.files.files_errors import FileWriteError
from gpufleet.ledger.interval_log import IntervalLog, encoded
from gpufleet.ledger.month_files import MonthFiles
from gpufleet.ledger.months import begin_us, end_us, month_of
from gpufleet.ledger.open_months import SEAL_AFTER_US, OpenMonths
from gpufleet.ledger.sealed_month import read_sealed, sealed_lines
from gpufleet.ledger.versions import Followed, ObjectKind, Observation
from gpufleet.model.model_errors import InputError
from tests.cli.test_outputs_on_a_full_disk import files_below, full_disk
from tests.ledger.recording import observations

CLUSTER = "c-1"
OCTOBER, NOVEMBER = "2026-10", "2026-11"
AFTER_US = end_us(OCTOBER) + SEAL_AFTER_US
KILLED = 9
"""The exit code of a process that ended at a write, as if by SIGKILL."""


def batches(seed: int = 1, number: int = 4) -> list[IntervalLog]:
    """What a real server told, in parts, each with something that an earlier one has had too."""
    seen = observations()
    draw = random.Random(seed)
    parts: list[list[Observation]] = [seen[start::number] for start in range(number)]
    return [log_of([*part, *draw.choices(seen, k=3)]) for part in parts]


def log_of(seen: list[Observation]) -> IntervalLog:
    log = IntervalLog()
    for one in seen:
        log.take(one)
    return log


def whole_life(folder: Path, parts: list[IntervalLog]) -> None:
    """All that a writer does: October grows, November begins, October is sealed."""
    months = OpenMonths(MonthFiles(folder, CLUSTER))
    if OCTOBER not in months.store.sealed_months() or OCTOBER in months.store.open_months():
        months.begin(OCTOBER)
        for part in parts:
            months.add(part)
    months.begin(NOVEMBER)
    months.seal(AFTER_US)


def content(folder: Path) -> dict[str, str]:
    """What each file has; of an open month the set of its lines."""
    found = {}
    for path in sorted(folder.iterdir()):
        lines = path.read_bytes()
        if path.suffix == ".ledger":
            lines = b"".join(sorted(set(lines.splitlines())))
        found[path.name] = hashlib.sha256(lines).hexdigest()
    return found


WRITES = ("write", "ftruncate", "fsync", "replace", "rename", "unlink")
"""The system calls that change what is on the disk."""


@contextmanager
def killed_at(number: int) -> Iterator[None]:
    """The process ends in the middle of that write, and nothing of it is undone."""
    left = number

    def deadly(name: str) -> Callable[..., Any]:
        real = getattr(os, name)

        def call(*arguments: Any, **named: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                if name == "write":
                    real(arguments[0], bytes(arguments[1])[: len(arguments[1]) // 2])
                os._exit(KILLED)
            return real(*arguments, **named)

        return call

    for name in WRITES:
        setattr(os, name, deadly(name))
    yield


def run_until_killed(folder: Path, parts: list[IntervalLog], number: int) -> bool:
    """Whether a process of its own came to its end before that write."""
    child = os.fork()
    if child == 0:
        try:
            with killed_at(number):
                whole_life(folder, parts)
            os._exit(0)
        finally:
            os._exit(1)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in {0, KILLED}
    return code == 0


def test_killed_at_every_write_the_folder_is_the_same_in_the_end(tmp_path: Path) -> None:
    parts = batches()
    whole_life(tmp_path / "calm", parts)
    expected = content(tmp_path / "calm")
    assert list(expected) == ["2026-10.parquet", "2026-10.parquet.sha256", "2026-11.ledger"]
    number, done = 0, False
    while not done:
        folder = tmp_path / str(number)
        done = run_until_killed(folder, parts, number)
        whole_life(folder, parts)
        left = {name: found for name, found in content(folder).items() if not name.endswith(".part")}
        assert left == expected, number
        number += 1
    assert number > 20


@pytest.mark.parametrize("seed", range(10))
def test_two_writers_in_turn_doubled_and_shuffled_make_the_same_sealed_month(
    tmp_path: Path, seed: int
) -> None:
    whole_life(tmp_path / "calm", batches())
    draw = random.Random(seed)
    parts = [*batches(seed), *batches(seed + 1)]
    draw.shuffle(parts)
    first = OpenMonths(MonthFiles(tmp_path / "both", CLUSTER))
    first.begin(OCTOBER)
    second = OpenMonths(MonthFiles(tmp_path / "both", CLUSTER))
    for part in parts:
        draw.choice([first, second]).add(part)
    # The next leader reads what both have written.
    last = OpenMonths(MonthFiles(tmp_path / "both", CLUSTER))
    last.begin(NOVEMBER)
    assert last.seal(AFTER_US) == [OCTOBER]
    assert content(tmp_path / "both") == content(tmp_path / "calm")


def test_a_month_can_be_read_alone_and_has_what_lasts_from_the_one_before(tmp_path: Path) -> None:
    whole = log_of(observations())
    months = OpenMonths(MonthFiles(tmp_path, CLUSTER))
    months.begin(month_of(0))
    months.add(whole)
    months.begin(NOVEMBER)
    months.add(log_of([Followed(ObjectKind.NODE, begin_us(NOVEMBER), begin_us(NOVEMBER) + 5)]))
    alone = OpenMonths(MonthFiles(tmp_path, CLUSTER)).log
    assert alone.known_until_us() >= begin_us(NOVEMBER)
    assert {one.node_uid for one in alone.intervals().nodes} == {
        one.node_uid for one in whole.intervals().nodes
    }


def test_a_sealed_month_says_what_the_open_one_said_and_shows_a_change(tmp_path: Path) -> None:
    whole_life(tmp_path, batches())
    path = tmp_path / "2026-10.parquet"
    log, cluster = read_sealed(path)
    assert cluster == CLUSTER
    assert encoded(log.intervals()) == encoded(log_of(observations()).intervals())
    changed = bytearray(path.read_bytes())
    changed[100] ^= 1
    path.write_bytes(changed)
    with pytest.raises(InputError, match="was changed after it was sealed"):
        list(sealed_lines(path))
    path.with_name("2026-10.parquet.sha256").unlink()
    with pytest.raises(InputError, match="has no checksum beside it"):
        list(sealed_lines(path))


def test_a_month_stays_open_for_a_day(tmp_path: Path) -> None:
    months = OpenMonths(MonthFiles(tmp_path, CLUSTER))
    months.begin(OCTOBER)
    months.begin(NOVEMBER)
    assert months.seal(AFTER_US - 1) == []
    assert months.store.open_months() == [OCTOBER, NOVEMBER]
    assert months.seal(AFTER_US) == [OCTOBER]
    assert (months.store.open_months(), months.store.sealed_months()) == ([NOVEMBER], [OCTOBER])


def test_a_full_disk_is_told_and_leaves_the_month_as_it_was(tmp_path: Path) -> None:
    first, second, *_ = batches()
    months = OpenMonths(MonthFiles(tmp_path, CLUSTER))
    months.begin(OCTOBER)
    months.add(first)
    before = files_below(tmp_path)
    with full_disk(), pytest.raises(FileWriteError, match="no room left on the disk"):
        months.add(second)
    assert files_below(tmp_path) == before
    again = OpenMonths(MonthFiles(tmp_path, CLUSTER))
    assert again.add(second)


def test_files_of_another_cluster_are_refused(tmp_path: Path) -> None:
    OpenMonths(MonthFiles(tmp_path, "c-2")).begin(OCTOBER)
    with pytest.raises(InputError, match="is of another cluster"):
        OpenMonths(MonthFiles(tmp_path, CLUSTER))


def test_december_ends_with_the_year() -> None:
    assert month_of(end_us("2026-12")) == "2027-01"
    assert month_of(end_us("2026-12") - 1) == "2026-12"
