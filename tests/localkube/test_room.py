"""A disk without room for a cluster is told before anything is started, with the folder and the way out."""

import os
from pathlib import Path

import pytest

from gpufleet.files.files_errors import FileWriteError
from gpufleet.localkube.processes.room import ROOM_MIB, check_room
from gpufleet.localkube.up import ClusterRequest, up
from gpufleet.progress.reporting import Silent

BLOCK_BYTES = 4096


def disk_with(monkeypatch: pytest.MonkeyPatch, left_mib: int) -> None:
    """Every disk has so much left."""
    blocks = left_mib * (1 << 20) // BLOCK_BYTES
    answer = os.statvfs_result((BLOCK_BYTES, BLOCK_BYTES, blocks * 2, blocks, blocks, 0, 0, 0, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda _: answer)


def test_enough_room_is_no_matter(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    disk_with(monkeypatch, ROOM_MIB)
    check_room(tmp_path / "not" / "there" / "yet")


def test_a_full_disk_is_told_before_anything_is_looked_for_or_started(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    disk_with(monkeypatch, 3)
    with pytest.raises(FileWriteError, match=r"clusters/new: 3 MiB are left .*XDG_STATE_HOME"):
        up(ClusterRequest("new", "1.37.0", ()), Silent())
    assert list(tmp_path.iterdir()) == []
