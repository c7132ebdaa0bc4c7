"""The agent's checkpoint is whole and of this boot, or it is not believed."""

import errno
import hashlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.agent.device_plugin.open_call_record import VERSION, OpenCall, OpenCallRecord, State
from gpufleet.agent.state.disk import MachineDisk, replace_file
from tests.agent.node_values import BOOT

OLD = State((OpenCall("0a", ("share-1",)),))
NEW = State((OpenCall("0a", ("share-1",)), OpenCall("0b", ("share-2", "share-3"))))


class FailingDisk(MachineDisk):
    """A disk on which one step fails; a write that fails leaves half of the bytes."""

    def __init__(self, step: str, code: int) -> None:
        self._step = step
        self._code = code

    def read(self, path: Path) -> bytes:
        """As Disk."""
        self._fail("read")
        return super().read(path)

    def write(self, path: Path, data: bytes, mode: int) -> None:
        """As Disk."""
        if self._step == "write":
            super().write(path, data[: len(data) // 2], mode)
        self._fail("write")
        super().write(path, data, mode)

    def sync(self, path: Path) -> None:
        """As Disk."""
        self._fail("sync folder" if path.is_dir() else "sync")
        super().sync(path)

    def move(self, source: Path, target: Path) -> None:
        """As Disk."""
        self._fail("move")
        super().move(source, target)

    def remove(self, path: Path) -> None:
        """As Disk."""
        self._fail("remove")
        super().remove(path)

    def _fail(self, step: str) -> None:
        if step == self._step:
            raise OSError(self._code, errno.errorcode[self._code])


def saved(path: Path, state: State = NEW, boot_id: str = BOOT) -> Path:
    OpenCallRecord(path, boot_id).save(state)
    return path


def test_what_was_saved_is_loaded_and_readable_by_us_alone(tmp_path: Path) -> None:
    path = saved(tmp_path / "agent" / "checkpoint.json")
    loaded = OpenCallRecord(path, BOOT).load()
    assert (loaded.state, loaded.problem) == (NEW, "")
    assert path.stat().st_mode & 0o777 == 0o600


def test_without_a_file_nothing_is_known_and_nothing_is_wrong(tmp_path: Path) -> None:
    loaded = OpenCallRecord(tmp_path / "checkpoint.json", BOOT).load()
    assert (loaded.state, loaded.problem) == (State(), "")


def test_another_boot_voids_it(tmp_path: Path) -> None:
    loaded = OpenCallRecord(saved(tmp_path / "c", boot_id="boot-0"), BOOT).load()
    assert loaded.state == State()
    assert "earlier boot" in loaded.problem


@pytest.mark.parametrize("version", [VERSION - 1, VERSION + 1])
def test_an_older_or_newer_version_is_not_guessed_at(tmp_path: Path, version: int) -> None:
    path = saved(tmp_path / "c")
    data = json.dumps({"version": version, "boot_id": BOOT, "state": {"calls": []}, "more": 1})
    digest = hashlib.sha256(data.encode()).hexdigest()
    path.write_text(f'{{"sha256": "{digest}", "data": {data}}}', encoding="utf-8")
    loaded = OpenCallRecord(path, BOOT).load()
    assert f"of version {version}" in loaded.problem


@given(st.data())
def test_a_file_that_was_cut_or_changed_anywhere_is_not_believed(data: st.DataObject) -> None:
    whole = FILE
    at = data.draw(st.integers(0, len(whole) - 1))
    if data.draw(st.booleans()):
        broken = whole[:at]
    else:
        broken = whole[:at] + bytes([whole[at] ^ (1 << data.draw(st.integers(0, 7)))]) + whole[at + 1 :]
    loaded = OpenCallRecord(Path("unused"), BOOT)._decoded(broken)
    assert loaded.state == State()
    assert loaded.problem


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("step", ["write", "sync", "move", "sync folder"])
def test_a_write_that_fails_at_any_step_leaves_the_old_or_the_new_whole(
    tmp_path: Path, step: str, code: int
) -> None:
    path = saved(tmp_path / "checkpoint.json", OLD)
    checkpoint = OpenCallRecord(path, BOOT, FailingDisk(step, code))
    checkpoint.save(NEW)
    assert "not written" in checkpoint.problem
    loaded = OpenCallRecord(path, BOOT).load()
    assert loaded.state == (NEW if step == "sync folder" else OLD)
    assert not loaded.problem
    assert [one.name for one in tmp_path.iterdir()] == ["checkpoint.json"]


def test_a_disk_that_works_again_is_written_again(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.json"
    disk = FailingDisk("move", errno.ENOSPC)
    checkpoint = OpenCallRecord(path, BOOT, disk)
    checkpoint.save(NEW)
    disk._step = ""
    checkpoint.save(NEW)
    assert not checkpoint.problem
    assert OpenCallRecord(path, BOOT).load().state == NEW


def test_a_file_that_cannot_be_read_is_not_believed(tmp_path: Path) -> None:
    loaded = OpenCallRecord(saved(tmp_path / "c"), BOOT, FailingDisk("read", errno.EIO)).load()
    assert "cannot be read" in loaded.problem


def test_what_cannot_even_be_tidied_up_is_the_first_failure(tmp_path: Path) -> None:
    class Worse(FailingDisk):
        """Nothing works."""

        def remove(self, path: Path) -> None:
            """As Disk."""
            raise OSError(errno.EROFS, f"read-only: {path.name}")

    with pytest.raises(OSError, match="EIO"):
        replace_file(Worse("sync", errno.EIO), tmp_path / "file", b"data")


def _bytes() -> bytes:
    found: list[bytes] = []

    class RecordingRecord(MachineDisk):
        """Remembers what is written."""

        def write(self, _: Path, data: bytes, __: int) -> None:
            """As Disk."""
            found.append(data)

        def sync(self, path: Path) -> None:
            """As Disk."""

        def move(self, source: Path, target: Path) -> None:
            """As Disk."""

    OpenCallRecord(Path("unused"), BOOT, RecordingRecord()).save(NEW)
    return found[0]


FILE = _bytes()
