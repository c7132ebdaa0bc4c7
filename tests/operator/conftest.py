"""A real API server with everything installed, one for each module of tests."""

from collections.abc import Iterator

import pytest

from gpufleet.localkube.cluster import LocalCluster
from tests.kube.manifests.real_server import Person, install_all
from tests.localkube.cluster import a_cluster
from tests.operator.real_server import Stage


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A cluster in which everything is installed."""
    with a_cluster(tmp_path_factory.mktemp("operator")) as cluster:
        install_all(cluster)
        yield cluster


@pytest.fixture(scope="module")
def admin(installed: LocalCluster) -> Iterator[Person]:
    """An administrator."""
    with Person(installed, "root", ("system:masters",)) as person:
        yield person


@pytest.fixture
def stage(admin: Person) -> Iterator[Stage]:
    """A stage of a test's own."""
    found = Stage(admin)
    yield found
    found.end()
