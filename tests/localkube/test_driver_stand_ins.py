"""Stand-ins for drivers: what is in their images, and under which names a policy finds them."""

import hashlib
import io
import json
import tarfile
from typing import Any

import pytest

from gpufleet.localkube.node import driver_stand_ins
from gpufleet.localkube.node.driver_stand_ins import DRIVERS, REPOSITORY
from gpufleet.model.fleet_policy import Driver, DriverSource
from gpufleet.operator.rollout_driver import daemon_set
from gpufleet.operator.rollout_objects import image_key

BASE = b"a layer with a shell"


@pytest.fixture(scope="module")
def blobs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Every file of the archive."""
    path = tmp_path_factory.mktemp("images") / "images.tar"
    driver_stand_ins.write_archive(BASE, path)
    with tarfile.open(path) as archive:
        return {one.name: read(archive, one) for one in archive}


def read(archive: tarfile.TarFile, entry: tarfile.TarInfo) -> bytes:
    found = archive.extractfile(entry)
    assert found is not None
    return found.read()


def blob(blobs: dict[str, bytes], described: dict[str, Any]) -> bytes:
    content = blobs["blobs/" + described["digest"].replace(":", "/")]
    assert described["digest"] == f"sha256:{hashlib.sha256(content).hexdigest()}"
    assert described["size"] == len(content)
    return content


def images(blobs: dict[str, bytes]) -> dict[str, dict[str, Any]]:
    """The manifest of each image, by its name with the digest."""
    entries = json.loads(blobs["index.json"])["manifests"]
    names = "io.containerd.image.name"
    return {one["annotations"][names]: json.loads(blob(blobs, one)) for one in entries}


def test_each_is_there_under_its_name_with_the_digest(blobs: dict[str, bytes]) -> None:
    entries = json.loads(blobs["index.json"])["manifests"]
    names = [one["annotations"]["io.containerd.image.name"] for one in entries]
    assert names == [f"{name}@{one['digest']}" for name, one in zip(DRIVERS, entries, strict=True)]
    assert all(name.startswith(REPOSITORY) for name in names)


def test_no_two_have_one_digest_though_two_do_the_same(blobs: dict[str, bytes]) -> None:
    keys = {image_key(name) for name in images(blobs)}
    assert len(keys) == len(DRIVERS)


def test_they_have_the_programs_that_a_driver_container_is_called_by(blobs: dict[str, bytes]) -> None:
    image = f"{REPOSITORY}-1@sha256:{'0' * 64}"
    made = daemon_set("a", Driver(source=DriverSource.IMAGE, image=image), image)
    (container,) = made["spec"]["template"]["spec"]["containers"]
    for manifest in images(blobs).values():
        base, own = (blob(blobs, one) for one in manifest["layers"])
        assert base == BASE
        with tarfile.open(fileobj=io.BytesIO(own)) as layer:
            modes = {one.name: one.mode for one in layer}
        assert modes == {f"bin/{container['command'][0]}": 0o755, "bin/nvidia-smi": 0o755}


def test_they_say_that_they_are_stand_ins() -> None:
    assert all("a stand-in for a driver" in script for script in DRIVERS.values())
    assert "a stand-in for nvidia-smi" in driver_stand_ins.SMI
