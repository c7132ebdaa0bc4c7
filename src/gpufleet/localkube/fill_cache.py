"""Puts the programs of a control plane into the cache ahead of time: ``make kube``, CI, images.

``python -m gpufleet.localkube.fill_cache [VERSION]``; it is what `up` would do at its first start. A warm
cache takes no time.
"""

import sys

from gpufleet.localkube import binaries, releases
from gpufleet.localkube.progress import ToPerson
from gpufleet.model.errors import GpufleetError

NOT_FOR_THE_CONTROL_PLANE = "kubelet"


def main(version: str = releases.DEFAULT_KUBERNETES) -> None:
    """Find or make every program that a simulated cluster of this version and its tests need."""
    wanted = {
        program: release
        for release in (releases.kubernetes(version), releases.etcd(), releases.kwok())
        for program in release.programs
        if program != NOT_FOR_THE_CONTROL_PLANE
    }
    progress = ToPerson("kube: ")
    progress.say(binaries.sentence(binaries.find(wanted, progress)))


if __name__ == "__main__":
    try:
        main(*sys.argv[1:2])
    except GpufleetError as error:
        raise SystemExit(f"kube: {error}") from error
