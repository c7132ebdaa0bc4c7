"""What goes into the image and what stays out, before anything is fetched."""

import re

import pytest

from image.debian import is_wanted
from image.dependencies import LEFT_OUT, LOCK, wanted

PIN = re.compile(r"^([A-Za-z0-9._-]+)==", flags=re.MULTILINE)


def test_the_locks_entries_are_all_there_but_those_left_out() -> None:
    lock = LOCK.read_text(encoding="utf-8")
    kept = wanted(lock)
    assert set(PIN.findall(kept)) == set(PIN.findall(lock)) - LEFT_OUT.keys()
    assert {"numba", "llvmlite", "grpcio", "msgspec"} <= set(PIN.findall(kept))
    assert kept.count("--hash=") > kept.count("==")


def test_what_is_left_out_is_in_the_lock() -> None:
    """Else the table speaks of packages that are gone."""
    assert LEFT_OUT.keys() <= set(PIN.findall(LOCK.read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("./usr/bin/python3.11", True),
        ("./usr/share/doc/libc6/copyright", True),
        ("./usr/share/doc/libc6/changelog.gz", False),
        ("./usr/share/man/man1/python3.11.1.gz", False),
        ("./usr/lib/python3.11/test/support.py", False),
        ("./usr/lib/python3.11/json/__init__.py", True),
    ],
)
def test_documentation_stays_out_and_licences_stay_in(name: str, expected: bool) -> None:
    assert is_wanted(name) is expected
