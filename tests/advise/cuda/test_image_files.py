"""Images as they lie on disk: every kind of layout and archive, and what is wrong with one, told by name."""

import json
from pathlib import Path

import pytest

from gpufleet.advise.cuda.image_files import find_image
from gpufleet.cuda.image import ImageFacts
from gpufleet.model.model_errors import InputError
from tests.advise.cuda.saved_images import (
    AMD,
    ARM,
    INDEX_TYPE,
    Layout,
    as_archive,
    as_folder,
    configuration,
    docker_files,
)

CUDA = configuration("CUDA_VERSION=12.4.1", "A=b=c", history=("RUN apt-get install cuda-compat-12-4",))
OTHER = configuration("CUDA_VERSION=13.0.0")


def found(path: str, *, tag: str | None = None, platform: str = "linux/amd64") -> ImageFacts:
    """The image at a path."""
    return find_image(path, tag=tag, platform=platform)


def one_image() -> Layout:
    """A layout with one image."""
    layout = Layout()
    layout.index(layout.image(CUDA, name="mine:1"))
    return layout


@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_an_archive_of_oci(tmp_path: Path, mode: str) -> None:
    image = found(as_archive(one_image().files, tmp_path / "image.tar", mode))
    assert image.name == "mine:1"
    assert image.environment == {"CUDA_VERSION": "12.4.1", "A": "b=c"}
    assert image.complete
    package = image.compatibility_package()
    assert package is not None
    assert str(package.toolkit) == "12.4"


def test_a_folder_of_oci(tmp_path: Path) -> None:
    assert found(as_folder(one_image().files, tmp_path)).environment["CUDA_VERSION"] == "12.4.1"


def test_an_archive_of_docker(tmp_path: Path) -> None:
    image = found(as_archive(docker_files(CUDA, "mine:1"), tmp_path / "image.tar"))
    assert (image.name, image.environment["CUDA_VERSION"]) == ("mine:1", "12.4.1")


@pytest.mark.parametrize(("platform", "cuda"), [("linux/amd64", "12.4.1"), ("linux/arm64", "13.0.0")])
def test_of_several_platforms_the_one_asked_for(tmp_path: Path, platform: str, cuda: str) -> None:
    layout = Layout()
    attested = {**layout.image({}), "platform": {"architecture": "unknown", "os": "unknown"}}
    inner = {"manifests": [layout.image(CUDA, platform=AMD), layout.image(OTHER, platform=ARM), attested]}
    layout.index({"digest": layout.blob(inner), "mediaType": INDEX_TYPE})
    path = as_folder(layout.files, tmp_path)
    assert found(path, platform=platform).environment["CUDA_VERSION"] == cuda
    with pytest.raises(InputError, match="one of linux/amd64, linux/arm64"):
        found(path, platform="linux/ppc64le")


def test_of_several_images_the_one_asked_for(tmp_path: Path) -> None:
    layout = Layout()
    layout.index(layout.image(CUDA, name="mine:1"), layout.image(OTHER, name="mine:2"))
    path = as_folder(layout.files, tmp_path)
    assert found(path, tag="mine:2").environment["CUDA_VERSION"] == "13.0.0"
    for tag in (None, "mine:3"):
        with pytest.raises(InputError, match="one of mine:1, mine:2"):
            found(path, tag=tag)


def test_json_of_docker_inspect_and_of_a_configuration(tmp_path: Path) -> None:
    inspected = tmp_path / "inspect.json"
    inspected.write_text(json.dumps([{"RepoTags": ["mine:1"], "Config": {"Env": ["CUDA_VERSION=12.4.1"]}}]))
    assert found(str(inspected)).name == "mine:1"
    plain = tmp_path / "config"
    plain.write_text(json.dumps(CUDA))
    assert found(str(plain)).environment["CUDA_VERSION"] == "12.4.1"


def test_a_name_is_judged_by_its_name(tmp_path: Path) -> None:
    image = found("nvidia/cuda:12.4.1-base-ubuntu22.04")
    assert not image.complete
    assert not image.environment
    for missing in (str(tmp_path / "image"), "image.tar", "./no-image"):
        with pytest.raises(FileNotFoundError):
            found(missing)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"index.json": b"{"}, "index.json: "),
        ({"index.json": b'{"manifests": 3}'}, "index.json: "),
        ({"index.json": b'{"manifests": []}'}, "not one image"),
        ({"index.json": b'{"manifests": [{"digest": "md5:12"}]}'}, "sha256:"),
        ({"index.json": b'{"manifests": [{"digest": "sha256:../../x"}]}'}, "sha256:"),
        ({"index.json": b'{"manifests": [{"digest": "sha256:12"}]}'}, "a file is missing"),
        ({"index.json": b"[" * 100_000}, "index.json: "),
    ],
)
def test_a_damaged_layout_is_told(tmp_path: Path, change: dict[str, bytes], said: str) -> None:
    path = as_archive(one_image().files | change, tmp_path / "image.tar")
    with pytest.raises(InputError, match=said):
        found(path)


def test_a_changed_file_is_noticed_by_its_digest(tmp_path: Path) -> None:
    files = one_image().files
    name = next(name for name, content in files.items() if b"CUDA_VERSION" in content)
    files[name] = files[name].replace(b"12.4.1", b"11.8.0")
    with pytest.raises(InputError, match="another digest"):
        found(as_folder(files, tmp_path))


def test_an_index_that_leads_in_circles_ends(tmp_path: Path) -> None:
    layout = Layout()
    digest = layout.image(CUDA)["digest"]
    for _ in range(6):
        digest = layout.blob({"manifests": [{"digest": digest, "mediaType": INDEX_TYPE}]})
    layout.index({"digest": digest, "mediaType": INDEX_TYPE})
    with pytest.raises(InputError, match="lead to indexes"):
        found(as_folder(layout.files, tmp_path))


@pytest.mark.parametrize("content", [b"", b"rubbish", b"\x28\xb5\x2f\xfd zstd"])
def test_what_is_no_archive_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "image"
    path.write_bytes(content)
    with pytest.raises(InputError, match="not an archive"):
        found(str(path))


def test_an_archive_without_an_image_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no image"):
        found(as_archive({"a": b"b"}, tmp_path / "image.tar"))


def test_a_wrong_variable_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(json.dumps(configuration("CUDA_VERSION")))
    with pytest.raises(InputError, match="NAME=VALUE"):
        found(str(path))
