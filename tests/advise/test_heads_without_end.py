"""Files of models and images whose heads claim more than there can be are refused at once."""

import io
import struct
import tarfile
from pathlib import Path

import pytest

from gpufleet.advise.cuda import image_store
from gpufleet.advise.cuda.image_store import Archive
from gpufleet.advise.fit import gguf
from gpufleet.advise.fit.gguf import read_gguf
from gpufleet.model.model_errors import InputError


def with_hole(path: Path, head: bytes, size: int = 1 << 36) -> Path:
    """A file that begins so and has nothing but zeros up to 64 GiB, which no disk has to hold."""
    with path.open("wb") as file:
        file.write(head)
        file.truncate(size)
    return path


def test_a_tensor_has_no_billion_dimensions(tmp_path: Path) -> None:
    tensor = struct.pack("<Q", 1) + b"a" + struct.pack("<I", 2**32 - 1)
    path = with_hole(tmp_path / "m.gguf", b"GGUF" + struct.pack("<IQQ", 3, 1, 0) + tensor)
    with pytest.raises(InputError, match="too many dimensions"):
        read_gguf(path)


def test_a_head_is_read_no_further_than_any_head_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gguf, "HEAD_BYTES_MAX", 100_000)
    path = with_hole(tmp_path / "m.gguf", b"GGUF" + struct.pack("<IQQ", 3, 1, 1 << 20))
    with pytest.raises(InputError, match="ends too early or is no GGUF"):
        read_gguf(path)


def test_a_header_of_an_archive_claims_no_gigabytes(tmp_path: Path) -> None:
    header = tarfile.TarInfo("names")
    header.type = tarfile.XHDTYPE
    header.size = 8**11 - 1
    path = with_hole(tmp_path / "image.tar", header.tobuf(tarfile.USTAR_FORMAT), 1 << 36)
    with pytest.raises(InputError, match="not an archive of an image"):
        Archive(path)


def test_an_archive_has_no_endless_list_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_store, "MEMBERS_MAX", 10)
    with tarfile.open(tmp_path / "image.tar", "w") as archive:
        for number in range(11):
            archive.addfile(tarfile.TarInfo(f"f{number}"), io.BytesIO())
    with pytest.raises(InputError, match="more than 10 files"):
        Archive(tmp_path / "image.tar")
