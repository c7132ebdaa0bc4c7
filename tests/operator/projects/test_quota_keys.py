"""Which keys of a quota count: the controller of a real cluster, asked, and what a project takes."""

from typing import Any

from gpufleet.model.gpu_project import check_quota_key
from gpufleet.model.model_errors import InputError
from tests.kube.manifests.real_server import Person, until
from tests.operator.projects.real_projects import NAMESPACES, made

KEYS = (
    # Of the tests of Kubernetes' own evaluators: pkg/quota/v1/evaluator/core, pods, claims and volume claims.
    "cpu",
    "requests.cpu",
    "limits.cpu",
    "memory",
    "requests.memory",
    "limits.memory",
    "ephemeral-storage",
    "requests.ephemeral-storage",
    "limits.ephemeral-storage",
    "hugepages-2Mi",
    "requests.hugepages-2Mi",
    "requests.example.com/dongle",
    "requests.deviceclass.resource.kubernetes.io/dongle",
    "pods",
    "count/pods",
    "count/resourceclaims.resource.k8s.io",
    "gpu.deviceclass.resource.k8s.io/devices",
    "requests.storage",
    "persistentvolumeclaims",
    "gold.storageclass.storage.k8s.io/requests.storage",
    "gold.storageclass.storage.k8s.io/persistentvolumeclaims",
    # What people write, and the API server takes.
    "requests.nvidia.com/gpu",
    "requests.nvidia.com/mig-1g.10gb",
    "requests.gpufleet.io/gpu-share",
    "nvidia.com/gpu",
    "limits.nvidia.com/gpu",
    "bronze.deviceclass.resource.k8s.io/storage",
    "bronze.storageclass.storage.k8s.io/devices",
    "services.loadbalancers",
    "count/jobs.batch",
)

REFUSED = ("gpus", "limits.hugepages-2Mi", "limits.storage")
"""Keys with which no quota is made."""


def counted(admin: Person) -> dict[str, Any]:
    """What the cluster says is used of each key of a quota that names all of them."""
    namespace = f"{NAMESPACES}/counted"
    made(admin, NAMESPACES, {"metadata": {"name": "counted"}})
    hard = dict.fromkeys(KEYS, "10")
    made(admin, f"{namespace}/resourcequotas", {"metadata": {"name": "all"}, "spec": {"hard": hard}})

    def used() -> dict[str, Any]:
        found = admin.ask("GET", f"{namespace}/resourcequotas/all")[1].get("status", {}).get("used", {})
        return dict(found)

    # The amounts come in one write of the controller.
    until(lambda: "pods" in used())
    return used()


def takes(key: str) -> bool:
    """Whether a project may have the key in the quota of its namespaces."""
    try:
        check_quota_key(key, "namespaceQuota")
    except InputError:
        return False
    return True


def test_a_project_takes_the_keys_that_the_cluster_counts_and_no_others(admin: Person) -> None:
    assert {key for key in KEYS if takes(key)} == set(counted(admin))


def test_a_project_takes_no_key_that_the_cluster_refuses(admin: Person) -> None:
    for key in REFUSED:
        body = {"metadata": {"name": "refused"}, "spec": {"hard": {key: "10"}}}
        assert admin.ask("POST", f"{NAMESPACES}/default/resourcequotas?dryRun=All", body)[0] == 422
        assert not takes(key)
