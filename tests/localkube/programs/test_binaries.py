"""Where the programs of a control plane come from: the order, the checks, and what is said."""

import hashlib
import http.server
import io
import json
import os
import re
import tarfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from gpufleet.localkube.processes.process_errors import DownloadError, ProgramsMissingError
from gpufleet.localkube.programs import binaries, downloading, pin_digests, releases
from gpufleet.localkube.programs.binaries import BinarySource, Makers
from gpufleet.localkube.programs.digests import FILE, pinned_digests
from gpufleet.localkube.programs.downloading import ARCHITECTURES, Sites, asset_of
from gpufleet.localkube.programs.releases import Release
from gpufleet.model.model_errors import InputError
from gpufleet.progress.reporting import Progress, Silent

KUBERNETES = releases.kubernetes("1.37.0")
WANTED = {"kube-apiserver": KUBERNETES}
PATIENCE_S = 30.0


@dataclass
class Heard(Silent):
    """Progress that keeps what it is told."""

    said: list[str]
    heard: Callable[[], None] = lambda: None

    def say(self, sentence: str) -> None:
        """Keep it."""
        self.said.append(sentence)
        self.heard()

    @contextmanager
    def during(self, what: str, *_: object, **__: object) -> Iterator[None]:
        """Keep what takes long."""
        self.say(what)
        yield


def put(folder: Path, program: str, version: str = "1.37.0") -> Path:
    """A program that says which version it is of."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / program
    path.write_text(f"#!/bin/sh\necho Kubernetes v{version}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sees the programs of this machine."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'path'}{os.pathsep}/usr/bin{os.pathsep}/bin")
    monkeypatch.delenv(binaries.FOLDER_VARIABLE, raising=False)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "gpufleet" / "kube" / "1.37.0"


def source(folder: Path | None, makers: Makers) -> BinarySource:
    """Where kube-apiserver was found."""
    return binaries.find(WANTED, Silent(), folder, makers)["kube-apiserver"].source


def never(*_: object) -> None:
    """A way that must not be taken."""
    pytest.fail("nothing had to be made")


def unreachable(*_: object) -> None:
    """A download without a network."""
    raise DownloadError("no network")


def making(release: Release, programs: Sequence[str], folder: Path, progress: Progress) -> None:
    """A build or download that works."""
    progress.say("made")
    for program in programs:
        put(folder, program, release.version)


def test_the_users_folder_goes_before_all_others(tmp_path: Path, cache: Path) -> None:
    for folder in (tmp_path / "mine", tmp_path / "path", cache):
        put(folder, "kube-apiserver")
    found = binaries.find(WANTED, Silent(), tmp_path / "mine", Makers(never, never))["kube-apiserver"]
    assert (found.path, found.source) == (tmp_path / "mine" / "kube-apiserver", BinarySource.FOLDER)


def test_the_environment_may_name_the_users_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "mine", "kube-apiserver")
    monkeypatch.setenv(binaries.FOLDER_VARIABLE, str(tmp_path / "mine"))
    assert source(None, Makers(never, never)) is BinarySource.FOLDER


def test_another_version_in_the_users_folder_is_refused(tmp_path: Path) -> None:
    put(tmp_path / "mine", "kube-apiserver", "1.36.3")
    with pytest.raises(InputError, match=r"found '1\.36\.3'; expected 1\.37\.0, or --kubernetes"):
        binaries.find(WANTED, Silent(), tmp_path / "mine", Makers(never, never))


def test_path_goes_before_the_cache(tmp_path: Path, cache: Path) -> None:
    put(tmp_path / "path", "kube-apiserver")
    put(cache, "kube-apiserver")
    assert source(None, Makers(never, never)) is BinarySource.PATH


def test_another_version_on_path_is_passed_over(tmp_path: Path, cache: Path) -> None:
    put(tmp_path / "path", "kube-apiserver", "1.37.1")
    put(cache, "kube-apiserver")
    assert source(None, Makers(never, never)) is BinarySource.CACHE


def test_a_client_of_another_version_on_path_is_used_with_a_word_and_built_by_nobody(tmp_path: Path) -> None:
    put(tmp_path / "path", "kubectl", "1.34.1")
    told = Heard(said=[])
    wanted = {"kubectl": KUBERNETES}
    found = binaries.find(wanted, told, None, Makers(never, never), any_client=True)["kubectl"]
    assert found.source is BinarySource.PATH
    assert "kubectl 1.34.1, with Kubernetes 1.37.0" in told.said[0]


def test_a_client_of_the_wanted_version_in_the_cache_goes_before_another_on_path(
    tmp_path: Path, cache: Path
) -> None:
    put(tmp_path / "path", "kubectl", "1.34.1")
    put(cache, "kubectl")
    wanted = {"kubectl": KUBERNETES}
    found = binaries.find(wanted, Silent(), None, Makers(never, never), any_client=True)["kubectl"]
    assert found.source is BinarySource.CACHE


def test_a_download_goes_before_a_build_and_fills_the_cache(cache: Path) -> None:
    found = binaries.find(WANTED, Silent(), None, Makers(making, never))["kube-apiserver"]
    assert (found.path, found.source) == (cache / "kube-apiserver", BinarySource.DOWNLOAD)
    assert source(None, Makers(never, never)) is BinarySource.CACHE


def test_without_a_network_it_is_built(cache: Path) -> None:
    found = binaries.find(WANTED, Silent(), None, Makers(unreachable, making))["kube-apiserver"]
    assert (found.path, found.source) == (cache / "kube-apiserver", BinarySource.BUILD)


def test_only_what_is_missing_is_made(cache: Path) -> None:
    put(cache, "kube-apiserver")
    asked: list[str] = []

    def note(release: Release, programs: Sequence[str], folder: Path, progress: Progress) -> None:
        asked.extend(programs)
        making(release, programs, folder, progress)

    wanted = {"kube-apiserver": KUBERNETES, "kubectl": KUBERNETES, "etcd": releases.etcd()}
    binaries.find(wanted, Silent(), None, Makers(note, never))
    assert asked == ["kubectl", "etcd"]


def test_two_commands_at_once_take_turns_and_the_second_says_that_it_waits() -> None:
    made: list[str] = []
    waits, told = threading.Event(), Heard(said=[])
    begun = threading.Event()

    def slow(release: Release, programs: Sequence[str], folder: Path, progress: Progress) -> None:
        begun.set()
        assert waits.wait(PATIENCE_S), "the other command does not say that it waits"
        made.extend(programs)
        making(release, programs, folder, progress)

    def second() -> None:
        assert begun.wait(PATIENCE_S)
        binaries.find(WANTED, told, None, Makers(never, never))

    told.heard = waits.set
    threads = [
        threading.Thread(target=lambda: binaries.find(WANTED, Silent(), None, Makers(slow, never))),
        threading.Thread(target=second),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == ["kube-apiserver"]
    assert told.said == ["waiting for another command, which fetches or builds kubernetes 1.37.0"]


def test_what_a_killed_command_left_is_removed(cache: Path) -> None:
    put(cache / ".building-1234", "kube-apiserver")
    binaries.find(WANTED, Silent(), None, Makers(making, never))
    assert [path.name for path in cache.iterdir()] == ["kube-apiserver"]


def test_what_was_used_is_said(tmp_path: Path, cache: Path) -> None:
    put(tmp_path / "mine", "kube-apiserver")
    put(cache, "kubectl")
    wanted = {"kube-apiserver": KUBERNETES, "kubectl": KUBERNETES}
    found = binaries.find(wanted, Silent(), tmp_path / "mine", Makers(never, never))
    assert binaries.sentence(found) == (
        f"kube-apiserver from your folder ({tmp_path / 'mine'}); kubectl from the cache ({cache})"
    )


def test_a_version_that_is_not_pinned_names_those_that_are() -> None:
    other = releases.kubernetes("1.99.0")
    with pytest.raises(ProgramsMissingError, match=r"1\.37\.0, 1\.36\.3, .*make kube-pin VERSION=1\.99\.0"):
        binaries.find({"kubectl": other}, Silent(), None, Makers(download=unreachable))


@pytest.mark.parametrize("text", ["1.37", "v1.37.0", "1.37.x", "", "1.37.0-rc.1", "1.37.0.0"])
def test_what_is_no_version_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="--kubernetes: no version of Kubernetes"):
        releases.kubernetes(text)


class Site(http.server.SimpleHTTPRequestHandler):
    """A project's download site: the files that the test put there."""

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Path]:
    """The folder of a site; `sites` has its address."""
    folder = tmp_path / "site"
    folder.mkdir()

    def handler(*arguments: object) -> Site:
        return Site(*arguments, directory=str(folder))  # type: ignore[arg-type]

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        (folder / "port").write_text(str(server.server_port), encoding="utf-8")
        yield folder
        server.shutdown()
        thread.join()


def sites(site: Path) -> Sites:
    """The addresses of all projects, on our site."""
    url = f"http://127.0.0.1:{(site / 'port').read_text(encoding='utf-8')}"
    return Sites(
        kubernetes=f"{url}/kubernetes",
        etcd=f"{url}/etcd",
        kwok=f"{url}/kwok",
        containerd=f"{url}/containerd",
        cni_plugins=f"{url}/cni-plugins",
        runc=f"{url}/runc",
    )


def machine() -> str:
    """This machine in the words of Go."""
    return downloading.ARCHITECTURES[os.uname().machine]


def publish(path: Path, content: bytes) -> str:
    """Put a file onto the site and return its checksum."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return hashlib.sha256(content).hexdigest()


def fetched(release: Release, programs: Sequence[str], site: Path, digests: dict[str, str]) -> Path:
    """The folder with what came of a release, of which these digests are pinned."""
    target = site.parent / "target"
    target.mkdir()
    pinned = {f"{release.project}-{release.version}": digests}
    downloading.download(release, programs, target, Silent(), sites(site), pinned)
    return target


def place(release: Release, program: str, site: Path) -> tuple[str, Path]:
    """The name and the place on the site of the file that brings a program."""
    asset = asset_of(release, program, machine(), sites(site))
    return asset.name, site / asset.url.split("/", 3)[3]


@pytest.mark.parametrize("release", [KUBERNETES, releases.kwok(), releases.runc()])
def test_a_download_is_checked_against_the_digest_that_is_pinned(site: Path, release: Release) -> None:
    program = release.programs[0]
    name, path = place(release, program, site)
    target = fetched(release, [program], site, {name: publish(path, b"the program")})
    assert (target / program).read_bytes() == b"the program"
    assert os.access(target / program, os.X_OK)


@pytest.mark.parametrize("release", [KUBERNETES, releases.kwok(), releases.runc()])
def test_what_a_site_says_of_its_own_files_proves_nothing(site: Path, release: Release) -> None:
    program = release.programs[0]
    name, path = place(release, program, site)
    changed = publish(path, b"something else")
    for listing in (f"{path.name}.sha256", "runc.sha256sum", "SHA256SUMS"):
        publish(path.with_name(listing), f"{changed}  {path.name}".encode())
    with pytest.raises(DownloadError, match="is not what is pinned"):
        fetched(release, [program], site, {name: hashlib.sha256(b"the program").hexdigest()})
    assert list((site.parent / "target").iterdir()) == []


@pytest.mark.parametrize("release", [KUBERNETES, *releases.others()[:-1]])
def test_what_is_not_pinned_is_not_fetched(site: Path, release: Release) -> None:
    program = release.programs[0]
    name, path = place(release, program, site)
    publish(path.with_name(f"{path.name}.sha256"), publish(path, b"the program").encode())
    with pytest.raises(DownloadError) as refused:
        fetched(release, [program], site, {})
    assert f"no digest of {name} of {release.project} {release.version} is pinned" in str(refused.value)
    assert "make digest-pin" in str(refused.value)
    assert list((site.parent / "target").iterdir()) == []


@pytest.mark.usefixtures("cache")
def test_without_a_pinned_digest_it_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloading, "pinned_digests", dict)
    makers = Makers(downloading.download, making)
    found = binaries.find({"kubectl": KUBERNETES}, Silent(), None, makers)
    assert found["kubectl"].source is BinarySource.BUILD


@pytest.mark.parametrize("release", [releases.etcd(), releases.containerd(), releases.cni_plugins()])
def test_programs_come_out_of_the_archive_that_brings_them(site: Path, release: Release) -> None:
    programs = release.programs[:2]
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as opened:
        for program in programs:
            entry = tarfile.TarInfo(asset_of(release, program, machine(), sites(site)).member)
            entry.size = len(program)
            opened.addfile(entry, io.BytesIO(program.encode()))
    name, path = place(release, programs[0], site)
    target = fetched(release, programs, site, {name: publish(path, packed.getvalue())})
    assert {one.name: one.read_bytes().decode() for one in target.iterdir()} == dict(
        zip(programs, programs, strict=True)
    )


def test_what_is_pinned_are_digests_of_files_that_are_asked_for() -> None:
    every = (KUBERNETES, *releases.others()[:-1])
    names = {
        f"{release.project}-{release.version}": {
            asset_of(release, program, machine, Sites()).name
            for program in release.programs
            for machine in ARCHITECTURES.values()
        }
        for release in every
    }
    for release, files in pinned_digests(FILE).items():
        assert set(files) <= names.get(release, set(files))
        assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in files.values())


DIGESTS = ["a" * 64, "b" * 64]


def listing(release: Release, pairs: dict[str, str]) -> str:
    """The digests as the project of a release publishes them."""
    if release.project == "kwok":
        assets = [{"name": name, "digest": f"sha256:{digest}"} for name, digest in pairs.items()]
        return json.dumps({"assets": [{"name": "else"}, *assets]})
    if release.project == "kubernetes":
        return next(iter(pairs.values()))
    return f"{'0' * 64}  other\n" + "".join(f"{digest} *{name}\n" for name, digest in pairs.items())


@pytest.mark.parametrize("release", [KUBERNETES, *releases.others()[:-1]])
def test_digests_are_pinned_as_their_project_publishes_them(release: Release) -> None:
    names = {
        asset_of(release, program, machine, Sites()).name
        for program in release.programs
        for machine in ARCHITECTURES.values()
    }
    pairs = dict.fromkeys(names, DIGESTS[0])
    found = pin_digests.with_published({}, release, lambda _: listing(release, pairs), Sites())
    assert found == {f"{release.project}-{release.version}": pairs}
    other = dict.fromkeys(names, DIGESTS[1])
    with pytest.raises(DownloadError, match=r"pinned is aaa.*, published is bbb"):
        pin_digests.with_published(found, release, lambda _: listing(release, other), Sites())


@pytest.mark.parametrize("said", ["", "<html>", "a" * 63, '{"assets": [{"name": "kwok-linux-amd64"}]}'])
@pytest.mark.parametrize("release", [releases.etcd(), releases.kwok(), releases.runc()])
def test_what_is_no_digest_is_not_pinned(release: Release, said: str) -> None:
    with pytest.raises(DownloadError):
        pin_digests.with_published({}, release, lambda _: said, Sites())


@pytest.mark.parametrize(
    ("version", "expected"), [("1.1.5", BinarySource.PATH), ("1.0.3", BinarySource.BUILD)]
)
def test_any_runc_on_path_will_do_that_is_not_too_old(
    tmp_path: Path, version: str, expected: BinarySource
) -> None:
    put(tmp_path / "path", "runc", version)
    wanted = {"runc": releases.runc()}
    found = binaries.find(wanted, Silent(), None, Makers(unreachable, making))
    assert found["runc"].source is expected


def test_another_program_of_the_same_name_on_path_is_no_plugin(tmp_path: Path) -> None:
    release = releases.cni_plugins()
    put(tmp_path / "path", "bridge", release.version)
    found = binaries.find({"bridge": release}, Silent(), None, Makers(unreachable, making))
    assert found["bridge"].source is BinarySource.BUILD


def test_without_a_busybox_the_package_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ProgramsMissingError, match=r"install a static one .*busybox-static"):
        binaries.find({"busybox": releases.busybox()}, Silent(), None, Makers(download=unreachable))


def test_what_needs_c_is_not_built_without_a_compiler(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ProgramsMissingError, match=r"no gcc and no pkg-config; install runc itself"):
        binaries.find({"runc": releases.runc()}, Silent(), None, Makers(download=unreachable))


def test_a_release_that_is_not_there_is_told_with_its_address(site: Path) -> None:
    name, _ = place(KUBERNETES, "kubectl", site)
    with pytest.raises(DownloadError, match=r"/v1\.37\.0/.*/kubectl cannot be fetched: .*File not found"):
        fetched(KUBERNETES, ["kubectl"], site, {name: "0" * 64})
