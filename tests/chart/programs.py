"""helm and kubeconform, which only the tests of the chart need: built from Go modules that are pinned here.

``python -m tests.chart.programs`` fills the cache with them (`make chart-programs`); ``--pin`` pins the
modules anew, for whoever changes a version. A test asks for a program and builds nothing.
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
HELM = Release(
    project="helm",
    version="4.3.1",
    module="helm.sh/helm/v4",
    packages=(("helm", "helm.sh/helm/v4/cmd/helm"),),
    linker_flags="-X helm.sh/helm/v4/internal/version.version=v4.3.1",
    from_path=False,
    pins=PINS,
)
KUBECONFORM = Release(
    project="kubeconform",
    version="0.8.0",
    module="github.com/yannh/kubeconform",
    packages=(("kubeconform", "github.com/yannh/kubeconform/cmd/kubeconform"),),
    linker_flags="-X main.version=v0.8.0",
    from_path=False,
    pins=PINS,
)
RELEASES = (HELM, KUBECONFORM)


@cache
def program(release: Release) -> Path:
    """The program of a release; skips the test, or fails it in CI, where it is not in the cache."""
    makers = binaries.Makers(download=refuse_download, build=refuse_build)
    (name,) = release.programs
    try:
        return binaries.find({name: release}, Silent(), makers=makers)[name].path
    except ProgramsMissingError:
        lacking(f"there is no {name} {release.version}: make chart-programs")


def main(arguments: list[str]) -> None:
    """Fill the cache, or pin the modules."""
    if arguments == ["--pin"]:
        for release in RELEASES:
            pin(release)
        return
    progress = ToPerson("chart: ")
    wanted = {name: release for release in RELEASES for name in release.programs}
    progress.say(binaries.sentence(binaries.find(wanted, progress)))


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except GpufleetError as error:
        raise SystemExit(f"chart: {error}") from error
