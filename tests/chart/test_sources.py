"""Nothing is written twice: the chart installs what `gpufleet up` installs, for its own namespace."""

import json
import re
import tarfile
from pathlib import Path
from typing import Any

import pytest

from gpufleet import __version__
from gpufleet.admission.cel.completion import NO_TAINTS
from gpufleet.completion.additions import WITHOUT_SETTINGS, Addition
from gpufleet.kube.manifests import FOLDER, Identity, manifests
from gpufleet.localkube.programs.releases import minor_version, pinned_kubernetes_versions
from tests.chart.rendering import CHART, Object, helm, one, rendered


def test_the_chart_has_the_packages_own_files() -> None:
    assert (CHART / "files").resolve() == FOLDER.resolve()


def test_a_packaged_chart_has_them_inside_and_nothing_else(tmp_path: Path) -> None:
    helm("package", CHART, f"--destination={tmp_path}")
    (archive,) = tmp_path.glob("gpufleet-*.tgz")
    with tarfile.open(archive) as opened:
        names = {name.removeprefix("gpufleet/files/") for name in opened.getnames() if "/files/" in name}
    assert names == {path.name for path in FOLDER.glob("*.yaml")}


MUTATING, COMPLETION = "MutatingAdmissionPolicy", "gpufleet-pod-completion"


def installed(objects: list[Object]) -> dict[tuple[str, str], Object]:
    """Those of the chart's objects that come from the files, without what Helm adds to them."""
    found = {}
    for its in objects:
        metadata = {key: value for key, value in its["metadata"].items() if key != "labels"}
        annotations = metadata.pop("annotations", {})
        if not {"helm.sh/hook"} & annotations.keys():
            found[its["kind"], metadata["name"]] = {**its, "metadata": metadata}
    return found


@pytest.mark.parametrize("version", pinned_kubernetes_versions())
@pytest.mark.parametrize("namespace", ["gpufleet-system", "gpu"])
def test_it_installs_the_same_objects_in_any_namespace(version: str, namespace: str) -> None:
    # With every right that an agent can have.
    sharing = {"configs": {"default": "version: v1"}, "readFrom": "api"}
    values = {"agent.sharing": sharing, "agent.dra.cards": "all"}
    found = installed(rendered(version=version, namespace=namespace))
    found |= installed(rendered(values, version=version, namespace=namespace))
    for wanted in manifests(minor_version(version), Identity(namespace)):
        if wanted["kind"] != "Namespace":
            key = (wanted["kind"], wanted["metadata"]["name"])
            assert found[key] == wanted, key


def test_a_server_without_a_kind_goes_without_it() -> None:
    kinds = {its["kind"] for its in rendered(version="1.35.0")}
    assert "MutatingAdmissionPolicy" not in kinds
    assert "ValidatingAdmissionPolicy" in kinds


def test_pods_are_completed_with_the_scheduler_that_is_there() -> None:
    policy = one(rendered({"scheduler.name": "fleet"}), MUTATING, COMPLETION)
    assert variable(policy, "schedulerName") == '"fleet"'


def variable(policy: Object, name: str) -> str:
    (found,) = (its["expression"] for its in policy["spec"]["variables"] if its["name"] == name)
    return str(found)


def additions(policy: Object) -> set[str]:
    return set(json.loads(variable(policy, "additions")))


def condition(policy: Object) -> str:
    """The condition by which a pod that has everything is passed over."""
    conditions = policy["spec"]["matchConditions"]
    (found,) = (its["expression"] for its in conditions if its["name"] == "may-lack-something")
    return str(found)


def listed(text: str) -> list[str]:
    """The list of texts within the list that an expression begins with."""
    return list(json.loads(text[1 : text.index("]") + 1]))


def test_the_condition_names_the_same_additions_and_taints_as_the_variables() -> None:
    values = {
        "podCompletion.without": ["volcano-slots"],
        "podCompletion.poolTaints": ["sku", "nvidia.com/gpu"],
        "podCompletion.sharedMemory": True,
    }
    for chosen in ({}, values):
        policy = one(rendered(chosen), MUTATING, COMPLETION)
        assert set(listed(condition(policy))) == additions(policy)
    taints = condition(policy).partition(".exists(additions, ")[2]
    assert listed(taints) == ["sku", "nvidia.com/gpu"]
    assert NO_TAINTS not in condition(policy)


def test_an_addition_to_pods_can_be_left_out() -> None:
    without = {"scheduler-name", "hami-slots"}
    left = rendered({"podCompletion.without": sorted(without)})
    every = {its.value for its in WITHOUT_SETTINGS}
    assert additions(one(rendered(), MUTATING, COMPLETION)) == every
    assert additions(one(left, MUTATING, COMPLETION)) == every - without
    off = rendered({"podCompletion.enabled": False})
    assert COMPLETION not in {its["metadata"]["name"] for its in off}


def test_further_additions_are_there_where_the_values_ask_for_them() -> None:
    values = {
        "podCompletion.poolTaints": ["sku", "nvidia.com/gpu"],
        "podCompletion.runtimeClass": "nvidia-cdi",
        "podCompletion.sharedMemory": True,
    }
    objects = rendered(values)
    policy = one(objects, MUTATING, COMPLETION)
    assert variable(policy, "taints") == '["sku","nvidia.com/gpu"]'
    assert additions(policy) == {its.value for its in Addition} - {Addition.RUNTIME_CLASS.value}
    binding = one(objects, f"{MUTATING}Binding", "gpufleet-runtime-class")
    assert binding["spec"]["paramRef"] == {"name": "nvidia-cdi", "parameterNotFoundAction": "Allow"}
    for other in (rendered(), rendered(values, version="1.35.0")):
        assert "gpufleet-runtime-class" not in {its["metadata"]["name"] for its in other}


def test_the_webhook_makes_the_same_additions() -> None:
    values = {
        "admission.webhook.enabled": True,
        "podCompletion.without": ["volcano-slots"],
        "podCompletion.poolTaints": ["sku"],
        "podCompletion.runtimeClass": "nvidia",
        "podCompletion.sharedMemory": True,
    }
    deployment = one(rendered(values, version="1.35.0"), "Deployment", "gpufleet-admission")
    arguments = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    wanted = {"--without=volcano-slots", "--pool-taint=sku", "--runtime-class=nvidia", "--shared-memory"}
    assert wanted <= set(arguments)


def test_the_doors_of_queues_are_asked_of_pods_of_the_scheduler_that_is_there() -> None:
    policy = one(
        rendered({"scheduler.name": "fleet"}), "ValidatingAdmissionPolicy", "gpufleet-queue-namespaces"
    )
    is_ours, _ = policy["spec"]["matchConditions"]
    assert is_ours["expression"].endswith("== 'fleet'")


ACCESS = ("binding-guard", "device-access", "node-name-guard")


def access(values: dict[str, Any]) -> dict[tuple[str, str], Object]:
    """The bindings of the policies about device access, by kind and short name."""
    names = (*ACCESS, "hidden-devices")
    return {
        (its["kind"].removesuffix("Binding"), its["metadata"]["name"].removeprefix("gpufleet-")): its
        for its in rendered(values)
        if its["kind"].endswith("Binding") and its["metadata"]["name"].removeprefix("gpufleet-") in names
    }


def test_a_trial_of_the_policies_about_devices_warns_and_changes_nothing() -> None:
    assert {name for _, name in access({})} == {*ACCESS, "hidden-devices"}
    trial = access({"deviceAccess.policy": "warn"})
    assert {name for _, name in trial} == set(ACCESS)
    assert all(its["spec"]["validationActions"] == ["Warn", "Audit"] for its in trial.values())
    assert access({"deviceAccess.policy": "off"}) == {}


def test_who_may_see_all_devices_and_which_runtimes_show_them_is_said_by_values() -> None:
    values = {
        "deviceAccess.exemptNamespaces": ["kube-system", "gpu-operator"],
        "deviceAccess.runtimeClasses": ["nvidia", "mine"],
        "scheduler.name": "fleet",
    }
    objects = rendered(values)
    for name in (*ACCESS, "hidden-devices"):
        kind = "MutatingAdmissionPolicy" if name == "hidden-devices" else "ValidatingAdmissionPolicy"
        spec = one(objects, kind, f"gpufleet-{name}")["spec"]
        named, labelled = spec["matchConstraints"]["namespaceSelector"]["matchExpressions"]
        assert named["values"] == ["kube-system", "gpu-operator", "gpufleet-system"]
        assert labelled["key"] == "gpufleet.io/device-access"
        told = {its["name"]: its["expression"] for its in spec.get("variables", ())}
        assert told.get("runtimeClasses", '["nvidia","mine"]') == '["nvidia","mine"]'
    guard = one(objects, "ValidatingAdmissionPolicy", "gpufleet-node-name-guard")["spec"]
    assert "(schedulerName: fleet)" in guard["validations"][0]["messageExpression"]


def test_the_definition_outlives_the_release_unless_told_otherwise() -> None:
    definition = ("CustomResourceDefinition", "nodedevices.gpufleet.io")
    assert one(rendered(), *definition)["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    assert "annotations" not in one(rendered({"crds.keep": False}), *definition)["metadata"]
    assert not [its for its in rendered({"crds.install": False}) if its["kind"] == definition[0]]


def test_chart_and_program_are_of_one_version() -> None:
    text = (CHART / "Chart.yaml").read_text(encoding="utf-8")
    assert re.findall(r"^(?:version|appVersion): (.*)$", text, flags=re.MULTILINE) == [__version__] * 2
