"""A result takes its place whole or not at all, and nothing is left beside it."""

import errno
import os
import resource
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpufleet.files.atomic_write import atomic_write
from gpufleet.files.files_errors import FileWriteError

TEXT = "pod,node\r\nµ,1\n"


@pytest.fixture
def small_files() -> Iterator[None]:
    """A limit on the size of files, which fails as a full disk does."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def write(path: Path | str, text: str = TEXT) -> None:
    with atomic_write(path) as file:
        file.write(text)


def write_half(path: Path, trouble: type[BaseException]) -> None:
    with atomic_write(path) as file:
        file.write("half of the new")
        raise trouble


def test_new_file_is_written_as_given(tmp_path: Path) -> None:
    write(tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_bytes() == TEXT.encode()
    assert [path.name for path in tmp_path.iterdir()] == ["out.csv"]


def test_new_file_has_the_usual_permissions_and_a_replaced_one_keeps_its_own(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    before = os.umask(0o027)
    try:
        write(path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    path.chmod(0o604)
    write(path, "new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o604


def test_old_file_stays_until_the_new_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    write(path, "old")
    with atomic_write(path) as file:
        file.write("new")
        file.flush()
        assert path.read_text(encoding="utf-8") == "old"
    assert path.read_text(encoding="utf-8") == "new"


@pytest.mark.parametrize("trouble", [ValueError, KeyboardInterrupt, SystemExit, OSError])
def test_trouble_in_the_block_leaves_nothing_and_passes_on(
    tmp_path: Path, trouble: type[BaseException]
) -> None:
    path = tmp_path / "out.csv"
    write(path, "old")
    with pytest.raises(trouble):
        write_half(path, trouble)
    assert path.read_text(encoding="utf-8") == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["out.csv"]


@pytest.mark.usefixtures("small_files")
def test_full_disk_is_said_in_words_and_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    write(path, "old")
    with pytest.raises(FileWriteError, match=r"out\.csv: no room left on the disk; free some space"):
        write(path, "x" * 10_000)
    assert path.read_text(encoding="utf-8") == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["out.csv"]


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (errno.EACCES, "this user may not write in"),
        (errno.EROFS, "this user may not write in"),
        (errno.ENOSPC, "no room left"),
        (errno.ENAMETOOLONG, r"could not be written \(File name too long\)"),
    ],
)
def test_file_that_cannot_be_created(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int, words: str
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(FileWriteError, match=words):
        write(tmp_path / "out.csv")


def test_places_that_are_no_file(tmp_path: Path) -> None:
    with pytest.raises(FileWriteError, match=r"there is no folder .*nowhere; expected .*: create it"):
        write(tmp_path / "nowhere" / "out.csv")
    with pytest.raises(FileWriteError, match="is a folder; expected a file: name one inside it"):
        write(tmp_path)
    with pytest.raises(FileWriteError, match="is no regular file"):
        write("/dev/null")
    with pytest.raises(FileWriteError, match="File name too long"):
        write(tmp_path / ("x" * 300))


def test_link_is_followed(tmp_path: Path) -> None:
    real = tmp_path / "real.csv"
    link = tmp_path / "link.csv"
    link.symlink_to(real)
    write(link)
    assert link.is_symlink()
    assert real.read_bytes() == TEXT.encode()


def write_private(path: Path, text: str) -> None:
    with atomic_write(path, is_private=True) as file:
        file.write(text)


def test_a_private_file_is_its_owners_alone_also_where_one_was_there(tmp_path: Path) -> None:
    path = tmp_path / "url"
    path.write_text("old")
    path.chmod(0o644)
    write_private(path, "secret")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_text() == "secret"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_in_the_place_of_a_private_file_is_replaced_and_not_followed(tmp_path: Path) -> None:
    other, path = tmp_path / "other", tmp_path / "url"
    other.write_text("mine")
    path.symlink_to(other)
    write_private(path, "secret")
    assert other.read_text() == "mine"
    assert not path.is_symlink()
