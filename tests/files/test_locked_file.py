"""Several processes add to one file, and each of them finds all that those before it added."""

import threading
from pathlib import Path

import pytest

from gpufleet.files.files_errors import FileWriteError
from gpufleet.files.locked_file import locked_to_append
from tests.cli.test_outputs_on_a_full_disk import full_disk


def test_a_second_writer_waits_and_finds_what_the_first_one_added(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    found: list[bytes] = []

    def second() -> None:
        with locked_to_append(path) as file:
            found.append(file.beginning(100))
            file.append(b"second\n")

    writer = threading.Thread(target=second)
    with locked_to_append(path) as file:
        writer.start()
        file.append(b"first\n")
        assert not found
    writer.join()
    assert found == [b"first\n"]
    assert path.read_bytes() == b"first\nsecond\n"


@pytest.mark.parametrize("before", [b"", b"whole\n", b"whole\n" * 500_000])
def test_a_line_that_was_cut_off_is_dropped(tmp_path: Path, before: bytes) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(before + b"cut o")
    with locked_to_append(path) as file:
        file.drop_cut_off_line()
        file.append(b"next\n")
    assert path.read_bytes() == before + b"next\n"


def test_a_full_disk_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"first\n")
    with locked_to_append(path) as file, full_disk(), pytest.raises(FileWriteError) as error:
        file.append(b"a longer line\n")
    assert "no room left on the disk" in str(error.value)
    assert path.read_bytes() == b"first\n"


def test_a_new_file_that_stays_empty_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    with full_disk(), pytest.raises(FileWriteError), locked_to_append(path) as file:
        file.append(b"a longer line\n")
    assert not list(tmp_path.iterdir())
