"""Karpenter with its own provider of simulated nodes, built from Go modules that are pinned here.

``python -m tests.karpenter.programs`` builds it and puts the definitions of its kinds beside it
(`make scale-programs`); ``--pin`` pins the modules anew. A test asks for them and builds nothing.
"""

import json
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

from gpufleet.localkube.processes.folders import binaries_cache
from gpufleet.localkube.processes.process_errors import ProgramsMissingError
from gpufleet.localkube.programs import binaries
from gpufleet.localkube.programs.pin_modules import pin
from gpufleet.localkube.programs.releases import Release
from gpufleet.localkube.programs.toolchain import find_go
from gpufleet.model.model_errors import GpufleetError
from gpufleet.progress.reporting import Silent, ToPerson
from tests.lacking import lacking
from tests.localkube.cluster import refuse_build, refuse_download

MODULE = "sigs.k8s.io/karpenter"
NAME = "karpenter-kwok"
KARPENTER = Release(
    project="karpenter",
    version="1.15.0",
    module=MODULE,
    packages=((NAME, f"{MODULE}/kwok"),),
    linker_flags="",
    from_path=False,
    pins=Path(__file__).with_name("gomodules"),
)
DEFINITIONS = ("kwok/charts/crds", "kwok/apis/crds")
"""Folders of the module with a file for each of its kinds."""


@cache
def program() -> Path:
    """Karpenter; skips the test, or fails it in CI, where it is not in the cache."""
    makers = binaries.Makers(download=refuse_download, build=refuse_build)
    try:
        return binaries.find({NAME: KARPENTER}, Silent(), makers=makers)[NAME].path
    except ProgramsMissingError:
        lacking(f"there is no {NAME} {KARPENTER.version}: make scale-programs")


def definitions() -> list[Path]:
    """The files that define its kinds."""
    found = sorted(_definitions().glob("*.yaml"))
    if not found:
        lacking(f"there are no definitions of Karpenter {KARPENTER.version}: make scale-programs")
    return found


def _definitions() -> Path:
    return binaries_cache() / KARPENTER.folder_name / "definitions"


def _take_definitions(go: Path) -> None:
    """Put them beside the program. The module is the one whose content go.sum fixes."""
    environment = {**os.environ, "GOWORK": "off", "GOFLAGS": "-mod=readonly", "GOTOOLCHAIN": "auto"}
    done = subprocess.run(
        [go, "mod", "download", "-json", MODULE],
        cwd=KARPENTER.pinned,
        env=environment,
        stdout=subprocess.PIPE,
        check=True,
    )
    module = Path(json.loads(done.stdout)["Dir"])
    _definitions().mkdir(exist_ok=True)
    for folder in DEFINITIONS:
        for file in (module / folder).glob("*.yaml"):
            shutil.copyfile(file, _definitions() / file.name)


def main(arguments: list[str]) -> None:
    """Fill the cache, or pin the modules."""
    if arguments == ["--pin"]:
        pin(KARPENTER)
        return
    progress = ToPerson("scale: ")
    progress.say(binaries.sentence(binaries.find({NAME: KARPENTER}, progress)))
    if not any(_definitions().glob("*.yaml")):
        _take_definitions(find_go(progress))


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except GpufleetError as error:
        raise SystemExit(f"scale: {error}") from error
