"""I14: keys, objects and devices that somebody has without the right are found."""

from typing import Any

import pytest

from gpufleet.auditor.rules import Rules
from tests.auditor.stories import GRANT, TENANT, Story, held, whole

A_GRANT = '{"v":1,"epoch":1,"containers":{}}'


def a_story(rules: Rules | None = None) -> Story:
    story = Story(rules)
    story.node("n", gpus=2)
    return story


@pytest.mark.parametrize("key", [GRANT, "gpufleet.io/moved"])
def test_a_guarded_key_on_a_pod_that_waits_is_found_whoever_wrote_it(key: str) -> None:
    story = a_story()
    story.pod("a", annotations={key: A_GRANT})
    assert story.broken() == {"I14"}


@pytest.mark.parametrize("value", ["", A_GRANT, None])
def test_a_grant_that_changes_after_the_binding_is_found(value: str | None) -> None:
    story = a_story()
    pod = story.running("a", "n", whole("n-0"))
    notes = {} if value is None else {GRANT: value}
    story.put("pods", {**pod, "metadata": {**pod["metadata"], "annotations": notes}}, "somebody")
    assert "I14" in story.broken()


def test_a_binding_with_a_grant_by_another_than_the_scheduler_is_found() -> None:
    story = a_story()
    pod = story.bind(story.pod("a"), "n", [whole("n-0")], user=TENANT)
    story.report("n", held(pod, whole("n-0")))
    assert story.broken() == {"I14"}


def test_what_the_kubelet_and_the_owner_write_beside_the_grant_is_no_finding() -> None:
    story = a_story()
    pod = story.running("a", "n", whole("n-0"))
    story.report("n", held(pod, whole("n-0")))
    labels = {"any": "label"}
    story.put("pods", {**pod, "metadata": {**pod["metadata"], "labels": labels}}, TENANT)
    assert story.findings() == []


def test_a_pod_that_runs_on_gpus_without_a_grant_is_found_once() -> None:
    story = a_story()
    pod = story.phase(story.bind(story.pod("a"), "n", None), "Running")
    story.phase(pod, "Running")
    (found,) = story.findings()
    assert (found.promise, found.objects) == ("I14", ("space/a", "n"))


@pytest.mark.parametrize("where", ["kube-system", "gpufleet-system"])
def test_namespaces_of_the_system_are_exempt(where: str) -> None:
    story = a_story()
    story.phase(story.bind(story.pod("a", space=where), "n", None), "Running")
    assert story.findings() == []


def test_where_no_agent_requires_grants_none_is_missed() -> None:
    story = a_story(Rules(grants_required=False))
    story.phase(story.bind(story.pod("a"), "n", None), "Running")
    assert story.findings() == []


VARIABLES: tuple[tuple[dict[str, Any], bool], ...] = (
    ({"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}, True),
    ({"name": "NVIDIA_VISIBLE_DEVICES", "value": "GPU-1,GPU-2"}, True),
    ({"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": {"configMapKeyRef": {}}}, True),
    ({"name": "AMD_VISIBLE_DEVICES", "value": "0"}, True),
    ({"name": "NVIDIA_MIG_CONFIG_DEVICES", "value": "all"}, True),
    ({"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}, False),
    ({"name": "NVIDIA_VISIBLE_DEVICES", "value": "none"}, False),
    ({"name": "CUDA_VISIBLE_DEVICES", "value": "0"}, False),
)


@pytest.mark.parametrize(("variable", "found"), VARIABLES)
def test_a_running_pod_that_names_devices_itself_is_found(variable: dict[str, Any], found: bool) -> None:
    story = a_story()
    story.phase(story.bind(story.pod("a", gpus=0, env=[variable]), "n", None), "Running")
    assert story.broken() == ({"I14"} if found else set())


def test_a_variable_beside_a_granted_gpu_is_overruled_by_what_was_granted() -> None:
    for variable, expected in (("NVIDIA_VISIBLE_DEVICES", set()), ("AMD_VISIBLE_DEVICES", {"I14"})):
        story = a_story()
        pod = story.running("a", "n", whole("n-0"), env=[{"name": variable, "value": "all"}])
        story.report("n", held(pod, whole("n-0")))
        assert story.broken() == expected


def test_an_ephemeral_container_that_names_devices_is_found() -> None:
    story = a_story()
    pod = story.running("a", "n", whole("n-0"))
    story.report("n", held(pod, whole("n-0")))
    debug = {"name": "debug", "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}
    story.put("pods", {**pod, "spec": {**pod["spec"], "ephemeralContainers": [debug]}}, TENANT)
    assert story.broken() == {"I14"}


def test_an_annotation_for_cdi_is_found() -> None:
    story = a_story()
    pod = story.pod("a", gpus=0, annotations={"cdi.k8s.io/gpus": "nvidia.com/gpu=all"})
    story.phase(story.bind(pod, "n", None), "Running")
    assert story.broken() == {"I14"}


@pytest.mark.parametrize("kind", ["fleetqueues", "nodedevices", "priorityclasses", "nodes"])
def test_an_object_of_the_cluster_that_a_tenant_wrote_is_found(kind: str) -> None:
    story = a_story()
    story.put(kind, {"metadata": {"name": "mine"}, "spec": {}}, TENANT)
    assert story.broken() == {"I14"}
    story = a_story()
    story.put(kind, {"metadata": {"name": "mine"}, "spec": {}}, "administrator")
    assert story.findings() == []


def test_the_lease_of_the_scheduler_is_no_tenants() -> None:
    for name, expected in (("gpufleet-scheduler", {"I14"}), ("a-tenants-own", set())):
        story = a_story()
        story.put("leases", {"metadata": {"name": name, "namespace": "space"}, "spec": {}}, TENANT)
        assert story.broken() == expected


@pytest.mark.parametrize(
    "labels",
    [
        {"team": "b", "gpufleet.io/queue": "q"},
        {"team": "b", "gpufleet.io/managed": "true"},
        {"team": "b", "gpufleet.io/device-access": "all"},
        {"team": "a"},
    ],
)
def test_a_label_that_decides_about_queues_is_no_tenants(labels: dict[str, str]) -> None:
    story = a_story()
    story.namespace("space", team="b")
    story.queue("q", gpus=1, namespaceSelector={"matchLabels": {"team": "a"}})
    story.put("namespaces", {"metadata": {"name": "space", "labels": labels}}, TENANT)
    assert story.broken() == {"I14"}


def test_a_label_that_changes_no_selection_is_a_tenants() -> None:
    story = a_story()
    story.namespace("space", team="b")
    story.queue("q", gpus=1, namespaceSelector={"matchLabels": {"team": "a"}})
    story.namespace("space", user=TENANT, team="c")
    assert story.findings() == []


def test_other_labels_of_its_namespace_are_a_tenants() -> None:
    story = a_story()
    story.namespace("space", user=TENANT, anything="else")
    assert story.findings() == []
