"""For which machines an image is built, and what is done where its programs do not run here."""

import json
import os
import sys
import tarfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from image import archive, build, layers, ours
from image.architecture import AMD64, ARCHITECTURES, ARM64, native
from image.archive import ImageConfig

UNCHECKED_HASH = 0b01
"""The flags of a file of bytecode that is never compared with its source (PEP 552)."""


def machine(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    told = os.uname()
    monkeypatch.setattr(
        os, "uname", lambda: os.uname_result((told.sysname, told.nodename, told.release, told.version, name))
    )


@pytest.mark.parametrize(("kernel", "debian"), [("x86_64", "amd64"), ("aarch64", "arm64")])
def test_the_image_is_for_this_machine_if_nothing_else_is_said(
    monkeypatch: pytest.MonkeyPatch, kernel: str, debian: str
) -> None:
    machine(monkeypatch, kernel)
    assert native().name == debian
    assert [one.name for one in ARCHITECTURES.values() if one.is_native] == [debian]


def test_a_machine_without_an_image_is_told_how_to_build_one_for_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine(monkeypatch, "riscv64")
    said = build.problem()
    assert said is not None
    assert "x86_64 and aarch64" in said
    assert "riscv64" in said
    assert "--arch amd64" in said


def test_another_machines_image_needs_the_images_own_python(monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, "x86_64")
    monkeypatch.setattr(sys, "version_info", SimpleNamespace(major=3, minor=12))
    said = build.problem(ARM64)
    assert said is not None
    assert "built by python3.11" in said
    assert "this is python3.12" in said
    assert AMD64.problem is None


def test_modules_for_another_machine_bear_the_paths_that_they_have_inside(tmp_path: Path) -> None:
    folder = tmp_path / "usr" / "lib" / "its"
    folder.mkdir(parents=True)
    (folder / "module.py").write_text("answer = 42\n", encoding="utf-8")
    ours.compile_modules(tmp_path, "/usr/lib/its", runs_here=False)
    (compiled,) = folder.rglob("*.pyc")
    content = compiled.read_bytes()
    assert int.from_bytes(content[4:8], "little") == UNCHECKED_HASH
    assert b"/usr/lib/its/module.py" in content
    assert str(tmp_path).encode() not in content


def test_the_archive_says_for_which_machine_it_is(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    layer = layers.pack(tmp_path / "root", (), tmp_path / "layer", {})
    config = ImageConfig(("/bin/hello",), "65532", {}, {}, ARM64.name)
    archive.write(tmp_path / "image.tar", "example.org/hello", "1", config, [layer])
    with tarfile.open(tmp_path / "image.tar") as opened:
        index = opened.extractfile("index.json")
        docker = opened.extractfile("manifest.json")
        assert index is not None
        assert docker is not None
        platforms = [one["platform"] for one in json.loads(index.read())["manifests"]]
        told = opened.extractfile(json.loads(docker.read())[0]["Config"])
        assert told is not None
        assert json.loads(told.read())["architecture"] == "arm64"
    assert platforms == [{"architecture": "arm64", "os": "linux"}] * 2
