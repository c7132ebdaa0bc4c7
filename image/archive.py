"""Layers as one file that every container runtime imports: an OCI image layout, and Docker's manifest.

The image stands in the index under its name with the tag and under its name with the digest: so a node on
which it was imported also starts it where the chart names the digest.
"""

import hashlib
import io
import shutil
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from image.layers import EPOCH_S, Layer

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
NAME = "io.containerd.image.name"
REFERENCE = "org.opencontainers.image.ref.name"
CREATED = "1980-01-01T00:00:00Z"

Document = dict[str, object]


class ImageConfig(msgspec.Struct, frozen=True):
    """What the image runs, as whom, with which environment and labels, on which machines."""

    entrypoint: tuple[str, ...]
    user: str
    environment: Mapping[str, str]
    labels: Mapping[str, str]
    architecture: str = "amd64"


def write(target: Path, repository: str, tag: str, config: ImageConfig, layers: Sequence[Layer]) -> str:
    """Write the archive and return the digest of the image's manifest."""
    configured = _encoded(_config(config, layers))
    described = [_descriptor(LAYER, layer.digest, layer.size_bytes) for layer in layers]
    manifest = _encoded(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": _descriptor(CONFIG, digest_of(configured), len(configured)),
            "layers": described,
        }
    )
    digest = digest_of(manifest)
    names = {f"{repository}:{tag}": tag, f"{repository}@{digest}": ""}
    entries = [_indexed(manifest, name, reference, config.architecture) for name, reference in names.items()]
    index = _encoded({"schemaVersion": 2, "mediaType": INDEX, "manifests": entries})
    docker = [
        {
            "Config": _blob(digest_of(configured)),
            "RepoTags": [f"{repository}:{tag}"],
            "Layers": [_blob(layer.digest) for layer in layers],
        }
    ]
    files = {
        "oci-layout": _encoded({"imageLayoutVersion": "1.0.0"}),
        "index.json": index,
        "manifest.json": _encoded(docker),
        _blob(digest): manifest,
        _blob(digest_of(configured)): configured,
    }
    unfinished = target.with_name(f".{target.name}.part")
    with tarfile.open(unfinished, "w") as archive:
        for name, content in files.items():
            _add(archive, name, len(content), io.BytesIO(content))
        for layer in layers:
            with Path(layer.path).open("rb") as file:
                _add(archive, _blob(layer.digest), layer.size_bytes, file)
    shutil.move(unfinished, target)
    return digest


def digest_of(content: bytes) -> str:
    """A digest as OCI writes it."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _config(config: ImageConfig, layers: Sequence[Layer]) -> Document:
    return {
        "created": CREATED,
        "architecture": config.architecture,
        "os": "linux",
        "config": {
            "User": config.user,
            "Env": [f"{key}={value}" for key, value in config.environment.items()],
            "Entrypoint": config.entrypoint,
            "WorkingDir": "/",
            "Labels": dict(config.labels),
        },
        "rootfs": {"type": "layers", "diff_ids": [layer.content_digest for layer in layers]},
    }


def _indexed(manifest: bytes, name: str, reference: str, architecture: str) -> Document:
    annotations = {NAME: name} | ({REFERENCE: reference} if reference else {})
    platform = {"architecture": architecture, "os": "linux"}
    return {
        **_descriptor(MANIFEST, digest_of(manifest), len(manifest)),
        "annotations": annotations,
        "platform": platform,
    }


def _descriptor(media_type: str, digest: str, size_bytes: int) -> Document:
    return {"mediaType": media_type, "digest": digest, "size": size_bytes}


def _blob(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"


def _encoded(document: object) -> bytes:
    return msgspec.json.encode(document, order="sorted")


def _add(archive: tarfile.TarFile, name: str, size_bytes: int, content: io.BufferedIOBase) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mtime = size_bytes, EPOCH_S
    archive.addfile(entry, content)
