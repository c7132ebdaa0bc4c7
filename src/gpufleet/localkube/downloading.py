"""Fetches official release binaries, each checked against the checksum that its project publishes.

Kubernetes publishes a .sha256 beside each binary, containerd and the CNI plugins one beside each archive,
etcd and runc a list of them, KWOK's release page a digest per file. A file without a checksum is not used. A
machine that cannot reach the internet learns so within seconds, and `binaries` goes on to the next source.
"""

import hashlib
import http.client
import platform
import tarfile
import tempfile
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from gpufleet.localkube.errors import ClusterError
from gpufleet.localkube.progress import Progress
from gpufleet.localkube.releases import Release

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
TIMEOUT_S = 8.0
CHUNK_BYTES = 1 << 20
KUBERNETES_SITE = "https://dl.k8s.io/release"
ETCD_SITE = "https://github.com/etcd-io/etcd/releases/download"
KWOK_SITE = "https://github.com/kubernetes-sigs/kwok/releases/download"
KWOK_RELEASES = "https://api.github.com/repos/kubernetes-sigs/kwok/releases/tags"
EXECUTABLE = 0o755
CONTAINERD_SITE = "https://github.com/containerd/containerd/releases/download"
CNI_PLUGINS_SITE = "https://github.com/containernetworking/plugins/releases/download"
RUNC_SITE = "https://github.com/opencontainers/runc/releases/download"
UNFINISHED = ".downloading-"


class DownloadError(ClusterError):
    """A release could not be fetched, or what came was not what its project published."""


@dataclass(frozen=True, slots=True)
class Sites:
    """Where releases are; tests have their own."""

    kubernetes: str = KUBERNETES_SITE
    etcd: str = ETCD_SITE
    kwok: str = KWOK_SITE
    kwok_releases: str = KWOK_RELEASES
    containerd: str = CONTAINERD_SITE
    cni_plugins: str = CNI_PLUGINS_SITE
    runc: str = RUNC_SITE


class _Asset(msgspec.Struct):
    name: str
    digest: str | None = None


class _ReleasePage(msgspec.Struct):
    assets: list[_Asset]


def download(
    release: Release, programs: Sequence[str], folder: Path, progress: Progress, sites: Sites | None = None
) -> None:
    """Fetch these programs of one release into ``folder``; DownloadError says why not."""
    machine = ARCHITECTURES.get(platform.machine())
    if machine is None:
        raise DownloadError(f"there are no official binaries for {platform.machine()}")
    with tempfile.TemporaryDirectory(dir=folder, prefix=UNFINISHED) as name:
        beside = Path(name)
        for program in programs:
            path = _fetch_program(release, program, machine, beside, progress, sites or Sites())
            path.chmod(EXECUTABLE)
        for program in programs:
            (beside / program).replace(folder / program)


def _fetch_program(
    release: Release, program: str, machine: str, beside: Path, progress: Progress, sites: Sites
) -> Path:
    target = beside / program
    tag = f"v{release.version}"
    match release.project:
        case "kubernetes":
            url = f"{sites.kubernetes}/{tag}/bin/linux/{machine}/{program}"
            _fetch(url, target, _text(f"{url}.sha256").split()[0], progress)
        case "etcd":
            archive = f"etcd-{tag}-linux-{machine}.tar.gz"
            checksum = listed_checksum(_text(f"{sites.etcd}/{tag}/SHA256SUMS"), archive)
            _fetch(f"{sites.etcd}/{tag}/{archive}", beside / archive, checksum, progress)
            _unpack(beside / archive, f"etcd-{tag}-linux-{machine}/{program}", target)
        case "containerd":
            # The static one needs no C library of a certain age.
            url = f"{sites.containerd}/{tag}/containerd-static-{release.version}-linux-{machine}.tar.gz"
            _fetch_packed(url, f"{url}.sha256sum", f"bin/{program}", target, progress)
        case "cni-plugins":
            url = f"{sites.cni_plugins}/{tag}/cni-plugins-linux-{machine}-{tag}.tgz"
            _fetch_packed(url, f"{url}.sha256", f"./{program}", target, progress)
        case "runc":
            asset = f"{program}.{machine}"
            checksum = listed_checksum(_text(f"{sites.runc}/{tag}/runc.sha256sum"), asset)
            _fetch(f"{sites.runc}/{tag}/{asset}", target, checksum, progress)
        case "kwok":
            asset = f"{program}-linux-{machine}"
            checksum = page_checksum(_text(f"{sites.kwok_releases}/{tag}"), asset)
            _fetch(f"{sites.kwok}/{tag}/{asset}", target, checksum, progress)
        case other:
            raise DownloadError(f"no official downloads are known of {other}")
    return target


def _fetch_packed(url: str, checksum_url: str, member: str, target: Path, progress: Progress) -> None:
    """One program of an archive that holds several; the archive is fetched once."""
    name = url.rpartition("/")[2]
    archive = target.with_name(f"{name}.kept")
    if not archive.exists():
        _fetch(url, archive, listed_checksum(_text(checksum_url), name), progress)
    _take_out(archive, member, target)


def listed_checksum(listing: str, file: str) -> str:
    """The checksum of a file in a list as sha256sum writes it."""
    for line in listing.splitlines():
        words = line.split()
        if len(words) == 2 and words[1].removeprefix("*") == file:
            return words[0]
    raise DownloadError(f"the project publishes no checksum of {file}")


def page_checksum(page: str, asset: str) -> str:
    """The checksum of a file on a release's page."""
    try:
        assets = msgspec.json.decode(page, type=_ReleasePage).assets
    except msgspec.DecodeError as error:
        raise DownloadError(f"the release's page cannot be read: {error}") from error
    for one in assets:
        if one.name == asset and one.digest is not None and one.digest.startswith("sha256:"):
            return one.digest.removeprefix("sha256:")
    raise DownloadError(f"the project publishes no checksum of {asset}")


def _text(url: str) -> str:
    """A small text file."""
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:  # noqa: S310  our own addresses
            content: bytes = answer.read(CHUNK_BYTES)
    except (OSError, http.client.HTTPException) as error:
        raise DownloadError(f"{url} cannot be fetched: {_reason(error)}") from error
    text = content.decode(errors="replace")
    if not text.strip():
        raise DownloadError(f"{url} is empty")
    return text


def _fetch(url: str, target: Path, checksum: str, progress: Progress) -> None:
    """A large file, refused unless its checksum is the published one."""
    digest = hashlib.sha256()
    done_bytes = 0
    try:
        with (
            urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer,  # noqa: S310  our own addresses
            target.open("wb") as file,
            progress.during(f"downloading {url}", lambda: f"{done_bytes >> 20} MiB"),
        ):
            while chunk := answer.read(CHUNK_BYTES):
                digest.update(chunk)
                file.write(chunk)
                done_bytes += len(chunk)
    except (OSError, http.client.HTTPException) as error:
        raise DownloadError(f"{url} cannot be fetched: {_reason(error)}") from error
    if digest.hexdigest() != checksum.lower():
        target.unlink()
        raise DownloadError(
            f"{url} is not what its project published: its SHA-256 is {digest.hexdigest()}, "
            f"published is {checksum}"
        )


def _unpack(archive: Path, member: str, target: Path) -> None:
    """The only file of an archive that is wanted."""
    _take_out(archive, member, target)
    archive.unlink()


def _take_out(archive: Path, member: str, target: Path) -> None:
    """One file of an archive."""
    try:
        with tarfile.open(archive) as opened:
            content = opened.extractfile(member)
            if content is None:
                raise DownloadError(f"{archive.name} holds no file {member}")
            target.write_bytes(content.read())
    except (KeyError, tarfile.TarError) as error:
        raise DownloadError(f"{archive.name} holds no file {member}: {error}") from error


def _reason(error: Exception) -> str:
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    return str(reason)
