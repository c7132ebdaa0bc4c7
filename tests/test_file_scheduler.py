"""Each file of tests is run by one worker, and the dearest files begin first."""

import os
import subprocess
import sys
from pathlib import Path

from tests.conventions.project import ROOT
from tests.file_scheduler import DEAREST, dearest_first, length_of_file

CONFTEST = """
from tests.file_scheduler import FileScheduler

def pytest_xdist_make_scheduler(config, log):
    return FileScheduler(config, log)
"""
A_FILE = """
import os
import pathlib
import pytest

STARTS = pathlib.Path(__file__).parent / "starts"

@pytest.fixture(scope="module")
def server():
    with STARTS.open("a") as file:
        file.write(f"{__name__}\\n")

@pytest.mark.parametrize("number", range(COUNT))
def test_it(server, number):
    pass
"""


def test_the_dearest_files_are_there() -> None:
    assert [name for name in DEAREST if not (ROOT / name).is_file()] == []
    assert len(set(DEAREST)) == len(DEAREST)


def test_the_dearest_files_come_first_and_others_in_their_order() -> None:
    files = ["a", "a", DEAREST[1], "b", DEAREST[0], DEAREST[1]]
    assert dearest_first(files) == [4, 2, 5, 0, 1, 3]


def test_a_file_ends_where_the_next_begins() -> None:
    assert length_of_file(["a.py::x", "a.py::y[::]", "b.py::x", "a.py::z"]) == 2
    assert length_of_file(["a.py::C::x"]) == 1


def test_the_files_of_the_conventions_are_run_by_one_worker() -> None:
    folder = "tests/conventions"
    assert length_of_file([f"{folder}/test_a.py::x", f"{folder}/test_b.py::y", "tests/cli/test_c.py::z"]) == 2


def test_a_fixture_of_a_file_is_made_once_however_many_workers_there_are(tmp_path: Path) -> None:
    """Files of one test and of many, on three workers."""
    (tmp_path / "conftest.py").write_text(CONFTEST)
    counts = (1, 40, 1, 2, 3, 1, 9, 1)
    for number, count in enumerate(counts):
        (tmp_path / f"test_{number}.py").write_text(A_FILE.replace("COUNT", str(count)))
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-c", os.devnull, "--rootdir", str(tmp_path), "-n3", str(tmp_path)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert f"{sum(counts)} passed" in ended.stdout, ended.stdout + ended.stderr
    started = (tmp_path / "starts").read_text().split()
    assert sorted(started) == [f"test_{number}" for number in range(len(counts))]
