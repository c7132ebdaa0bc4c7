"""Finds the programs of a control plane, in this order, and says which it took from where:

1. the folder that the user names (``--binaries`` or GPUFLEET_KUBE_BINARIES),
2. PATH, if the program there is of exactly the wanted version (of runc: any that is not too old),
3. the cache,
   and for kubectl then PATH again where the caller allows it: a client of another version will do, and a
   build takes long,
4. the official download, where its digest is pinned (`downloading`),
5. a build from pinned Go modules (`building`).

4 and 5 fill the cache under a lock, so that two commands at once do the work once.
"""

import enum
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpufleet.localkube.processes.folders import binaries_cache, locked
from gpufleet.localkube.processes.process_errors import DownloadError, ProgramsMissingError
from gpufleet.localkube.programs import building, downloading
from gpufleet.localkube.programs.releases import Release
from gpufleet.model.model_errors import InputError, printable
from gpufleet.progress.reporting import Progress

CLIENT = "kubectl"
"""The one program that only people call, so that its version matters little."""

FOLDER_VARIABLE = "GPUFLEET_KUBE_BINARIES"
VERSION = re.compile(r"v?(\d+\.\d+\.\d+(?:-[0-9A-Za-z.-]+)?)")
# All others answer to --version.
VERSION_ARGUMENTS = {"kubectl": ("version", "--client"), "busybox": ("--help",)}
# A program tells its version in milliseconds, unless it is not what it should be.
VERSION_WAIT_S = 20.0


class BinarySource(enum.Enum):
    """Where a program was found."""

    FOLDER = "your folder"
    PATH = "PATH"
    CACHE = "the cache"
    DOWNLOAD = "the official download"
    BUILD = "a build of Go modules"


@dataclass(frozen=True, slots=True)
class FoundBinary:
    """A program and where it comes from."""

    path: Path
    source: BinarySource


Maker = Callable[[Release, Sequence[str], Path, Progress], None]


@dataclass(frozen=True, slots=True)
class Makers:
    """How the cache is filled; tests have their own."""

    download: Maker = downloading.download
    build: Maker = building.build


def find(
    wanted: Mapping[str, Release],
    progress: Progress,
    folder: Path | None = None,
    makers: Makers | None = None,
    *,
    any_client: bool = False,
) -> dict[str, FoundBinary]:
    """Every wanted program (by name, with the release it is part of), made if it is nowhere.

    ``folder`` is the user's; without one the environment may name it. With ``any_client`` a kubectl of
    another version on PATH does where nothing better is at hand. InputError if that folder holds a
    Kubernetes program of another version, ProgramsMissingError if a program cannot be had.
    """
    named = folder or _folder_of_environment()
    found: dict[str, FoundBinary] = {}
    for program, release in wanted.items():
        here = _there(program, release, named)
        if here is not None:
            found[program] = here
    if any_client and CLIENT in wanted and CLIENT not in found:
        other = _client_of_another_version(wanted[CLIENT], progress)
        if other is not None:
            found[CLIENT] = other
    missing = {program: release for program, release in wanted.items() if program not in found}
    for release in dict.fromkeys(missing.values()):
        programs = [program for program, its in missing.items() if its == release]
        source = _make(release, programs, progress, makers or Makers())
        cached = binaries_cache() / release.folder_name
        found |= {program: FoundBinary(cached / program, source) for program in programs}
    return found


def sentence(found: Mapping[str, FoundBinary]) -> str:
    """Which programs came from where, in one line."""
    by_place: dict[str, list[str]] = {}
    for program, one in found.items():
        place = f"{one.source.value} ({one.path.parent})"
        by_place.setdefault(place, []).append(program)
    return "; ".join(f"{', '.join(programs)} from {place}" for place, programs in by_place.items())


def paths(found: Mapping[str, FoundBinary]) -> dict[str, Path]:
    """The path of each program."""
    return {program: one.path for program, one in found.items()}


def version_of(program: Path) -> str | None:
    """The version a program says it has, None if it says none."""
    arguments = VERSION_ARGUMENTS.get(program.name, ("--version",))
    try:
        done = subprocess.run(
            [program, *arguments], capture_output=True, text=True, check=False, timeout=VERSION_WAIT_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    said = VERSION.search(done.stdout)
    return None if said is None else said[1]


def _folder_of_environment() -> Path | None:
    named = os.environ.get(FOLDER_VARIABLE)
    return Path(named) if named else None


def _there(program: str, release: Release, named: Path | None) -> FoundBinary | None:
    """The program in the user's folder, on PATH or in the cache."""
    if named is not None and _is_program(named / program):
        _check_version(named / program, release)
        return FoundBinary((named / program).absolute(), BinarySource.FOLDER)
    on_path = shutil.which(program) if release.from_path else None
    if on_path is not None and _is_wanted(version_of(Path(on_path)), release):
        return FoundBinary(Path(on_path).absolute(), BinarySource.PATH)
    cached = binaries_cache() / release.folder_name / program
    return FoundBinary(cached, BinarySource.CACHE) if _is_program(cached) else None


def _client_of_another_version(release: Release, progress: Progress) -> FoundBinary | None:
    """The kubectl on PATH, with a word about its version."""
    on_path = shutil.which(CLIENT)
    version = None if on_path is None else version_of(Path(on_path))
    if on_path is None or version is None:
        return None
    progress.say(
        f"using {on_path}, which is kubectl {version}, with Kubernetes {release.version}: "
        "Kubernetes supports a client one minor version away, and most commands work with others"
    )
    return FoundBinary(Path(on_path).absolute(), BinarySource.PATH)


def _is_wanted(version: str | None, release: Release) -> bool:
    """Whether a program on PATH of this version will do."""
    if version is None or release.oldest is None:
        return version == release.version
    numbers = version.partition("-")[0].split(".")
    return tuple(int(number) for number in numbers) >= release.oldest


def _check_version(program: Path, release: Release) -> None:
    """The user's other programs may be of any version; a Kubernetes of another needs other flags."""
    if release.project != "kubernetes":
        return
    version = version_of(program)
    if version != release.version:
        raise InputError(
            "is another version of Kubernetes than asked for",
            field=str(program),
            value=version or "no version",
            expected=f"{release.version}, or --kubernetes with the folder's own",
        )


def _make(release: Release, programs: Sequence[str], progress: Progress, makers: Makers) -> BinarySource:
    """Fill the cache with these programs and say how."""
    folder = binaries_cache() / release.folder_name
    folder.mkdir(parents=True, exist_ok=True)
    lock = binaries_cache() / f".{release.folder_name}.lock"
    with locked(lock, progress, f"fetches or builds {release.project} {release.version}"):
        lacking = _lacking(folder, programs)
        if not lacking:
            # Another command made them while this one waited for the lock.
            return BinarySource.CACHE
        _remove_unfinished(folder)
        try:
            makers.download(release, lacking, folder, progress)
        except DownloadError as failure:
            progress.say(f"no official download: {printable(str(failure), 300)}")
            makers.build(release, lacking, folder, progress)
            source = BinarySource.BUILD
        else:
            source = BinarySource.DOWNLOAD
        lacking = _lacking(folder, programs)
    if lacking:
        raise ProgramsMissingError(f"{', '.join(lacking)} {release.version} did not come into {folder}")
    return source


def _remove_unfinished(folder: Path) -> None:
    """Remove what a killed command left; no other command is at it, because the lock is ours."""
    for prefix in (building.UNFINISHED, downloading.UNFINISHED):
        for left in folder.glob(f"{prefix}*"):
            shutil.rmtree(left, ignore_errors=True)


def _lacking(folder: Path, programs: Iterable[str]) -> list[str]:
    return [program for program in programs if not _is_program(folder / program)]


def _is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)
