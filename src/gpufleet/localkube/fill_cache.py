"""Puts the programs of a local cluster into the cache ahead of time: ``make kube``, CI, images.

``python -m gpufleet.localkube.fill_cache [VERSION [PROGRAM...]]``; it is what `up` would do at its first
start. A warm cache takes no time. What a real node needs comes along where there can be one, unless programs
are named.
"""

import sys

from gpufleet.localkube.node import configuration, machine
from gpufleet.localkube.processes.process_errors import ProgramsMissingError
from gpufleet.localkube.programs import binaries, releases
from gpufleet.model.model_errors import GpufleetError
from gpufleet.progress.reporting import ToPerson


def main(version: str = releases.DEFAULT_KUBERNETES, *named: str) -> None:
    """Find or make the programs that are named, or all that a cluster of this version and its tests need."""
    progress = ToPerson("kube: ")
    if named:
        wanted = {name: releases.release_of(name, version) for name in named}
        progress.say(binaries.sentence(binaries.find(wanted, progress)))
        return
    found = (releases.kubernetes(version), releases.etcd(), releases.kwok())
    programs = [name for release in found for name in release.programs if name not in configuration.PROGRAMS]
    wanted = {name: releases.release_of(name, version) for name in programs}
    progress.say(binaries.sentence(binaries.find(wanted, progress)))
    problem = machine.problem()
    if problem is None:
        try:
            wanted = {name: releases.release_of(name, version) for name in configuration.PROGRAMS}
            progress.say(binaries.sentence(binaries.find(wanted, progress)))
        except ProgramsMissingError as missing:
            problem = str(missing)
    if problem is not None:
        progress.say(f"without a real node: {problem}")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except GpufleetError as error:
        raise SystemExit(f"kube: {error}") from error
