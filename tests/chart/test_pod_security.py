"""On a real server: workloads are of Pod Security `restricted`, and the agent departs from it as we say."""

import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from gpufleet.localkube.cluster import LocalCluster
from tests.chart.rendering import FULL_VALUES, pod_specs, rendered
from tests.conventions.project import ROOT

NAMESPACE = "restricted"
WORKLOADS = ("Deployment gpufleet-scheduler", "Pod gpufleet-check", "Job gpufleet-leave")
AGENT = "DaemonSet gpufleet-agent"
DOCUMENT = ROOT / "docs" / "install.md"


@pytest.fixture(scope="module", autouse=True)
def namespace(cluster: LocalCluster) -> Iterator[None]:
    """A namespace that takes only pods of `restricted`."""
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}}
    with cluster.api() as api:
        api.call("POST", "/api/v1/namespaces", body)
        yield
        api.call("DELETE", f"/api/v1/namespaces/{NAMESPACE}")


def answer(cluster: LocalCluster, spec: dict[str, Any]) -> tuple[int, str]:
    """What the server says to such a pod; nothing is created."""
    own = {
        key: value
        for key, value in spec.items()
        if key not in {"serviceAccountName", "priorityClassName", "runtimeClassName"}
    }
    own["automountServiceAccountToken"] = False
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "tried", "namespace": NAMESPACE},
        "spec": {**own, "serviceAccountName": ""},
    }
    with cluster.api() as api:
        account = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
        api.request(
            "POST", account, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        )
        status, told = api.request("POST", f"/api/v1/namespaces/{NAMESPACE}/pods?dryRun=All", body)
    return status, str(msgspec.json.decode(told).get("message", ""))


@pytest.mark.parametrize("name", WORKLOADS)
@pytest.mark.parametrize("values", [None, FULL_VALUES], ids=["default", "full"])
def test_a_workload_is_accepted_where_only_restricted_pods_are(
    cluster: LocalCluster, name: str, values: Any
) -> None:
    status, message = answer(cluster, pod_specs(rendered(values))[name])
    assert status == 201, message


def exceptions(message: str) -> set[str]:
    """What the server objects to, without the names of containers."""
    _, _, listed = message.partition('violates PodSecurity "restricted:latest": ')
    return {one.partition(" (")[0] for one in re.split(r"\), ", listed) if one}


HOST_FOLDERS = {"device-plugins", "pod-resources", "cdi", "driver-usr", "driver-dev", "state"}
FOR_MPS = {"mps", "shared-memory"}
FOR_CLAIMS = {"plugin-gpu-nvidia-com", "plugin-gpu-amd-com", "plugin-gpu-intel-com", "plugins-registry"}


def test_the_agent_departs_from_it_in_these_points_alone(cluster: LocalCluster) -> None:
    status, message = answer(cluster, pod_specs(rendered())[AGENT])
    assert status == 403
    assert exceptions(message) == {
        "restricted volume types",
        "runAsNonRoot != true",
        "runAsUser=0",
    }
    assert host_folders(message) == HOST_FOLDERS


def host_folders(message: str) -> set[str]:
    """The folders of the node that the server objects to."""
    volumes = re.search(r"volumes? (.*?) uses? restricted volume type \"hostPath\"", message)
    assert volumes, message
    return set(re.findall(r'"([a-z-]+)"', volumes[1]))


def test_with_mps_it_needs_more(cluster: LocalCluster) -> None:
    without = answer(cluster, pod_specs(rendered())[AGENT])[1]
    message = answer(cluster, pod_specs(rendered({"agent.mps.enabled": True}))[AGENT])[1]
    assert exceptions(message) - exceptions(without) == {"host namespaces"}
    assert host_folders(message) - HOST_FOLDERS == FOR_MPS


def test_with_cards_for_claims_it_needs_folders_of_drivers_too(cluster: LocalCluster) -> None:
    without = answer(cluster, pod_specs(rendered())[AGENT])[1]
    message = answer(cluster, pod_specs(rendered({"agent.dra.cards": "all"}))[AGENT])[1]
    assert exceptions(message) == exceptions(without)
    assert host_folders(message) - HOST_FOLDERS == FOR_CLAIMS


def test_where_it_cuts_cards_it_has_the_capability_for_that(cluster: LocalCluster) -> None:
    without = answer(cluster, pod_specs(rendered())[AGENT])[1]
    message = answer(cluster, pod_specs(rendered({"agent.mig.layouts": True}))[AGENT])[1]
    assert exceptions(message) - exceptions(without) == {"unrestricted capabilities"}
    assert host_folders(message) == host_folders(without)


def test_with_accounting_it_sees_the_nodes_processes_too(cluster: LocalCluster) -> None:
    without = exceptions(answer(cluster, pod_specs(rendered())[AGENT])[1])
    found = exceptions(answer(cluster, pod_specs(rendered({"agent.accounting": True}))[AGENT])[1])
    assert found - without == {"host namespaces"}


def test_the_documents_list_every_exception() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    section = text.partition("## What the agent may do on a node")[2].partition("\n## ")[0]
    for wanted in ("runAsUser: 0", "hostPID", "SYS_ADMIN", *(f"`{name}`" for name in HOST_FOLDERS | FOR_MPS)):
        assert wanted in section, wanted
