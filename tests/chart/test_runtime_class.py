"""RuntimeClass `nvidia` is made where the cluster has none, and stays where this release made it."""

from collections.abc import Iterator

import msgspec
import pytest

from gpufleet.localkube.cluster import LocalCluster
from tests.chart.rendering import CHART, NAMESPACE, RELEASE, as_options, helm

CLASSES = "/apis/node.k8s.io/v1/runtimeclasses"


@pytest.fixture(autouse=True)
def without(cluster: LocalCluster) -> Iterator[None]:
    """Afterwards the cluster has none again."""
    yield
    with cluster.api() as api:
        api.request("DELETE", f"{CLASSES}/nvidia")


def made(cluster: LocalCluster, create: str) -> bool:
    """Whether the chart would make one, asked with this cluster in view."""
    environment = {"HOME": str(cluster.folder / "helm"), "KUBECONFIG": str(cluster.kubeconfig)}
    options = [f"--namespace={NAMESPACE}", *as_options({"runtimeClass.create": create})]
    text = helm("template", RELEASE, CHART, "--dry-run=server", *options, environment=environment)
    documents = (msgspec.yaml.decode(document) for document in text.split("\n---\n"))
    return any(one and one["kind"] == "RuntimeClass" for one in documents)


def there_is_one(cluster: LocalCluster, **annotations: str) -> None:
    """Somebody has made one."""
    labels = {"app.kubernetes.io/managed-by": "Helm"} if annotations else {}
    metadata = {"name": "nvidia", "annotations": annotations, "labels": labels}
    body = {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": metadata,
        "handler": "nvidia",
    }
    with cluster.api() as api:
        api.call("POST", CLASSES, body)


def release(name: str) -> dict[str, str]:
    return {"meta.helm.sh/release-name": name, "meta.helm.sh/release-namespace": NAMESPACE}


def test_where_there_is_none_it_is_made(cluster: LocalCluster) -> None:
    assert made(cluster, "auto")
    assert not made(cluster, "never")


def test_somebody_elses_is_left_alone(cluster: LocalCluster) -> None:
    there_is_one(cluster)
    assert not made(cluster, "auto")


def test_another_releases_is_left_alone(cluster: LocalCluster) -> None:
    there_is_one(cluster, **release("gpu-operator"))
    assert not made(cluster, "auto")


def test_an_upgrade_keeps_its_own(cluster: LocalCluster) -> None:
    """Else Helm would remove what the new version does not have."""
    there_is_one(cluster, **release(RELEASE))
    assert made(cluster, "auto")
