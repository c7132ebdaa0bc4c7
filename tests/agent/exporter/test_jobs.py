"""The jobs that a batch system's prolog writes; anything else in the folder does no harm."""

import os
from pathlib import Path

from gpufleet.agent.exporter.jobs import JOBS_MAX, read_jobs


def test_a_file_for_each_card_and_instance_with_a_job_on_each_line(tmp_path: Path) -> None:
    (tmp_path / "0").write_text("4711\n4712\n")
    (tmp_path / "1.7").write_text("99\n")
    assert read_jobs(tmp_path) == {"0": ("4711", "4712"), "1.7": ("99",)}


def test_no_folder_tells_of_no_jobs(tmp_path: Path) -> None:
    assert read_jobs(tmp_path / "gone") == {}


def test_other_things_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "0").mkdir()
    (tmp_path / "readme").write_text("x\n")
    (tmp_path / "secret").write_text("password\n")
    (tmp_path / "1").symlink_to(tmp_path / "secret")
    os.mkfifo(tmp_path / "2")
    (tmp_path / "3").write_text("")
    (tmp_path / "4").write_bytes(b"\x00\x1b[2J\nok\n" + b"x" * 500 + b"\n")
    assert read_jobs(tmp_path) == {"4": ("ok",)}


def test_what_is_read_is_bounded(tmp_path: Path) -> None:
    (tmp_path / "0").write_text("".join(f"{number}\n" for number in range(100_000)))
    assert len(read_jobs(tmp_path)["0"]) == JOBS_MAX
