"""What the chart installs of the ledger: nothing by default, and with it the right to look and no more."""

import re

import msgspec

from gpufleet.kube.objects.fleet_queues import FleetQueueStatus
from tests.chart.rendering import NAMESPACE, Object, one, rendered

LEDGER = {"ledger": {"enabled": True}}


def of_ledger(objects: list[Object]) -> list[Object]:
    return [found for found in objects if found["metadata"]["name"].startswith("gpufleet-ledger")]


def test_without_the_value_nothing_of_the_ledger_is_installed() -> None:
    assert of_ledger(rendered()) == []


def test_it_may_look_at_what_it_keeps_and_writes_its_lease_alone() -> None:
    objects = rendered(LEDGER)
    rules = one(objects, "ClusterRole", "gpufleet-ledger")["rules"]
    given = {resource: set(rule["verbs"]) for rule in rules for resource in rule["resources"]}
    reading = {"list", "watch"}
    assert given == {
        "nodes": reading,
        "pods": reading,
        "fleetqueues": reading,
        "nodedevices": reading,
        "namespaces": {"get"},
    }
    assert [rule.get("resourceNames") for rule in rules if "namespaces" in rule["resources"]] == [
        ["kube-system"]
    ]
    lease = one(objects, "Role", "gpufleet-ledger")
    assert lease["metadata"]["namespace"] == NAMESPACE
    assert [rule["resources"] for rule in lease["rules"]] == [["leases"], ["leases"]]
    assert lease["rules"][1]["resourceNames"] == ["gpufleet-ledger"]


def test_with_budgets_it_writes_one_field_of_the_status_of_queues() -> None:
    objects = rendered({"ledger": {"enabled": True, "budgets": {"configMap": "money"}}})
    rules = one(objects, "ClusterRole", "gpufleet-ledger")["rules"]
    writing = [rule for rule in rules if set(rule["verbs"]) - {"get", "list", "watch"}]
    assert writing == [
        {"apiGroups": ["gpufleet.io"], "resources": ["fleetqueues/status"], "verbs": ["patch"]}
    ]
    (check,) = one(objects, "ValidatingAdmissionPolicy", "gpufleet-ledger")["spec"]["validations"]
    # All that the scheduler writes there; a new field of the status belongs into the policy, too.
    kept = set(re.findall(r"'(\w+)'", check["expression"]))
    assert kept == {field.encode_name for field in msgspec.structs.fields(FleetQueueStatus)}
    pod = one(objects, "Deployment", "gpufleet-ledger")["spec"]["template"]["spec"]
    (volume,) = [its for its in pod["volumes"] if "configMap" in its]
    assert volume["configMap"] == {"name": "money"}
    (container,) = pod["containers"]
    (mount,) = [its for its in container["volumeMounts"] if its["name"] == volume["name"]]
    assert f"--budgets={mount['mountPath']}/budgets.csv" in container["args"]


def test_its_months_outlive_the_chart_and_its_pod_can_write_them() -> None:
    objects = rendered(LEDGER)
    claim = one(objects, "PersistentVolumeClaim", "gpufleet-ledger")
    assert claim["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    pod = one(objects, "Deployment", "gpufleet-ledger")["spec"]["template"]["spec"]
    (volume,) = [its for its in pod["volumes"] if "persistentVolumeClaim" in its]
    assert volume["persistentVolumeClaim"]["claimName"] == "gpufleet-ledger"
    (container,) = pod["containers"]
    (mount,) = [its for its in container["volumeMounts"] if its["name"] == volume["name"]]
    assert f"--folder={mount['mountPath']}" in container["args"]
    assert pod["securityContext"]["fsGroup"] == pod["securityContext"]["runAsUser"]


def test_a_claim_of_yours_is_taken_in_its_place() -> None:
    objects = rendered({"ledger": {"enabled": True, "storage": {"existingClaim": "ours"}}})
    assert not [its for its in objects if its["kind"] == "PersistentVolumeClaim"]
    pod = one(objects, "Deployment", "gpufleet-ledger")["spec"]["template"]["spec"]
    assert {"name": "months", "persistentVolumeClaim": {"claimName": "ours"}} in pod["volumes"]


def test_a_database_takes_the_place_of_the_volume_and_its_password_stays_in_its_secret() -> None:
    url = "postgresql://gpufleet@db.example.com/ledger?sslmode=verify-full"
    database = {"url": url, "passwordSecret": "ledger-password", "ports": [6432]}
    objects = rendered(
        {"ledger": {"enabled": True, "database": database}, "networkPolicy": {"enabled": True}}
    )
    assert not [its for its in objects if its["kind"] == "PersistentVolumeClaim"]
    pod = one(objects, "Deployment", "gpufleet-ledger")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert f"--database={url}" in container["args"]
    assert not [option for option in container["args"] if option.startswith("--folder")]
    assert container["env"] == [
        {
            "name": "PGPASSWORD",
            "valueFrom": {"secretKeyRef": {"name": "ledger-password", "key": "password"}},
        }
    ]
    assert [volume["name"] for volume in pod["volumes"]] == ["temporary"]
    egress = one(objects, "NetworkPolicy", "gpufleet-ledger")["spec"]["egress"]
    assert {"port": 6432, "protocol": "TCP"} in egress[0]["ports"]
