"""Who may use an imported queue: as in the other system, and closed where nobody can know."""

from typing import Any

import pytest

from gpufleet.migration.command import MigrationOutcome, converted
from gpufleet.migration.report import as_text
from gpufleet.migration.sources import object_of, read_documents
from gpufleet.model.model_errors import InputError


def kueue(kind: str, name: str, namespace: str = "", **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": kind, "metadata": metadata, "spec": spec}


def namespace(name: str, **metadata: dict[str, str]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, **metadata}}


def imported(system: str, *objects: dict[str, Any]) -> tuple[dict[str, dict[str, Any]], str]:
    """The specs by name of queue, and the report."""
    found: MigrationOutcome = converted(system, [object_of(one, "a test") for one in objects])
    queues = read_documents(found.manifests.encode(), "")
    return {one.name: one.mapping("spec") for one in queues}, as_text(found.report)


SELECTS_RESEARCH = {"matchLabels": {"team": "research"}}
OF_KUEUE = (
    kueue("ClusterQueue", "research", namespaceSelector=SELECTS_RESEARCH),
    kueue("LocalQueue", "main", "lab", clusterQueue="research"),
    kueue("LocalQueue", "main", "others", clusterQueue="research"),
)


def test_a_namespace_needs_both_a_local_queue_and_to_be_selected() -> None:
    specs, report = imported(
        "kueue",
        *OF_KUEUE,
        namespace("lab", labels={"team": "research"}),
        namespace("others", labels={"team": "sales"}),
        namespace("selected", labels={"team": "research"}),
    )
    assert specs["research"]["localQueues"] == [{"namespace": "lab", "name": "main"}]
    assert "namespaceSelector" not in specs["research"]
    assert "= spec.namespaceSelector -> spec.localQueues" in report
    assert "ClusterQueue research does not select its namespace" in report


def test_where_labels_are_not_known_the_selector_is_the_door() -> None:
    specs, report = imported("kueue", *OF_KUEUE)
    assert specs["research"]["namespaceSelector"] == SELECTS_RESEARCH
    assert "localQueues" not in specs["research"]
    assert "~ spec.namespaceSelector -> spec.namespaceSelector" in report
    assert report.count("give the Namespaces too") == 2


def test_a_selector_by_name_needs_no_namespaces() -> None:
    by_name = {"matchLabels": {"kubernetes.io/metadata.name": "lab"}}
    specs, _ = imported("kueue", kueue("ClusterQueue", "research", namespaceSelector=by_name), *OF_KUEUE[1:])
    assert specs["research"]["localQueues"] == [{"namespace": "lab", "name": "main"}]


def test_an_empty_selector_leaves_it_to_local_queues() -> None:
    specs, report = imported("kueue", kueue("ClusterQueue", "research", namespaceSelector={}), *OF_KUEUE[1:])
    assert [one["namespace"] for one in specs["research"]["localQueues"]] == ["lab", "others"]
    assert "= spec.namespaceSelector" in report


def test_without_a_local_queue_that_is_told() -> None:
    specs, report = imported("kueue", kueue("ClusterQueue", "research", namespaceSelector={}))
    assert "namespaceSelector" not in specs["research"]
    assert "- spec.namespaceSelector: without a LocalQueue no namespace uses it" in report


def of_kai(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"resources": {"gpu": {"quota": 4, "limit": 4}}},
    }


NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n"},
    "status": {"allocatable": {"cpu": "64", "memory": "512Gi", "nvidia.com/gpu": "8"}},
}


def test_the_namespaces_of_projects_may_use_their_queue_of_kai() -> None:
    specs, report = imported(
        "kai",
        of_kai("vision"),
        of_kai("speech"),
        NODE,
        namespace("runai-vision", labels={"runai/queue": "vision"}),
        namespace("lab", labels={"kai.scheduler/queue": "vision"}),
        namespace("lost", labels={"runai/queue": "nobody"}),
    )
    assert specs["vision"]["namespaces"] == ["lab", "runai-vision"]
    assert "namespaces" not in specs["speech"]
    assert "no namespace is known to use it, so it is closed" in report
    assert "there is no Queue nobody among these objects" in report


def test_where_no_namespace_names_a_queue_of_kai_all_stay_open() -> None:
    specs, report = imported("kai", of_kai("vision"), NODE)
    assert "namespaces" not in specs["vision"]
    assert "closed" not in report


def test_namespaces_that_name_their_queue_of_volcano_may_use_it() -> None:
    queue = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": "vision"},
        "spec": {},
    }
    annotations = {"scheduling.volcano.sh/queue-name": "vision"}
    specs, _ = imported("volcano", queue, NODE, namespace("lab", annotations=annotations))
    assert specs["vision"]["namespaces"] == ["lab"]


def test_a_selector_that_is_none_is_told_with_its_field() -> None:
    bad = {"matchExpressions": [{"key": "a b", "operator": "Exists"}]}
    with pytest.raises(InputError, match=r"ClusterQueue research.*spec.namespaceSelector.matchExpressions"):
        imported("kueue", kueue("ClusterQueue", "research", namespaceSelector=bad))
