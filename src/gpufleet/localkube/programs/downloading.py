"""Fetches official release binaries, each checked against the digest that is pinned in `digests`.

What a site says of its own files proves nothing where it serves a changed file, so a file without a pinned
digest is not fetched at all. A machine that cannot reach the internet learns so within seconds, and
`binaries` goes on to the next source.
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

from gpufleet.files.fetching import fetched
from gpufleet.localkube.processes.process_errors import DownloadError
from gpufleet.localkube.programs.digests import Digests, pinned_digests
from gpufleet.localkube.programs.releases import Release
from gpufleet.progress.reporting import Progress

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
TIMEOUT_S = 8.0
"""For one step of the connection: a machine without the internet shall learn so soon."""

TOTAL_S = 1800.0
"""The time for a whole file, on a slow line."""

# Progress is told after each.
CHUNK_BYTES = 1 << 20
FILE_BYTES_MAX = 512 << 20
"""The largest, of containerd, has some 100 MiB."""

KUBERNETES_SITE = "https://dl.k8s.io/release"
ETCD_SITE = "https://github.com/etcd-io/etcd/releases/download"
KWOK_SITE = "https://github.com/kubernetes-sigs/kwok/releases/download"
# All users may run what is in the cache, and its owner alone may change it.
EXECUTABLE = 0o755
CONTAINERD_SITE = "https://github.com/containerd/containerd/releases/download"
CNI_PLUGINS_SITE = "https://github.com/containernetworking/plugins/releases/download"
RUNC_SITE = "https://github.com/opencontainers/runc/releases/download"
UNFINISHED = ".downloading-"


@dataclass(frozen=True, slots=True)
class Sites:
    """Where releases are; tests have their own."""

    kubernetes: str = KUBERNETES_SITE
    etcd: str = ETCD_SITE
    kwok: str = KWOK_SITE
    containerd: str = CONTAINERD_SITE
    cni_plugins: str = CNI_PLUGINS_SITE
    runc: str = RUNC_SITE


@dataclass(frozen=True, slots=True)
class Asset:
    """A file of a release: by which name its digest is pinned, where it is, and which member of it is
    wanted, where it is an archive.
    """

    name: str
    url: str
    member: str = ""


def asset_of(release: Release, program: str, machine: str, sites: Sites) -> Asset:
    """The file that brings a program. Raises DownloadError for a project that publishes none."""
    tag, version = f"v{release.version}", release.version
    match release.project:
        case "kubernetes":
            name = f"bin/linux/{machine}/{program}"
            return Asset(name, f"{sites.kubernetes}/{tag}/{name}")
        case "etcd":
            folder = f"etcd-{tag}-linux-{machine}"
            return Asset(f"{folder}.tar.gz", f"{sites.etcd}/{tag}/{folder}.tar.gz", f"{folder}/{program}")
        case "containerd":
            # The static one needs no C library of a certain age.
            name = f"containerd-static-{version}-linux-{machine}.tar.gz"
            return Asset(name, f"{sites.containerd}/{tag}/{name}", f"bin/{program}")
        case "cni-plugins":
            name = f"cni-plugins-linux-{machine}-{tag}.tgz"
            return Asset(name, f"{sites.cni_plugins}/{tag}/{name}", f"./{program}")
        case "runc":
            return Asset(f"{program}.{machine}", f"{sites.runc}/{tag}/{program}.{machine}")
        case "kwok":
            name = f"{program}-linux-{machine}"
            return Asset(name, f"{sites.kwok}/{tag}/{name}")
        case other:
            raise DownloadError(f"no official downloads are known of {other}")


def download(
    release: Release,
    programs: Sequence[str],
    folder: Path,
    progress: Progress,
    sites: Sites | None = None,
    digests: Digests | None = None,
) -> None:
    """Fetch these programs of one release into ``folder``; DownloadError says why not."""
    machine = ARCHITECTURES.get(platform.machine())
    if machine is None:
        raise DownloadError(f"there are no official binaries for {platform.machine()}")
    assets = {program: asset_of(release, program, machine, sites or Sites()) for program in programs}
    known = (pinned_digests() if digests is None else digests).get(f"{release.project}-{release.version}", {})
    # What a site says of its own files proves nothing, so only pinned digests count.
    unpinned = sorted({one.name for one in assets.values() if one.name not in known})
    if unpinned:
        raise DownloadError(
            f"no digest of {', '.join(unpinned)} of {release.project} {release.version} is pinned, so it is "
            "not fetched; a contributor pins it with make digest-pin, and --binaries names a folder of yours"
        )
    with tempfile.TemporaryDirectory(dir=folder, prefix=UNFINISHED) as name:
        beside = Path(name)
        for program, asset in assets.items():
            _fetch_program(asset, known[asset.name], beside / program, progress)
        for program in programs:
            (beside / program).chmod(EXECUTABLE)
            (beside / program).replace(folder / program)


def _fetch_program(asset: Asset, digest: str, target: Path, progress: Progress) -> None:
    if not asset.member:
        _fetch(asset.url, target, digest, progress)
        return
    # An archive of several programs is fetched once.
    archive = target.with_name(f"{asset.name}.kept")
    if not archive.exists():
        _fetch(asset.url, archive, digest, progress)
    _take_out(archive, asset.member, target)


def how_far(done_bytes: int, whole: str) -> str:
    """How much is there, of how much where the server says so."""
    of = f" of {int(whole) >> 20}" if whole.isascii() and whole.isdecimal() and len(whole) < 16 else ""
    return f"{done_bytes >> 20}{of} MiB"


def _fetch(url: str, target: Path, checksum: str, progress: Progress) -> None:
    """A large file, refused unless its digest is the pinned one."""
    digest = hashlib.sha256()
    done_bytes = 0
    try:
        with (
            fetched(urllib.request.Request(url), step_s=TIMEOUT_S, total_s=TOTAL_S) as answer,  # noqa: S310
            target.open("wb") as file,
            progress.during(
                f"downloading {url}", lambda: how_far(done_bytes, answer.headers.get("Content-Length") or "")
            ),
        ):
            while chunk := answer.read(CHUNK_BYTES):
                if done_bytes + len(chunk) > FILE_BYTES_MAX:
                    raise DownloadError(f"{url} has more than {FILE_BYTES_MAX} bytes")
                digest.update(chunk)
                file.write(chunk)
                done_bytes += len(chunk)
    except (OSError, http.client.HTTPException) as error:
        raise DownloadError(f"{url} cannot be fetched: {_reason(error)}") from error
    if digest.hexdigest() != checksum.lower():
        target.unlink()
        raise DownloadError(
            f"{url} is not what is pinned: its SHA-256 is {digest.hexdigest()}, pinned is {checksum}"
        )


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
