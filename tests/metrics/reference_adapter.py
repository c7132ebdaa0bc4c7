"""The project's own test adapter of custom and external metrics, which answers are compared with.

It is the example of ``sigs.k8s.io/custom-metrics-apiserver``: values are put into it by HTTP, and it serves
them as that library does. ``python -m tests.metrics.reference_adapter`` builds it from Go modules that are
pinned here; ``--pin`` pins them anew. A test asks for the program and builds nothing.
"""

import sys
from functools import cache
from pathlib import Path

from gpufleet.localkube.processes.process_errors import ProgramsMissingError
from gpufleet.localkube.programs import binaries
from gpufleet.localkube.programs.pin_modules import pin
from gpufleet.localkube.programs.releases import Release
from gpufleet.model.model_errors import GpufleetError
from gpufleet.progress.reporting import Silent, ToPerson
from tests.lacking import lacking
from tests.localkube.cluster import refuse_build, refuse_download

PINS = Path(__file__).with_name("gomodules")
MODULE = "sigs.k8s.io/custom-metrics-apiserver"
NAME = "test-adapter"
ADAPTER = Release(
    project="custom-metrics-apiserver",
    version="1.37.0",
    module=MODULE,
    packages=((NAME, f"{MODULE}/test-adapter"),),
    linker_flags="",
    from_path=False,
    pins=PINS,
)


@cache
def program() -> Path:
    """The adapter; skips the test, or fails it in CI, where it is not in the cache."""
    makers = binaries.Makers(download=refuse_download, build=refuse_build)
    try:
        return binaries.find({NAME: ADAPTER}, Silent(), makers=makers)[NAME].path
    except ProgramsMissingError:
        lacking(f"there is no {NAME} {ADAPTER.version}: make metrics-reference")


def main(arguments: list[str]) -> None:
    """Fill the cache, or pin the modules."""
    if arguments == ["--pin"]:
        pin(ADAPTER)
        return
    progress = ToPerson("metrics: ")
    progress.say(binaries.sentence(binaries.find({NAME: ADAPTER}, progress)))


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except GpufleetError as error:
        raise SystemExit(f"metrics: {error}") from error
