"""What can be set is explained, and what cannot be is refused in words that name it."""

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from tests.chart.rendering import CHART, FULL_VALUES, RELEASE, helm, one, refused, rendered

SCHEMA = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
OPEN = {"global"}
"""Said by the schema and not by us: Helm gives it to charts within charts."""


def described(schema: dict[str, Any], before: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every value that the schema knows, with its dotted name."""
    for name, its in schema["properties"].items():
        yield before + name, its
        if "properties" in its:
            yield from described(its, f"{before}{name}.")


def names(values: dict[str, Any], known: set[str], before: str = "") -> Iterator[str]:
    """The dotted names in a file of values, as deep as the schema knows them."""
    for name, value in values.items():
        yield before + name
        if isinstance(value, dict) and any(one.startswith(f"{before}{name}.") for one in known):
            yield from names(value, known, f"{before}{name}.")


KNOWN = dict(described(SCHEMA))


def test_every_value_is_explained() -> None:
    assert [name for name, its in KNOWN.items() if len(its.get("description", "")) < 10] == []


@pytest.mark.parametrize("file", ["values.yaml", "full-values.yaml"])
def test_the_files_of_values_have_every_value(file: str) -> None:
    path = CHART / file if file == "values.yaml" else FULL_VALUES
    values = msgspec.yaml.decode(path.read_text(encoding="utf-8"))
    found = set(names(values, set(KNOWN)))
    expected = set(KNOWN) - (OPEN if file == "values.yaml" else set())
    assert found == expected


def test_the_full_values_differ_from_the_defaults() -> None:
    """A value that stays as it is would not show that it is read."""
    default, full = (
        msgspec.yaml.decode(path.read_text(encoding="utf-8")) for path in (CHART / "values.yaml", FULL_VALUES)
    )
    alike = {
        name
        for name in KNOWN
        if "properties" not in KNOWN[name] and name not in OPEN and at(default, name) == at(full, name)
    }
    assert alike == {
        "agent.enabled",
        "agent.extraArgs",
        "agent.sharing.existingConfigMap",
        "crds.install",
        "leave.onUninstall",
        "metricsApis.custom",
        "metricsApis.external",
        "admission.images.enabled",
        "admission.policies.enabled",
        "podCompletion.enabled",
        "runtimeClass.handler",
        "scheduler.podDisruptionBudget.enabled",
    }


def at(values: dict[str, Any], name: str) -> object:
    """The value of a dotted name."""
    found: Any = values
    for part in name.split("."):
        found = found[part]
    return found


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("scheduler.replicas", -1, "minimum"),
        ("scheduler.replicas", "two", "integer"),
        ("scheduler.name", "default-scheduler", "not"),
        ("scheduler.replica", 2, "replica"),
        ("agents", {"enabled": False}, "agents"),
        ("agent.metricsPort", 94000, "maximum"),
        ("agent.kubeletFolder", "var/lib/kubelet", "pattern"),
        ("agent.accounting", "yes", "boolean"),
        ("agent.resources", {"limits": {"memory": "many"}}, "pattern"),
        ("agent.tolerations", [{"key": "a", "operator": "Is"}], "operator"),
        ("agent.sharing.configs", {"default": {"version": "v1"}}, "string"),
        ("agent.dra.cards", "", "pattern"),
        ("agent.mig.configMap", "my/config", "pattern"),
        ("agent.data.folders", ["models"], "pattern"),
        ("agent.data.folders", ["/"], "pattern"),
        ("agent.data.folders", ["/a/../etc"], "pattern"),
        ("agent.data.folders", ["/etc"], "not"),
        ("agent.data.folders", ["/var/lib"], "not"),
        ("agent.data.folders", ["/usr/share/models"], "not"),
        ("agent.data.stores", ["/etc"], "not"),
        ("agent.data.servers", ["file:///etc"], "pattern"),
        ("agent.data.servers", ["https://user:password@host"], "pattern"),
        ("agent.data.redirects", ["cdn.example.com"], "pattern"),
        ("agent.data.cache", "/var/lib", "not"),
        ("agent.data.cache", "models", "pattern"),
        ("agent.data.copyMibPerS", 0, "minimum"),
        ("agent.data.images", {"socket": "/etc"}, "pattern"),
        ("agent.data.images", {"registries": ["https://host"]}, "pattern"),
        ("agent.sharing.readFrom", "file", "api"),
        ("agent.sharing.nvidiaConfigMaps", ["time-slicing-config"], "pattern"),
        ("image.digest", "sha256:123", "pattern"),
        ("image.repository", "Registry/gpufleet:1", "pattern"),
        ("image.pullPolicy", "Sometimes", "Always"),
        ("runtimeClass.create", "maybe", "auto"),
        ("podCompletion.without", ["shared-memory"], "share-slot"),
        ("podCompletion.poolTaints", ["two words"], "pattern"),
        ("podCompletion.runtimeClass", "Nvidia", "pattern"),
        ("serviceMonitor.interval", "often", "pattern"),
    ],
)
def test_what_cannot_be_is_refused_by_name(name: str, value: object, said: str) -> None:
    answer = refused({name: value})
    parts = name.split(".")
    assert f"/{'/'.join(parts)}" in answer or f"'{parts[-1]}'" in answer, answer
    assert said in answer, answer


def test_no_card_is_cut_for_claims_where_none_goes_to_them() -> None:
    answer = refused({"agent.dra.migOnDemand": True})
    assert "agent.dra.migOnDemand: no card goes to claims while agent.dra.cards is none" in answer


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("agent.data.servers", ["https://files.example.com"], "while agent.data.cache is empty"),
        ("agent.data.images.registries", ["host/team"], "while agent.data.images.socket is empty"),
    ],
)
def test_sources_of_what_is_never_copied_are_refused(name: str, value: object, said: str) -> None:
    answer = refused({name: value})
    assert f"{name}: " in answer
    assert said in answer


def test_two_sources_of_sharing_are_one_too_many() -> None:
    answer = refused({"agent.sharing": {"configs": {"default": "version: v1"}, "existingConfigMap": "mine"}})
    assert "agent.sharing.configs and agent.sharing.existingConfigMap: one of the two" in answer


def test_there_must_be_something_to_read_from_the_api() -> None:
    answer = refused({"agent.sharing.readFrom": "api"})
    assert "agent.sharing.readFrom=api: there is nothing to read without agent.sharing.configs" in answer


@pytest.mark.parametrize("component", ["web", "metricsApis"])
def test_a_cluster_of_a_prometheus_needs_one(component: str) -> None:
    answer = refused({component: {"enabled": True, "prometheusCluster": "west-1"}})
    assert f"{component}.prometheusCluster=west-1: no Prometheus is asked without" in answer


def test_parking_needs_a_prometheus_for_its_cluster() -> None:
    parking = {"prometheusCluster": "west-1"}
    answer = refused({"operator": {"enabled": True, "parking": parking}})
    assert "no Prometheus is asked without operator.parking.prometheusUrl" in answer
    with_url = {**parking, "prometheusUrl": "http://prometheus:9090"}
    objects = rendered({"operator": {"enabled": True, "parking": with_url}})
    pod = one(objects, "Deployment", "gpufleet-operator")["spec"]["template"]["spec"]
    assert [arg for arg in pod["containers"][0]["args"] if "prometheus" in arg] == [
        "--prometheus=http://prometheus:9090",
        "--prometheus-cluster=west-1",
    ]


def test_a_hub_is_asked_with_a_token_of_a_secret_and_is_no_use_by_halves() -> None:
    hub = {"url": "http://hub.jhub:8081/hub/api", "namespace": "jhub", "tokenSecret": "hub-token"}
    parking = {"prometheusUrl": "http://prometheus:9090", "jupyterhub": hub}
    objects = rendered({"operator": {"enabled": True, "parking": parking}})
    pod = one(objects, "Deployment", "gpufleet-operator")["spec"]["template"]["spec"]
    assert [arg for arg in pod["containers"][0]["args"] if "jupyterhub" in arg] == [
        "--jupyterhub=http://hub.jhub:8081/hub/api",
        "--jupyterhub-namespace=jhub",
        "--jupyterhub-token-file=/etc/gpufleet/jupyterhub/token",
    ]
    (secret,) = (volume["secret"] for volume in pod["volumes"] if "secret" in volume)
    assert secret["secretName"] == "hub-token"
    for left in ({**parking, "jupyterhub": {**hub, "tokenSecret": ""}}, {"jupyterhub": hub}):
        answer = refused({"operator": {"enabled": True, "parking": left}})
        assert "operator.parking.jupyterhub: url, namespace and tokenSecret are needed" in answer


def test_a_server_that_is_too_old_is_refused() -> None:
    answer = helm("template", RELEASE, CHART, "--kube-version=1.33.9", code=1)
    assert "1.34" in answer
