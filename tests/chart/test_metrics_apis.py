"""The metrics APIs come with everything that they need, and never take another server's group away."""

import time
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gpufleet.localkube.access.api import Api
from gpufleet.localkube.cluster import LocalCluster
from tests.chart.rendering import (
    CHART,
    NAMESPACE,
    RELEASE,
    Object,
    as_options,
    helm,
    one,
    pod_specs,
    rendered,
)
from tests.waiting import until

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
APIS = "/apis/apiregistration.k8s.io/v1/apiservices"
EXTERNAL = "v1beta1.external.metrics.k8s.io"
CUSTOM = "v1beta2.custom.metrics.k8s.io"
OTHER_RELEASE, ELSEWHERE = "apart", "installed-apart"
DEPLOYMENTS = f"/apis/apps/v1/namespaces/{ELSEWHERE}/deployments"
ON = {"metricsApis.enabled": True}


@pytest.fixture(autouse=True)
def without(cluster: LocalCluster) -> Iterator[None]:
    """Afterwards the cluster has none again."""
    yield
    with cluster.api() as api:
        api.request("DELETE", f"{APIS}/{EXTERNAL}")


def served_by(cluster: LocalCluster, name: str, **annotations: str) -> None:
    """A server has the group of external metrics."""
    spec = {
        "group": "external.metrics.k8s.io",
        "version": "v1beta1",
        "groupPriorityMinimum": 100,
        "versionPriority": 100,
        "insecureSkipTLSVerify": True,
        "service": {"name": name, "namespace": "keda"},
    }
    labels = {"app.kubernetes.io/managed-by": "Helm"} if annotations else {}
    metadata = {"name": EXTERNAL, "annotations": annotations, "labels": labels}
    body = {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "spec": spec}
    with cluster.api() as api:
        api.call("POST", APIS, {**body, "metadata": metadata})


def asked(cluster: LocalCluster, values: dict[str, Any], code: int = 0) -> str:
    """What helm says with this cluster in view."""
    environment = {"HOME": str(cluster.folder / "helm"), "KUBECONFIG": str(cluster.kubeconfig)}
    options = [f"--namespace={NAMESPACE}", *as_options(values)]
    return helm("template", RELEASE, CHART, "--dry-run=server", *options, environment=environment, code=code)


def definitions_of(api: Api, release: str) -> list[str]:
    """The definitions that are of a release."""
    found = api.call("GET", DEFINITIONS)["items"]
    named = "meta.helm.sh/release-name"
    return [
        one["metadata"]["name"]
        for one in found
        if one["metadata"].get("annotations", {}).get(named) == release
    ]


def are_gone(api: Api, release: str) -> bool:
    """Whether no definition of a release is left.

    The API server lists their objects once, also where it has just made their storage and cannot read it yet:
    a change of those that are left has it list them anew.
    """
    left = definitions_of(api, release)
    for name in left:
        body = {"metadata": {"annotations": {"example.com/seen": str(time.monotonic())}}}
        api.request("PATCH", f"{DEFINITIONS}/{name}", body, "application/merge-patch+json")
    return not left


def registered(objects: list[Object]) -> set[str]:
    return {its["metadata"]["name"] for its in objects if its["kind"] == "APIService"}


def test_by_default_there_is_none() -> None:
    objects = rendered()
    assert registered(objects) == set()
    assert "Deployment gpufleet-metrics-apis" not in pod_specs(objects)


def test_each_group_can_be_left_to_another() -> None:
    custom = {"v1beta1.custom.metrics.k8s.io", "v1beta2.custom.metrics.k8s.io"}
    assert registered(rendered(ON)) == custom | {EXTERNAL}
    assert registered(rendered({**ON, "metricsApis.external": False})) == custom
    assert registered(rendered({**ON, "metricsApis.custom": False})) == {EXTERNAL}


def test_another_server_keeps_its_group_and_is_named(cluster: LocalCluster) -> None:
    served_by(cluster, "keda-operator-metrics-apiserver")
    said = asked(cluster, ON, code=1)
    assert "the Service keda/keda-operator-metrics-apiserver serves external.metrics.k8s.io already" in said
    assert "metricsApis.external=false" in said
    assert f"name: {EXTERNAL}" not in asked(cluster, {**ON, "metricsApis.external": False})


def test_install_upgrade_and_uninstall_leave_the_group_of_another_server_as_it_is(
    cluster: LocalCluster,
) -> None:
    served_by(cluster, "keda-operator-metrics-apiserver")
    environment = {"HOME": str(cluster.folder / "helm"), "KUBECONFIG": str(cluster.kubeconfig)}

    def done(verb: str, values: dict[str, Any], *options: str | Path, code: int = 0) -> str:
        namespace = f"--namespace={ELSEWHERE}"
        return helm(
            verb, OTHER_RELEASE, *options, namespace, *as_options(values), environment=environment, code=code
        )

    with cluster.api() as api:
        before = api.call("GET", f"{APIS}/{EXTERNAL}")
        said = done("install", ON, CHART, "--create-namespace", code=1)
        assert "serves external.metrics.k8s.io already" in said
        assert not api.call("GET", DEPLOYMENTS)["items"]
        without_external = {**ON, "metricsApis.external": False, "crds.keep": False}
        done("install", without_external, CHART, "--create-namespace")
        assert api.call("GET", f"{APIS}/{CUSTOM}")["spec"]["service"]["namespace"] == ELSEWHERE
        said = done("upgrade", {**ON, "crds.keep": False}, CHART, code=1)
        assert "serves external.metrics.k8s.io already" in said
        # The Job that leaves the cluster needs a node that runs it.
        done("uninstall", {}, "--no-hooks")
        # Definitions go after their objects, and helm does not wait for that.
        until(lambda: are_gone(api, OTHER_RELEASE))
        assert api.request("GET", f"{APIS}/{CUSTOM}")[0] == HTTPStatus.NOT_FOUND
        after = api.call("GET", f"{APIS}/{EXTERNAL}")
    assert after["spec"] == before["spec"]
    assert after["metadata"]["uid"] == before["metadata"]["uid"]


def test_an_upgrade_keeps_its_own(cluster: LocalCluster) -> None:
    annotations = {
        "meta.helm.sh/release-name": RELEASE,
        "meta.helm.sh/release-namespace": NAMESPACE,
    }
    served_by(cluster, "gpufleet-metrics-apis", **annotations)
    assert f"name: {EXTERNAL}" in asked(cluster, ON)


def test_the_api_server_trusts_the_certificate_that_is_shown() -> None:
    """The authority in each APIService is that of the Secret that the pods mount."""
    objects = rendered(ON)
    secret = one(objects, "Secret", "gpufleet-metrics-apis")
    volumes = pod_specs(objects)["Deployment gpufleet-metrics-apis"]["volumes"]
    assert "gpufleet-metrics-apis" in {volume.get("secret", {}).get("secretName") for volume in volumes}
    bundles = {its["spec"]["caBundle"] for its in objects if its["kind"] == "APIService"}
    assert bundles == {secret["data"]["ca.crt"]}


def test_two_answer_and_a_drain_takes_one_at_a_time() -> None:
    objects = rendered(ON)
    deployment = one(objects, "Deployment", "gpufleet-metrics-apis")
    budget = one(objects, "PodDisruptionBudget", "gpufleet-metrics-apis")
    assert (deployment["spec"]["replicas"], budget["spec"]["maxUnavailable"]) == (2, 1)
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert budget["spec"]["selector"]["matchLabels"].items() <= labels.items()


def test_it_may_read_where_pods_are_and_writes_nothing_but_events() -> None:
    rules = one(rendered(ON), "ClusterRole", "gpufleet-metrics")["rules"]
    writes = {
        (resource, verb)
        for rule in rules
        for resource in rule["resources"]
        for verb in rule["verbs"]
        if verb not in {"get", "list", "watch"}
    }
    assert writes == {("events", "create")}
    assert "secrets" not in msgspec.json.encode(rules).decode()


def test_its_own_metrics_are_scraped_and_it_may_read_those_of_the_others() -> None:
    peers = [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}]
    policies = {"networkPolicy.enabled": True, "networkPolicy.metricsFrom": peers}
    objects = rendered({**ON, **policies, "serviceMonitor.enabled": True})
    (endpoint,) = one(objects, "ServiceMonitor", "gpufleet-metrics-apis")["spec"]["endpoints"]
    assert endpoint["tlsConfig"]["serverName"] == f"gpufleet-metrics-apis.{NAMESPACE}.svc"
    ports = one(objects, "Service", "gpufleet-metrics-apis")["spec"]["ports"]
    assert endpoint["port"] in {port["name"] for port in ports}
    labels = one(objects, "Deployment", "gpufleet-metrics-apis")["spec"]["template"]["metadata"]["labels"]
    for component in ("scheduler", "agent"):
        _, rule = one(objects, "NetworkPolicy", f"gpufleet-{component}")["spec"]["ingress"]
        (peer,) = rule["from"]
        assert peer["podSelector"]["matchLabels"].items() <= labels.items()
