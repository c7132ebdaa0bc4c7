"""One broken cluster for the tests of this folder; each test finds it healthy and leaves it so."""

from collections.abc import Iterator

import pytest

from gpufleet.cli import up
from gpufleet.localkube import manifests, simulated_nodes
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.localkube.control_plane import Options
from gpufleet.localkube.simulated_nodes import SimulatedNodes, gpu_model
from tests.doctor.patient import Patient
from tests.localkube.cluster import KUBERNETES, a_cluster

NODES = 6


@pytest.fixture(scope="package")
def ward(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """What `gpufleet up` starts: a few simulated nodes, and the scheduler at work."""
    parts = up.components()
    options = Options(kubernetes=KUBERNETES)
    with a_cluster(tmp_path_factory.mktemp("ward"), "ward", options, components=parts) as running:
        with running.api() as api:
            manifests.install(api)
        simulated_nodes.create(running, SimulatedNodes(NODES, 8, gpu_model("H100-80GB")))
        running.furnished()
        for part in parts:
            running.await_component(part)
        yield running


@pytest.fixture
def patient(ward: LocalCluster) -> Iterator[Patient]:
    """The cluster, healthy before and after."""
    with ward.api() as api:
        found = Patient(ward, api)
        found.is_healthy()
        try:
            yield found
        finally:
            found.heal()
        found.is_healthy()
