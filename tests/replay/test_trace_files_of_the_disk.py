"""Paths that are no readable file, and names that hold traps."""

import errno
import io
import os
from pathlib import Path

import pytest

from gpufleet.replay.replay_errors import FileReadError, TraceError
from gpufleet.replay.trace_tasks import read_tasks
from tests.replay.trace_files import MODELS, table


def refusal(path: Path | str) -> str:
    with pytest.raises(TraceError) as caught:
        read_tasks(path, MODELS)
    return str(caught.value)


def test_missing_file_names_the_nearest_neighbour(tmp_path: Path) -> None:
    table(tmp_path, name="my_tasks.csv")
    assert "there is no such file; expected perhaps my_tasks.csv" in refusal(tmp_path / "my-tasks.csv")
    assert "the path of a CSV or Parquet file" in refusal(tmp_path / "other")
    assert "is not there either" in refusal(tmp_path / "nowhere" / "tasks.csv")


def test_folder_is_no_file(tmp_path: Path) -> None:
    assert "is a folder" in refusal(tmp_path)


def test_path_may_hold_anything(tmp_path: Path) -> None:
    assert "\n" not in refusal(tmp_path / "two\nlines.csv")
    assert "cannot be opened" in refusal("nul\0.csv")


def test_unreadable_file_is_said_to_be_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = table(tmp_path, "a,1,1,0,0")

    def refuse(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(io, "FileIO", refuse)
    assert "may not be read by this user" in refusal(path)


def test_disk_that_fails_in_the_middle_is_the_world_not_the_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = table(tmp_path, *(f"task-{number},1,1,0,0" for number in range(10_000)))

    class FailingFile(io.FileIO):
        def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
            if self.tell() > 0:
                raise OSError(errno.EIO, "Input/output error")
            return super().readinto(buffer)

    monkeypatch.setattr(io, "FileIO", FailingFile)
    with pytest.raises(FileReadError, match=r"list\.csv: reading failed .* try again"):
        read_tasks(path, MODELS)


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    assert "is a pipe; expected a CSV or Parquet file; what a pipe delivers is written into one" in refusal(
        path
    )


def test_a_file_of_the_kernel_is_no_table() -> None:
    assert "is a file of the kernel" in refusal(Path("/proc/self/environ"))
