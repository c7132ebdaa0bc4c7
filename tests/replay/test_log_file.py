"""A log is written whole or not at all, and equal runs give equal files."""

import gzip
from pathlib import Path

import pytest

from gpufleet.files.files_errors import FileWriteError
from gpufleet.replay.log_file import log_file


def test_lines_go_to_the_file(tmp_path: Path) -> None:
    with log_file(tmp_path / "run.log") as log:
        log.write(b"one\n")
        log.write("zwölf\n".encode())
    assert (tmp_path / "run.log").read_bytes() == "one\nzwölf\n".encode()


def test_gz_in_the_name_packs_it_the_same_way_every_time(tmp_path: Path) -> None:
    for name in ("a.gz", "b.gz"):
        with log_file(tmp_path / name) as log:
            log.write(b"line\n" * 1000)
    packed = (tmp_path / "a.gz").read_bytes()
    assert gzip.decompress(packed) == b"line\n" * 1000
    assert packed == (tmp_path / "b.gz").read_bytes()


def write_half(path: Path) -> None:
    with log_file(path) as log:
        log.write(b"half")
        raise KeyboardInterrupt


@pytest.mark.parametrize("name", ["run.log", "run.log.gz"])
def test_what_breaks_off_leaves_the_old_log_and_nothing_beside(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt):
        write_half(tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_bytes() == b"old"


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(FileWriteError, match="there is no folder"), log_file(tmp_path / "no" / "run.log"):
        pass
