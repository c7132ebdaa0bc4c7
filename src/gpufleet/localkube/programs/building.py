"""Builds programs from their pinned Go modules (`gomodules/`), which is the way on a machine that reaches
a Go module proxy but no release downloads.

go.sum fixes every byte that goes in. The build runs beside the cache at low priority and its results are
renamed in, so that an interrupted or a second build harms nothing. Only Go's own cache (about 3 GB, of use
to the next build) is left behind.
"""

import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

from gpufleet.localkube.processes.child import dying_with
from gpufleet.localkube.processes.process_errors import ProgramsMissingError
from gpufleet.localkube.programs.releases import Release, pinned_kubernetes_versions
from gpufleet.localkube.programs.toolchain import find_go
from gpufleet.progress.durations import Step
from gpufleet.progress.reporting import Progress

NICENESS = 5
"""A build takes minutes of all cores; other work on the machine goes first."""

ESTIMATES_S = {"kubernetes": 420.0, "etcd": 60.0, "kwok": 60.0, "containerd": 90.0, "karpenter": 240.0}
"""How long a build takes on two cores with an empty cache of Go."""

UNFINISHED = ".building-"
LINES_SHOWN = 15
"""The end of a failed build's output, where the error stands."""


def build(release: Release, programs: Sequence[str], folder: Path, progress: Progress) -> None:
    """Build these programs of one release into ``folder``; ProgramsMissingError if it cannot be done."""
    if not release.module:
        raise ProgramsMissingError(
            f"there is no {release.project} on PATH; install a static one (Debian's package is "
            f"{release.project}-static), or put it into the folder that --binaries names"
        )
    if not (release.pinned / "go.sum").is_file():
        raise ProgramsMissingError(
            f"{release.project} {release.version} cannot be built here: pinned are "
            f"{', '.join(pinned_kubernetes_versions())}; a checkout of gpufleet pins another with "
            f"`make kube-pin VERSION={release.version}`"
        )
    _check_c(release)
    go = find_go(progress)
    # Beside the target, so that a finished program gets its place by one rename.
    with tempfile.TemporaryDirectory(dir=folder, prefix=UNFINISHED) as name:
        beside = Path(name)
        for file in ("go.mod", "go.sum"):
            shutil.copy(release.pinned / file, beside)
        lines: list[str] = []
        what = f"building {', '.join(programs)} {release.version} from Go modules"
        step = Step(f"build {release.project} {len(programs)}", ESTIMATES_S.get(release.project, 60.0))
        with progress.during(what, lambda: f"{len(lines)} packages compiled", step):
            for command in _commands(go, release, programs, beside):
                _run(command, beside, lines, release)
        for program in programs:
            (beside / "bin" / program).replace(folder / program)


def _commands(go: Path, release: Release, programs: Sequence[str], beside: Path) -> list[list[str]]:
    """One build for all programs where each package is named after its program, else one build a program."""
    packages = dict(release.packages)
    flags = ["build", "-v", "-trimpath", "-ldflags", f"-s -w {release.linker_flags}".strip()]
    if release.tags:
        flags += ["-tags", ",".join(release.tags)]
    start = ["nice", "-n", str(NICENESS), str(go), *flags, "-o"]
    if all(packages[program].endswith(f"/{program}") for program in programs):
        return [[*start, f"{beside / 'bin'}/", *(packages[program] for program in programs)]]
    return [[*start, str(beside / "bin" / program), packages[program]] for program in programs]


def _check_c(release: Release) -> None:
    """What a release needs of C is there; ProgramsMissingError with the easier way out where it is not."""
    if not release.needs_c:
        return
    tools = [tool for tool in ("gcc", "pkg-config") if shutil.which(tool) is None]
    libraries = [] if tools else [one for one in release.needs_c if not _has_library(one)]
    if tools or libraries:
        raise ProgramsMissingError(
            f"{release.project} cannot be built here: there is no {' and no '.join(tools or libraries)}; "
            f"install {release.project} itself (Debian's package has that name), "
            "or put it into the folder that --binaries names"
        )


def _has_library(name: str) -> bool:
    return subprocess.run(["pkg-config", "--exists", name], check=False).returncode == 0  # noqa: S607


def _run(command: Sequence[str], folder: Path, lines: list[str], release: Release) -> None:
    """Run Go, collecting what it says line by line."""
    with_c = "1" if release.needs_c else "0"
    go_settings = {"CGO_ENABLED": with_c, "GOWORK": "off", "GOFLAGS": "-mod=readonly"}
    # A distribution's Go may be set to refuse modules that want a newer one.
    environment = {**os.environ, **go_settings, "GOTOOLCHAIN": "auto"}
    (folder / "bin").mkdir(exist_ok=True)
    with subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        preexec_fn=dying_with(os.getpid()),  # noqa: PLW1509  one system call, nothing that can lock
    ) as running:
        reader = threading.Thread(target=lambda: lines.extend(running.stderr or ()))
        reader.start()
        try:
            running.wait()
        except BaseException:
            running.terminate()
            raise
        finally:
            reader.join()
    if running.returncode != 0:
        said = "".join(f"  {line}" for line in lines[-LINES_SHOWN:])
        raise ProgramsMissingError(
            f"the build of {release.project} {release.version} failed; Go said last:\n{said}"
        )
