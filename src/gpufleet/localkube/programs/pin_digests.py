"""Pins the digests of official releases: writes what their projects publish into `digests.json`.

For contributors (`make digest-pin VERSION=1.36.3`). Kubernetes publishes a .sha256 beside each binary,
containerd and the CNI plugins one beside each archive, etcd and runc a list of them, KWOK's release page a
digest per file. Compare each with a second source before committing it: a changed site would change its own
digests too. A digest that is pinned already is never replaced.
"""

import http.client
import sys
import urllib.request
from collections.abc import Callable

import msgspec

from gpufleet.files.fetching import fetched
from gpufleet.localkube.processes.process_errors import DownloadError
from gpufleet.localkube.programs import releases
from gpufleet.localkube.programs.digests import FILE, Digests, pinned_digests
from gpufleet.localkube.programs.downloading import ARCHITECTURES, TIMEOUT_S, Asset, Sites, asset_of
from gpufleet.localkube.programs.releases import Release
from gpufleet.model.visible import json_text

KWOK_RELEASES = "https://api.github.com/repos/kubernetes-sigs/kwok/releases/tags"
# A site's file of digests has a line for each of its files.
LISTING_BYTES_MAX = 4 << 20
LISTING_S = 60.0

Read = Callable[[str], str]
"""The text at an address."""


class _Listed(msgspec.Struct):
    name: str
    digest: str | None = None


class _ReleasePage(msgspec.Struct):
    assets: list[_Listed]


def published_digest(release: Release, asset: Asset, read: Read) -> str:
    """What a project publishes of one of its files. Raises DownloadError."""
    folder = asset.url.rpartition("/")[0]
    match release.project:
        case "kubernetes":
            return _digest(read(f"{asset.url}.sha256").split()[0], asset.name)
        case "etcd":
            return listed_checksum(read(f"{folder}/SHA256SUMS"), asset.name)
        case "containerd":
            return listed_checksum(read(f"{asset.url}.sha256sum"), asset.name)
        case "cni-plugins":
            return listed_checksum(read(f"{asset.url}.sha256"), asset.name)
        case "runc":
            return listed_checksum(read(f"{folder}/runc.sha256sum"), asset.name)
        case _:
            return page_checksum(read(f"{KWOK_RELEASES}/v{release.version}"), asset.name)


def listed_checksum(listing: str, file: str) -> str:
    """The checksum of a file in a list as sha256sum writes it."""
    for line in listing.splitlines():
        words = line.split()
        if len(words) == 2 and words[1].removeprefix("*") == file:
            return _digest(words[0], file)
    raise DownloadError(f"the project publishes no checksum of {file}")


def page_checksum(page: str, asset: str) -> str:
    """The checksum of a file on a release's page."""
    try:
        listed = msgspec.json.decode(page, type=_ReleasePage).assets
    except (msgspec.DecodeError, RecursionError) as error:
        raise DownloadError(f"the release's page cannot be read: {error}") from error
    for one in listed:
        if one.name == asset and one.digest is not None and one.digest.startswith("sha256:"):
            return _digest(one.digest.removeprefix("sha256:"), asset)
    raise DownloadError(f"the project publishes no checksum of {asset}")


def with_published(pinned: Digests, release: Release, read: Read, sites: Sites) -> dict[str, dict[str, str]]:
    """What is pinned, and all that the release publishes beside it. DownloadError where the two differ."""
    found = {name: dict(files) for name, files in pinned.items()}
    files = found.setdefault(f"{release.project}-{release.version}", {})
    for machine in sorted(ARCHITECTURES.values()):
        for program in release.programs:
            asset = asset_of(release, program, machine, sites)
            digest = published_digest(release, asset, read)
            if files.setdefault(asset.name, digest) != digest:
                raise DownloadError(f"{asset.name}: pinned is {files[asset.name]}, published is {digest}")
    return {name: dict(sorted(found[name].items())) for name in sorted(found)}


def text_at(url: str) -> str:
    """A small text file. Raises DownloadError."""
    asked = urllib.request.Request(url)  # noqa: S310  our own addresses
    try:
        with fetched(asked, step_s=TIMEOUT_S, total_s=LISTING_S) as answer:
            content: bytes = answer.read(LISTING_BYTES_MAX)
    except (OSError, http.client.HTTPException) as error:
        raise DownloadError(f"{url} cannot be fetched: {error}") from error
    text = content.decode(errors="replace")
    if not text.strip():
        raise DownloadError(f"{url} is empty")
    return text


def main(version: str = releases.DEFAULT_KUBERNETES) -> None:
    """Pin every release that can be downloaded, Kubernetes at this version."""
    found: Digests = pinned_digests()
    for release in (releases.kubernetes(version), *releases.others()):
        if release.project != "busybox":
            found = with_published(found, release, text_at, Sites())
    FILE.write_text(json_text(found) + "\n", encoding="utf-8")
    sys.stderr.write(
        f"pinned in {FILE}; compare each new digest with a second source before it is committed\n"
    )


def _digest(text: str, file: str) -> str:
    if len(text) != 64 or not set(text.lower()) <= set("0123456789abcdef"):
        raise DownloadError(f"what the project publishes of {file} is no SHA-256")
    return text.lower()


if __name__ == "__main__":
    try:
        main(*sys.argv[1:2])
    except DownloadError as error:
        raise SystemExit(f"digest-pin: {error}") from error
