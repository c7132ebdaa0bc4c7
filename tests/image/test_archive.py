"""The archive is an image that runtimes understand, and the same files give the same bytes."""

import hashlib
import io
import json
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest

from image import archive, layers
from image.archive import ImageConfig
from image.layers import Owned

CONFIG = ImageConfig(("/bin/hello",), "65532:65532", {"PATH": "/bin"}, {"title": "hello"})


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A few files of every kind."""
    return a_root(tmp_path / "root")


def a_root(folder: Path) -> Path:
    (folder / "bin").mkdir(parents=True)
    (folder / "var" / "cache").mkdir(parents=True)
    (folder / "bin" / "hello").write_text("#!/bin/sh\n", encoding="utf-8")
    (folder / "bin" / "hello").chmod(0o777)
    (folder / "etc").mkdir(mode=0o700)
    (folder / "etc" / "passwd").write_text("root\n", encoding="utf-8")
    (folder / "etc" / "link").symlink_to("passwd")
    return folder


def packed(root: Path, target: Path) -> layers.Layer:
    return layers.pack(root, layers.all_names(root), target, {"var/cache": Owned(65532, 0o755)})


def test_the_same_files_give_the_same_layer(root: Path, tmp_path: Path) -> None:
    other = a_root(tmp_path / "other")
    os.utime(other / "etc" / "passwd", (1, 1))
    (other / "etc" / "passwd").chmod(0o600)
    first, second = packed(root, tmp_path / "1"), packed(other, tmp_path / "2")
    assert first.digest == second.digest
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()
    (other / "etc" / "passwd").write_text("other\n", encoding="utf-8")
    assert packed(other, tmp_path / "3").digest != first.digest


def test_a_layer_has_its_files_with_owners_and_modes(root: Path, tmp_path: Path) -> None:
    layer = packed(root, tmp_path / "layer")
    with tarfile.open(layer.path) as opened:
        found = {one.name: one for one in opened}
    assert sorted(found) == ["bin", "bin/hello", "etc", "etc/link", "etc/passwd", "var", "var/cache"]
    assert (found["bin/hello"].mode, found["etc/passwd"].mode, found["etc"].mode) == (0o755, 0o644, 0o755)
    assert found["etc/link"].linkname == "passwd"
    assert {name for name, one in found.items() if one.uid} == {"var/cache"}
    assert found["var/cache"].uid == found["var/cache"].gid == 65532


def read(path: Path) -> dict[str, bytes]:
    """Every file of an archive."""
    found = {}
    with tarfile.open(path) as opened:
        for one in opened:
            content = opened.extractfile(one)
            assert content is not None
            found[one.name] = content.read()
    return found


def blob(files: dict[str, bytes], descriptor: dict[str, Any]) -> bytes:
    """What a descriptor points to, as its digest and size say."""
    content = files["blobs/" + descriptor["digest"].replace(":", "/")]
    assert descriptor["digest"] == f"sha256:{hashlib.sha256(content).hexdigest()}"
    assert descriptor["size"] == len(content)
    return content


def test_the_archive_leads_from_the_index_to_every_file(root: Path, tmp_path: Path) -> None:
    layer = packed(root, tmp_path / "layer")
    digest = archive.write(tmp_path / "image.tar", "example.org/hello", "1", CONFIG, [layer])
    files = read(tmp_path / "image.tar")
    assert json.loads(files["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    entries = json.loads(files["index.json"])["manifests"]
    names = {one["annotations"]["io.containerd.image.name"] for one in entries}
    assert names == {"example.org/hello:1", f"example.org/hello@{digest}"}
    assert {one["digest"] for one in entries} == {digest}
    manifest = json.loads(blob(files, entries[0]))
    config = json.loads(blob(files, manifest["config"]))
    assert config["config"]["User"] == "65532:65532"
    assert config["config"]["Entrypoint"] == ["/bin/hello"]
    (described,) = manifest["layers"]
    with tarfile.open(fileobj=io.BytesIO(blob(files, described))) as opened:
        assert "bin/hello" in opened.getnames()
    assert config["rootfs"]["diff_ids"] == [layer.content_digest]
    (docker,) = json.loads(files["manifest.json"])
    assert docker["RepoTags"] == ["example.org/hello:1"]
    assert docker["Config"] in files
    assert set(docker["Layers"]) <= files.keys()


def test_the_same_layers_give_the_same_archive(root: Path, tmp_path: Path) -> None:
    layer = packed(root, tmp_path / "layer")
    for name in ("1.tar", "2.tar"):
        archive.write(tmp_path / name, "example.org/hello", "1", CONFIG, [layer])
    assert (tmp_path / "1.tar").read_bytes() == (tmp_path / "2.tar").read_bytes()
