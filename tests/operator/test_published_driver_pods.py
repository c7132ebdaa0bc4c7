"""Pods with a driver, held against the golden files of NVIDIA's operator: its images run unchanged."""

from typing import Any

import pytest

from gpufleet.migration.command import converted
from gpufleet.migration.field_notes import FieldVerdict
from gpufleet.migration.sources import object_of
from gpufleet.model.fleet_policy import Driver, DriverSource, KernelModules
from gpufleet.operator.rollout_driver import daemon_set
from tests.operator.builders import DIGEST
from tests.published_cases import expected, name_of, published_cases

TABLE = published_cases(__file__, "driver_pods")


def made(modules: KernelModules = KernelModules.AUTO) -> dict[str, Any]:
    """The DaemonSet of a driver."""
    return daemon_set("gpufleet-system", Driver(DriverSource.IMAGE, DIGEST, kernel_modules=modules), DIGEST)


SPEC: dict[str, Any] = made()["spec"]["template"]["spec"]
(CONTAINER,) = SPEC["containers"]


def environment(container: dict[str, Any]) -> dict[str, str]:
    """Variables, with the field of the pod for those that come from one."""
    return {
        one["name"]: one["value"] if "value" in one else one["valueFrom"]["fieldRef"]["fieldPath"]
        for one in container["env"]
    }


def container_facts() -> dict[str, Any]:
    probe, security = CONTAINER["startupProbe"], CONTAINER["securityContext"]
    return {
        **environment(CONTAINER),
        "command": [*CONTAINER["command"], *CONTAINER["args"]],
        "privileged": security["privileged"],
        "level": security["seLinuxOptions"]["level"],
        "pre_stop": CONTAINER["lifecycle"]["preStop"]["exec"]["command"][-1],
        "startup_s": probe["periodSeconds"] * probe["failureThreshold"],
    }


def pod_facts() -> dict[str, Any]:
    rules = SPEC.get("affinity", {}).get("podAntiAffinity", {})
    apart = rules.get("requiredDuringSchedulingIgnoredDuringExecution", [])
    terms = [one for term in apart for one in term["labelSelector"]["matchExpressions"]]
    return {
        "host_pid": SPEC["hostPID"],
        "host_network": SPEC.get("hostNetwork", False),
        "priority_class": SPEC["priorityClassName"],
        "update_strategy": made()["spec"]["updateStrategy"]["type"],
        "apart_from": [one for term in terms for one in term["values"]],
        "init_containers": [one["name"] for one in SPEC.get("initContainers", [])],
        "tolerated": [
            f"{one['key']}:{one['effect']}" if "key" in one else "*" for one in SPEC["tolerations"]
        ],
        "service_account": SPEC["automountServiceAccountToken"],
    }


def mounts() -> dict[str, list[str]]:
    """Where the container has each path of the host, and how."""
    names = {one["name"]: one["hostPath"]["path"] for one in SPEC["volumes"]}
    return {
        names[one["name"]]: [
            one["mountPath"],
            *([one["mountPropagation"]] if "mountPropagation" in one else []),
            *(["ro"] if one.get("readOnly") else []),
        ]
        for one in CONTAINER["volumeMounts"]
    }


@pytest.mark.parametrize("case", TABLE["containers"], ids=name_of)
def test_the_container_is_started_as_its_image_expects_it(case: dict[str, Any]) -> None:
    assert container_facts()[case["fact"]] == expected(case)


@pytest.mark.parametrize("case", TABLE["pods"], ids=name_of)
def test_the_pod_is_as_theirs(case: dict[str, Any]) -> None:
    assert pod_facts()[case["fact"]] == expected(case)


@pytest.mark.parametrize("case", TABLE["mounts"], ids=name_of)
def test_it_has_the_paths_of_the_host_that_theirs_has(case: dict[str, Any]) -> None:
    assert mounts().get(case["path"], []) == expected(case)


def test_it_has_no_other_path_of_the_host() -> None:
    """An image that builds modules empties their folder first, so each path has to be one of theirs."""
    assert set(mounts()) == {one["path"] for one in TABLE["mounts"] if one["theirs"]}


@pytest.mark.parametrize("case", TABLE["modules"], ids=name_of)
def test_the_image_is_told_which_modules_to_bring(case: dict[str, Any]) -> None:
    (container,) = made(KernelModules(case["modules"]))["spec"]["template"]["spec"]["containers"]
    said = environment(container)
    assert {name: value for name, value in said.items() if "MODULE" in name} == expected(case)


@pytest.mark.parametrize("case", TABLE["settings"], ids=name_of)
def test_what_else_their_pods_have_is_taken_over_or_said_to_be_not(case: dict[str, Any]) -> None:
    image = {"repository": "nvcr.io/nvidia", "image": "driver", "version": DIGEST.partition("@")[2]}
    body = {
        "apiVersion": "nvidia.com/v1alpha1",
        "kind": "NVIDIADriver",
        "metadata": {"name": "train"},
        "spec": {**image, **case["spec"]},
    }
    other = {**body, "metadata": {"name": "other"}, "spec": image}
    found = converted("nvidia", [object_of(one, "a test") for one in (body, other)])
    (field,) = case["spec"]
    notes = [one for one in found.report.notes if one.object.endswith("train")]
    # A driver of a type that is refused is refused as a whole.
    notes = [one for one in notes if one.field in (f"spec.{field}", "spec") or f"spec.{field}" in one.field]
    words = {
        "honoured" if one.verdict is FieldVerdict.HONOURED else one.reason.partition(":")[0] for one in notes
    }
    assert words == {expected(case)}
