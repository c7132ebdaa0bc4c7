"""A real control plane for tests: fixtures and builders that other packages' tests use too.

    from tests.localkube.cluster import cluster  # noqa: F401  a fixture

`cluster` is one for the whole session; who stops programs or needs other flags starts an own one with
`a_cluster`, with a real node where asked for (`real_node` has verbs for its pods). The programs must be there
already (`make kube`): a test builds nothing. Without them, or without the rights for a real node, a test is
skipped and says so, but in CI it fails.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from gpufleet.cli import up
from gpufleet.localkube import manifests
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.localkube.control_plane import Component, Options, needed_programs
from gpufleet.localkube.node import configuration, machine
from gpufleet.localkube.processes.process_errors import DownloadError, ProgramsMissingError
from gpufleet.localkube.programs import binaries
from gpufleet.localkube.programs.releases import DEFAULT_KUBERNETES, release_of
from gpufleet.progress.reporting import Silent
from tests.lacking import lacking

KUBERNETES = os.environ.get("GPUFLEET_TEST_KUBERNETES") or DEFAULT_KUBERNETES
"""The version that tests run on; `make test-kube VERSION=...` sets it."""


def refuse_download(*_: object) -> None:
    """A test fetches nothing."""
    raise DownloadError("tests download nothing")


def refuse_build(*_: object) -> None:
    """A test builds nothing."""
    raise ProgramsMissingError("tests build nothing")


@cache
def program(name: str, kubernetes: str = KUBERNETES) -> Path:
    """The path of a program of the control plane; skips the test, or fails it in CI, without it."""
    makers = binaries.Makers(download=refuse_download, build=refuse_build)
    try:
        wanted = {name: release_of(name, kubernetes)}
        return binaries.find(wanted, Silent(), makers=makers)[name].path
    except ProgramsMissingError:
        lacking(f"there is no {name} for Kubernetes {kubernetes}: make kube VERSION={kubernetes}")


def real_node_programs() -> Mapping[str, Path]:
    """The paths of what a real node needs; skips the test, or fails it in CI, where there can be none."""
    problem = machine.problem()
    if problem is not None:
        lacking(problem)
    return {name: program(name) for name in configuration.PROGRAMS}


def all_programs(options: Options) -> Mapping[str, Path]:
    """The paths of what a cluster of these options needs."""
    return {name: program(name, options.kubernetes) for name in needed_programs(options)}


@contextmanager
def a_cluster(
    folder: Path,
    name: str = "test",
    options: Options | None = None,
    *,
    real_node: bool = False,
    components: Sequence[Component] = (),
) -> Iterator[LocalCluster]:
    """A cluster of one's own below ``folder``, gone at the end of the block.

    With ``real_node`` its `node` is Ready. ``components`` start when the caller says `furnished`.
    """
    chosen = options or Options(kubernetes=KUBERNETES)
    if real_node:
        real_node_programs()
        chosen = replace(chosen, real_node=True)
    programs = all_programs(chosen)
    with LocalCluster.start(folder / name, name, programs, chosen, components=components) as running:
        if real_node:
            with running.api() as api:
                running.node.await_ready(api)
        yield running


@contextmanager
def a_scheduled_real_node(folder: Path, name: str) -> Iterator[LocalCluster]:
    """A cluster with a real node, our manifests, and our scheduler at work."""
    parts = up.components()
    with a_cluster(folder, name, real_node=True, components=parts) as running:
        with running.api() as api:
            manifests.install(api)
        running.furnished()
        for part in parts:
            running.await_component(part)
        yield running


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """One cluster for all tests of a module; a test leaves no objects of the cluster's scope behind.

    It ends with the module: beside other tests, a cluster at rest costs in a minute and a half what its start
    does.
    """
    with a_cluster(tmp_path_factory.mktemp("clusters")) as running:
        yield running
