"""Debian's part of the image: its Python, the C library, and what compiled Python packages need of C++.

The packages come from the sources that this machine's apt is set up with, and apt checks their signatures.
Its lists are kept in a folder of ours: nothing of the machine's own apt is touched, and no right is needed. A
shell, a package manager and documentation stay out; licences stay in.
"""

import shlex
import subprocess
import tarfile
import time
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from image.command import output_of
from image.errors import ImageError

PYTHON = "python3.11"
PACKAGES = (
    "libbz2-1.0",
    "libc-bin",
    "libc6",
    "libcrypt1",
    "libexpat1",
    "libffi8",
    "libgcc-s1",
    "liblzma5",
    f"lib{PYTHON}-minimal",
    f"lib{PYTHON}-stdlib",
    "libssl3",
    "libstdc++6",
    "libuuid1",
    f"{PYTHON}-minimal",
    "zlib1g",
)
"""What our dependencies load, without the libraries of modules that nobody imports (curses, sqlite)."""

LISTS_LAST_S = 24 * 3600.0
UNWANTED = (
    "usr/share/doc",
    "usr/share/lintian",
    "usr/share/locale",
    "usr/share/man",
    "usr/share/binfmts",
    "usr/share/gcc",
    "usr/share/gdb",
    f"usr/lib/{PYTHON}/ensurepip",
    f"usr/lib/{PYTHON}/lib2to3",
    f"usr/lib/{PYTHON}/pydoc_data",
    f"usr/lib/{PYTHON}/test",
    f"usr/lib/{PYTHON}/turtledemo",
)
LICENCE = "copyright"


def fetch(folder: Path, architecture: str) -> tuple[Path, ...]:
    """The packages' files in ``folder``, fetched as far as they are not there yet; in a fixed order.

    ``architecture`` is Debian's name for the machine that they are for, this one or another.

    Raises ImageError where apt cannot, or offers no such Python.
    """
    apt = _apt(folder, architecture)
    debs = folder / "packages"
    debs.mkdir(parents=True, exist_ok=True)
    _refresh(apt, folder)
    asked = [*apt, "download", "--print-uris", *PACKAGES]
    what = f"finding {PYTHON} and its libraries in apt's sources (Debian 12 has them)"
    lines = output_of(asked, what).splitlines()
    names = {_package(words[1]): words[1] for words in map(shlex.split, lines) if len(words) >= 3}
    lacking = [package for package, name in names.items() if not (debs / name).is_file()]
    if lacking:
        output_of([*apt, "download", *lacking], f"fetching {', '.join(lacking)}", folder=debs)
    files = tuple(debs / names[package] for package in sorted(names))
    gone = [str(file.name) for file in files if not file.is_file()]
    if gone or len(files) != len(PACKAGES):
        raise ImageError(f"apt did not bring every package; {len(files)} of {len(PACKAGES)} are there")
    return files


def unpack(packages: Sequence[Path], root: Path) -> None:
    """Put the packages' files below ``root``; their scripts are not run."""
    for package in packages:
        command = ["dpkg-deb", "--fsys-tarfile", str(package)]
        with (
            subprocess.Popen(command, stdout=subprocess.PIPE) as opened,
            tarfile.open(fileobj=opened.stdout, mode="r|") as archive,
        ):
            for member in archive:
                if is_wanted(member.name):
                    archive.extract(member, root, filter="tar")
        if opened.returncode != 0:
            raise ImageError(f"{package} cannot be unpacked: dpkg-deb ended with {opened.returncode}")


def is_wanted(name: str) -> bool:
    """Whether a file of a package shall be in the image."""
    path = PurePosixPath(name)
    return path.name == LICENCE or not any(path.is_relative_to(unwanted) for unwanted in UNWANTED)


def _apt(folder: Path, architecture: str) -> tuple[str, ...]:
    """apt-get with lists and caches of its own, for one machine."""
    own = {
        "Dir::State::Lists": folder / "lists",
        "Dir::Cache": folder / "cache",
        "Debug::NoLocking": "true",
        "APT::Sandbox::User": "",
        "APT::Get::List-Cleanup": "false",
        # What is installed on this machine says nothing of another one.
        "Dir::State::status": folder / "nothing-installed",
        "APT::Architecture": architecture,
        "APT::Architectures": architecture,
    }
    for name in ("lists/partial", "cache/archives/partial"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "nothing-installed").touch()
    options = [word for key, value in own.items() for word in ("-o", f"{key}={value}")]
    return ("apt-get", "--quiet", "--quiet", *options)


def _refresh(apt: Sequence[str], folder: Path) -> None:
    """Ask the sources what they have, once a day."""
    stamp = folder / "refreshed"
    if stamp.is_file() and time.time() - stamp.stat().st_mtime < LISTS_LAST_S:
        return
    output_of([*apt, "update"], "asking apt's sources what they have")
    stamp.touch()


def _package(file: str) -> str:
    return file.partition("_")[0]
