"""A gzip gives back what was packed, and stops before it gives back more than anyone packs."""

import gzip
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.files.lines import BoundedLines, LineLimits
from gpufleet.files.regular import UnfitFileError
from gpufleet.files.unpacking import GzipError, UnpackingLimits, UnpackingStream, unpacked

MEBIBYTE = 1 << 20
AMPLE = UnpackingLimits(total_bytes=64 * MEBIBYTE)
NARROW = UnpackingLimits(total_bytes=64 * MEBIBYTE, inflation=100, grace_bytes=1000)


@given(st.lists(st.binary(max_size=3000), min_size=1, max_size=4), st.integers(0, 40))
def test_what_was_packed_comes_back_in_one_part_or_several(parts: list[bytes], padding: int) -> None:
    packed = b"".join(gzip.compress(part, mtime=0) for part in parts) + bytes(padding)
    assert unpacked(packed, "file", AMPLE) == b"".join(parts)


@given(st.binary(min_size=1, max_size=5000), st.lists(st.integers(0, 6000), max_size=5))
def test_the_stream_can_be_sought_in(data: bytes, places: list[int]) -> None:
    with UnpackingStream(io.BytesIO(gzip.compress(data)), "file", AMPLE) as stream:
        for place in places:
            found = stream.seek(place)
            assert found == min(place, len(data))
            assert stream.read(10) == data[place : place + 10]


def test_a_bomb_of_zeros_is_refused() -> None:
    bomb = gzip.compress(bytes(32 * MEBIBYTE))
    with pytest.raises(UnfitFileError, match="file: the gzip unfolds to more than 500 times its size"):
        unpacked(bomb, "file", AMPLE)


def test_a_gzip_larger_than_the_limit_is_refused_however_it_is_packed() -> None:
    slow = gzip.compress(bytes(2000), compresslevel=0)
    with pytest.raises(UnfitFileError, match="unfolds to more than 1000 bytes"):
        unpacked(slow, "file", UnpackingLimits(total_bytes=1000))


def test_small_files_may_be_as_regular_as_they_like() -> None:
    assert unpacked(gzip.compress(bytes(1000)), "file", NARROW) == bytes(1000)


def test_a_gzip_of_nothing_but_empty_parts_is_refused() -> None:
    with pytest.raises(GzipError, match="empty parts"):
        unpacked(gzip.compress(b"") * 5000, "file", AMPLE)


@pytest.mark.parametrize("cut", [3, 12, -1, -9])
def test_a_gzip_that_is_cut_off_says_so(cut: int) -> None:
    with pytest.raises(GzipError, match="ends too early"):
        unpacked(gzip.compress(b"some text that is there")[:cut], "file", AMPLE)


def test_damage_is_told_with_the_files_name() -> None:
    packed = bytearray(gzip.compress(b"some text that is there"))
    packed[-6] ^= 1
    with pytest.raises(GzipError, match="file: the gzip is damaged"):
        unpacked(bytes(packed), "file", AMPLE)


@pytest.mark.parametrize("packs", [bytes, gzip.compress])
def test_lines_come_packed_or_not(tmp_path: Path, packs: type[bytes]) -> None:
    path = tmp_path / "log"
    path.write_bytes(packs(b"one\ntwo\nthree"))
    with BoundedLines(path, expected="a log") as lines:
        assert lines.readline() == b"one\n"
        assert list(lines) == [b"two\n", b"three"]


@pytest.mark.parametrize("packs", [bytes, gzip.compress])
@pytest.mark.parametrize(
    ("limits", "words"),
    [
        (LineLimits(line_bytes=100), "has a line longer than 100 bytes"),
        (LineLimits(total_bytes=300), "than 300 bytes"),
    ],
)
def test_lines_have_bounds(tmp_path: Path, packs: type[bytes], limits: LineLimits, words: str) -> None:
    path = tmp_path / "log"
    path.write_bytes(packs(b"x" * 90 + b"\n") if "300" in words else packs(b"x" * 200))
    if "300" in words:
        path.write_bytes(packs((b"x" * 90 + b"\n") * 5))
    with pytest.raises(UnfitFileError, match=words), BoundedLines(path, limits, expected="a log") as lines:
        list(lines)
