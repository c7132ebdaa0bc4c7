"""Paths that lead to no file are refused at once, and no more is read of a file than expected."""

import io
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from gpufleet.files.regular import (
    UnfitFileError,
    open_regular,
    read_kernel_file,
    read_regular,
    read_standard_input,
    size_words,
)

MOST = 1000


def pipe(folder: Path) -> Path:
    os.mkfifo(folder / "a pipe")
    return folder / "a pipe"


def unix_socket(folder: Path) -> Path:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "s"))
    return folder / "s"


def link_to_device(folder: Path) -> Path:
    (folder / "link.yaml").symlink_to("/dev/zero")
    return folder / "link.yaml"


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (pipe, "is a pipe"),
        (unix_socket, "is a socket"),
        (lambda folder: folder, "is a folder"),
        (lambda _: Path("/dev/zero"), "is a device"),
        (lambda _: Path("/dev/urandom"), "is a device"),
        (link_to_device, "is a device"),
        (lambda _: Path("/proc/self/environ"), "is a file of the kernel"),
        (lambda _: Path("/proc/self/maps"), "is a file of the kernel"),
    ],
)
def test_what_is_no_file_is_refused_by_its_name(
    tmp_path: Path, made: Callable[[Path], Path], words: str
) -> None:
    path = made(tmp_path)
    with pytest.raises(UnfitFileError) as refused:
        read_regular(path, MOST, field="--cluster")
    assert words in str(refused.value)
    assert str(path) in str(refused.value)
    assert "--cluster" in str(refused.value)
    assert "expected a regular file" in str(refused.value)


def test_a_pipe_without_a_writer_is_not_waited_for_even_when_it_takes_the_files_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = pipe(tmp_path)
    (tmp_path / "file").write_text("text", encoding="utf-8")
    before = os.stat(tmp_path / "file")  # noqa: PTH116  what the module calls
    with monkeypatch.context() as patched:
        patched.setattr(os, "stat", lambda *_, **__: before)
        with pytest.raises(UnfitFileError) as refused:
            open_regular(path)
    assert "is a pipe" in str(refused.value)


def test_a_file_is_read_whole_up_to_the_limit_and_refused_beyond(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * MOST)
    assert read_regular(path, MOST) == b"x" * MOST
    path.write_bytes(b"x" * (MOST + 1))
    with pytest.raises(UnfitFileError, match="is larger than 1000 bytes; expected at most 1000 bytes"):
        read_regular(path, MOST)


def test_a_file_with_a_hole_of_terabytes_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "sparse"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(UnfitFileError, match="larger than 64 MiB"):
        read_regular(path, 64 << 20)


def test_an_empty_file_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    assert read_regular(tmp_path / "empty", MOST) == b""


def test_a_file_that_is_not_there_is_the_error_that_open_raises(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_regular(tmp_path / "none", MOST)


def test_standard_input_has_a_limit_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"x" * MOST)))
    assert len(read_standard_input(MOST)) == MOST
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"x" * (MOST + 1))))
    with pytest.raises(UnfitFileError, match="standard input"):
        read_standard_input(MOST)


def test_files_of_the_kernel_are_read_no_further_than_asked() -> None:
    assert read_kernel_file("/dev/zero", 5) == bytes(5)
    assert read_kernel_file("/proc/self/stat", 4096).startswith(str(os.getpid()).encode())


def test_settings_of_the_kernel_are_read_though_they_refuse_a_large_buffer() -> None:
    assert read_kernel_file("/proc/sys/kernel/random/boot_id").strip()


@pytest.mark.parametrize(
    ("count", "words"), [(12, "12 bytes"), (64 << 20, "64 MiB"), (1 << 30, "1 GiB"), (3 << 39, "1.5 TiB")]
)
def test_sizes_are_said_as_people_say_them(count: int, words: str) -> None:
    assert size_words(count) == words
