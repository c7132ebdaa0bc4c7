"""On a real API server: which FleetPolicies it takes, and what people see of them."""

from collections.abc import Iterator
from typing import Any

import pytest

from gpufleet.localkube.cluster import LocalCluster
from tests.kube.codec.policy_cases import CASES, Case
from tests.kube.manifests.real_server import Person, install_all
from tests.localkube.cluster import a_cluster

POLICIES = "/apis/gpufleet.io/v1alpha1/fleetpolicies"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A cluster in which everything is installed."""
    with a_cluster(tmp_path_factory.mktemp("policies")) as cluster:
        install_all(cluster)
        yield cluster


@pytest.fixture(scope="module")
def admin(installed: LocalCluster) -> Iterator[Person]:
    """An administrator."""
    with Person(installed, "root", ("system:masters",)) as person:
        yield person


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_server_takes_what_the_codec_takes(admin: Person, case: Case) -> None:
    status, answer = admin.ask("POST", f"{POLICIES}?dryRun=All", case.object())
    if case.unreadable or case.refused:
        assert status in {400, 422}, answer
    else:
        assert status == 201, answer


def test_it_is_of_the_whole_cluster_and_has_a_status_of_its_own(admin: Person) -> None:
    (case,) = (one for one in CASES if one.what == "everything")
    status, _ = admin.ask("POST", POLICIES, case.object())
    assert status == 201
    path = f"{POLICIES}/all-gpus"
    told: dict[str, Any] = {"status": {"selected": 3, "observedGeneration": 1}}
    status, answer = admin.merge(f"{path}/status", told)
    assert status == 200
    assert answer["metadata"]["generation"] == 1
    status, answer = admin.merge(path, {"status": {"selected": 9}})
    assert answer["status"]["selected"] == 3
    assert admin.ask("DELETE", path)[0] == 200
