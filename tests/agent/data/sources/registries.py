"""Registries for tests: the program docker-registry where it is installed, and a stand-in beside it.

The stand-in answers what the OCI distribution specification says of pulls, and keeps what it is given in
memory. Debian's package docker-registry has the program.
"""

import base64
import hashlib
import http.client
import json
import platform
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from tests.agent.data.sources.http_store import HttpStore
from tests.lacking import lacking

PROGRAM = shutil.which("docker-registry")
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG, LAYER = "application/vnd.oci.image.config.v1+json", "application/vnd.oci.image.layer.v1.tar"
RAW = "application/octet-stream"
EMPTY = b"{}"
START_S = 10.0


def digest_of(body: bytes) -> str:
    """As the specification writes it."""
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


def manifest_of(files: Mapping[str, bytes], media_type: str = RAW) -> bytes:
    """An artifact as ORAS pushes files: a layer for each, with its name as the title."""
    layers = [
        {
            "mediaType": media_type,
            "digest": digest_of(body),
            "size": len(body),
            "annotations": {"org.opencontainers.image.title": name},
        }
        for name, body in files.items()
    ]
    config = {
        "mediaType": "application/vnd.oci.empty.v1+json",
        "digest": digest_of(EMPTY),
        "size": len(EMPTY),
    }
    said = {"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": layers}
    return json.dumps(said).encode()


def put_into_stand_in(server: HttpStore, repository: str, tag: str, files: Mapping[str, bytes]) -> bytes:
    """An artifact in the stand-in, by tag and by digest. Returns its manifest."""
    body = manifest_of(files)
    for name in (tag, digest_of(body)):
        server.files[f"/v2/{repository}/manifests/{name}"] = body
    for one in files.values():
        server.files[f"/v2/{repository}/blobs/{digest_of(one)}"] = one
    return body


def image_of(layers: Sequence[bytes], command: Sequence[str]) -> tuple[bytes, bytes]:
    """The manifest and the configuration of an image with these layers, each a tar."""
    processor = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
    described = {
        "architecture": processor,
        "os": "linux",
        "config": {"Cmd": list(command), "Env": ["PATH=/bin"]},
        "rootfs": {"type": "layers", "diff_ids": [digest_of(one) for one in layers]},
    }
    config = json.dumps(described).encode()
    said = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": {"mediaType": CONFIG, "digest": digest_of(config), "size": len(config)},
        "layers": [{"mediaType": LAYER, "digest": digest_of(one), "size": len(one)} for one in layers],
    }
    return json.dumps(said).encode(), config


class RealRegistry:
    """The program, on a port of its own."""

    def __init__(self, port: int) -> None:
        self.host = f"127.0.0.1:{port}"
        self.address = f"http://{self.host}"

    def push(self, repository: str, tag: str, files: Mapping[str, bytes]) -> bytes:
        """An artifact. Returns its manifest."""
        body = manifest_of(files)
        self.push_all(repository, tag, body, (EMPTY, *files.values()))
        return body

    def push_all(self, repository: str, tag: str, manifest: bytes, blobs: Sequence[bytes]) -> None:
        """A manifest and what it names, as the specification says pushes go."""
        for one in blobs:
            _, place = self._ask("POST", f"/v2/{repository}/blobs/uploads/", b"", "")
            there = urlsplit(place)
            self._ask("PUT", f"{there.path}?{there.query}&digest={digest_of(one)}", one, RAW)
        self._ask("PUT", f"/v2/{repository}/manifests/{tag}", manifest, MANIFEST)

    def _ask(self, method: str, target: str, body: bytes, media_type: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection(urlsplit(self.address).netloc, timeout=10)
        connection.request(method, target, body, {"Content-Type": media_type})
        answer = connection.getresponse()
        said = answer.read()
        connection.close()
        assert answer.status in (201, 202), said
        return answer.status, answer.headers.get("Location", "")


@contextmanager
def real_registry(folder: Path) -> Iterator[RealRegistry]:
    """The program with an empty store in a folder."""
    if PROGRAM is None:
        lacking("docker-registry is not installed: apt-get install docker-registry")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    settings = folder / "registry.yml"
    settings.write_text(
        "version: 0.1\nlog: {level: error}\n"
        f"storage: {{filesystem: {{rootdirectory: {folder / 'registry'}}}}}\n"
        f"http: {{addr: '127.0.0.1:{port}', secret: {base64.b64encode(bytes(16)).decode()}}}\n"
    )
    process = subprocess.Popen([PROGRAM, "serve", settings], stderr=subprocess.DEVNULL)
    try:
        wait_until_it_listens(port)
        yield RealRegistry(port)
    finally:
        process.kill()
        process.wait()


def wait_until_it_listens(port: int) -> None:
    """Return once it takes connections."""
    ends_s = time.monotonic() + START_S
    while True:
        try:
            with socket.create_connection(("127.0.0.1", port), 1):
                return
        except OSError:
            assert time.monotonic() < ends_s, "docker-registry does not listen"
            time.sleep(0.02)
