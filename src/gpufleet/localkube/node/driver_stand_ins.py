"""Images that stand in for drivers on a real node, so that a rollout can be tried where there is no GPU.

They bring no driver and say so. They are called as NVIDIA's driver containers are: ``nvidia-driver init``,
and ``nvidia-smi`` in probes and checks. Policies name images by digest, so each is imported under its name
with the digest; ``kubectl get node NAME -o jsonpath='{.status.images}'`` shows it. ``images`` has the others.
"""

import hashlib
import io
import platform
import tarfile
from collections.abc import Mapping
from pathlib import Path

import msgspec

from gpufleet.localkube.programs.downloading import ARCHITECTURES

REPOSITORY = "gpufleet.local/driver-stand-in"
WORKS = "#!/bin/sh\necho 'a stand-in for a driver: it loads nothing into the kernel'\nsleep 2147483647 &\n"
WORKS += "trap 'exit 0' TERM\nwait\n"
FAILS = (
    "#!/bin/sh\necho 'a stand-in for a driver whose modules do not load' | tee /dev/termination-log\nexit 1\n"
)
SMI = (
    "#!/bin/sh\n"
    "echo 'a stand-in for nvidia-smi'\n"
    '[ "$1" != -L ] || ls /dev/nvidia[0-9]* || { echo "it was given no GPU"; exit 9; }\n'
)
"""With -L, as a check calls it, it wants the device node of a GPU."""

DRIVERS: Mapping[str, str] = {
    f"{REPOSITORY}-1": WORKS,
    f"{REPOSITORY}-2": WORKS,
    f"{REPOSITORY}-broken": FAILS,
}
"""Each image, by its name, and what its driver does: two that work, and one that does not."""

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"
NAME = "io.containerd.image.name"


def write_archive(base: bytes, archive: Path) -> dict[str, str]:
    """Write the images as an archive over a layer with a shell; their names by digest, by those without."""
    blobs: dict[str, bytes] = {}
    entries = []
    found = {}
    for name, script in DRIVERS.items():
        manifest = _image(name, (base, _layer(script)), blobs)
        described = _described(MANIFEST, manifest, blobs)
        found[name] = f"{name}@{described['digest']}"
        entries.append({**described, "annotations": {NAME: found[name]}})
    index = {"schemaVersion": 2, "manifests": entries}
    with tarfile.open(archive, "w") as packed:
        _add(packed, "oci-layout", msgspec.json.encode({"imageLayoutVersion": "1.0.0"}))
        _add(packed, "index.json", msgspec.json.encode(index))
        for digest, content in blobs.items():
            _add(packed, f"blobs/{digest.replace(':', '/')}", content)
    return found


def _image(name: str, layers: tuple[bytes, ...], blobs: dict[str, bytes]) -> bytes:
    """The manifest of one image. Its name is in it, so that no two images have one digest."""
    config = {
        "architecture": ARCHITECTURES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": {"Env": ["PATH=/bin"], "Labels": {"org.opencontainers.image.title": name}},
        "rootfs": {"type": "layers", "diff_ids": [_digest(one) for one in layers]},
    }
    return msgspec.json.encode(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": _described(CONFIG, msgspec.json.encode(config), blobs),
            "layers": [_described(LAYER, one, blobs) for one in layers],
        }
    )


def _described(media_type: str, content: bytes, blobs: dict[str, bytes]) -> dict[str, str | int]:
    digest = _digest(content)
    blobs[digest] = content
    return {"mediaType": media_type, "digest": digest, "size": len(content)}


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _layer(driver: str) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, script in (("bin/nvidia-driver", driver), ("bin/nvidia-smi", SMI)):
            _add(archive, name, script.encode(), 0o755)
    return packed.getvalue()


def _add(packed: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    packed.addfile(entry, io.BytesIO(content))
