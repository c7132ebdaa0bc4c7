"""What a pod asks for, from the pod as the server sends it."""

from typing import Any

import pytest

from gpufleet.kube.codec.containers import GpuContainer, gpu_containers
from gpufleet.kube.codec.pod import GangPart, PodVolumes, read_placed_pod, read_pod
from gpufleet.kube.codec.waits import WaitReason, waits_of
from gpufleet.kube.kube_errors import ObjectError
from gpufleet.model.host_port import HostPort
from gpufleet.model.identifiers import GangName
from gpufleet.model.labels import LabelSelector, NodeAffinity, NodeTerm, Operator, Requirement
from gpufleet.model.pod_affinity import NamespaceScope, PodTerm, PreferredPodTerm
from gpufleet.model.shape import GpuRequest
from gpufleet.model.taint import Toleration
from gpufleet.model.topology_spread import SpreadConstraint
from gpufleet.model.volumes import Attachment, Volumes
from tests.kube.wire_objects import NVIDIA, a_pod, limited

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
# 2026-01-31T12:00:00Z, by `date -u -d ... +%s`.
MADE_AT_US = 1_769_860_800_000_000


def test_identity_and_turn() -> None:
    pod = read_pod(a_pod(labels={"b": "2", "a": "1"}, priority=5), gang=GangPart(GangName("g"), "worker"))
    assert (pod.uid, pod.name, pod.namespace) == ("uid-of-train-0", "team-a/train-0", "team-a")
    assert pod.labels == (("a", "1"), ("b", "2"))
    assert (pod.priority, pod.created_at_us) == (5, MADE_AT_US)
    assert (pod.gang, pod.role) == ("g", "worker")


@pytest.mark.parametrize(
    ("labels", "annotations", "namespace_labels", "queue"),
    [
        ({}, {}, {}, "default"),
        ({}, {}, {"gpufleet.io/queue": "research"}, "research"),
        ({"kueue.x-k8s.io/queue-name": "lq"}, {}, {"gpufleet.io/queue": "research"}, "lq"),
        ({"kai.scheduler/queue": "kai"}, {"scheduling.volcano.sh/queue-name": "volcano"}, {}, "kai"),
        ({}, {"scheduling.volcano.sh/queue-name": "volcano"}, {}, "volcano"),
        ({"gpufleet.io/queue": "ours", "kueue.x-k8s.io/queue-name": "lq"}, {}, {}, "ours"),
    ],
)
def test_the_first_queue_that_is_named_counts(
    labels: dict[str, str], annotations: dict[str, str], namespace_labels: dict[str, str], queue: str
) -> None:
    pod = a_pod(labels=labels, annotations=annotations)
    assert read_pod(pod, namespace_labels=namespace_labels).queue == queue


def test_amounts_follow_the_kubelet() -> None:
    pod = a_pod(
        limited("train", {"cpu": "2", NVIDIA: "2"}),
        initContainers=[
            limited("check", {NVIDIA: "4"}),
            limited("proxy", {"cpu": "1"}, restartPolicy="Always"),
        ],
        overhead={"cpu": "100m"},
    )
    shape = read_pod(pod).shape
    assert shape.resources.cpu_milli == 3100
    assert shape.gpu == GpuRequest(4, 1000)
    assert gpu_containers(pod.spec) == (GpuContainer("check", 4, lends=True), GpuContainer("train", 2))


def test_node_selection() -> None:
    shape = read_pod(
        a_pod(
            nodeSelector={"zone": "a", "accelerator": "nvidia-a100"},
            tolerations=[{"operator": "Exists"}, {"key": "gpu", "value": "true", "effect": "NoSchedule"}],
            affinity={
                "nodeAffinity": {
                    REQUIRED: {
                        "nodeSelectorTerms": [
                            {
                                "matchExpressions": [
                                    {"key": "gpu.memory", "operator": "Gt", "values": ["40000"]}
                                ]
                            },
                            {
                                "matchFields": [
                                    {"key": "metadata.name", "operator": "In", "values": ["node-1"]}
                                ]
                            },
                        ]
                    },
                    PREFERRED: [
                        {
                            "weight": 7,
                            "preference": {"matchExpressions": [{"key": "ssd", "operator": "Exists"}]},
                        }
                    ],
                }
            },
        )
    ).shape
    assert shape.node_selector == (("accelerator", "nvidia-a100"), ("zone", "a"))
    assert set(shape.tolerations) == {
        Toleration(operator="Exists"),
        Toleration("gpu", value="true", effect="NoSchedule"),
    }
    assert shape.affinity.accepts({"gpu.memory": "80000"}, "node-2")
    assert shape.affinity.accepts({}, "node-1")
    assert not shape.affinity.accepts({"gpu.memory": "40000"}, "node-2")
    assert shape.affinity.preference({"ssd": ""}, "node-2") == 7


def test_an_empty_list_of_terms_matches_no_node() -> None:
    required: dict[str, Any] = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": []}}}
    assert not read_pod(a_pod(affinity=required)).shape.affinity.accepts({}, "node-1")


def test_ports_of_containers_and_sidecars() -> None:
    ports = [{"containerPort": 80, "hostPort": 8080}, {"containerPort": 81}]
    sidecar = [{"containerPort": 53, "hostPort": 53, "protocol": "UDP", "hostIP": "10.0.0.1"}]
    pod = a_pod(
        {"name": "web", "ports": ports},
        initContainers=[
            {"name": "dns", "ports": sidecar, "restartPolicy": "Always"},
            {"name": "init", "ports": [{"containerPort": 1, "hostPort": 1}]},
        ],
    )
    expected = (HostPort(53, "UDP", "10.0.0.1"), HostPort(8080))
    assert read_pod(pod).shape.relations.ports == expected


WEB = LabelSelector((Requirement("app", Operator.IN, ("web",)),))
WEB_TERM = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}}


def test_affinity_to_other_pods() -> None:
    pod = a_pod(
        labels={"app": "web", "other": "x"},
        affinity={
            "podAffinity": {REQUIRED: [WEB_TERM]},
            "podAntiAffinity": {
                REQUIRED: [{**WEB_TERM, "namespaces": ["b", "a"]}],
                PREFERRED: [{"weight": 3, "podAffinityTerm": {**WEB_TERM, "namespaceSelector": {}}}],
            },
        },
    )
    relations = read_pod(pod).shape.relations
    assert relations.affinity == (PodTerm("zone", NamespaceScope(("team-a",)), WEB),)
    assert relations.anti_affinity == (PodTerm("zone", NamespaceScope(("a", "b")), WEB),)
    everywhere = NamespaceScope((), LabelSelector())
    assert relations.preferred == (PreferredPodTerm(-3, PodTerm("zone", everywhere, WEB)),)
    # Labels that no selector of its own names must not tell equal pods apart.
    assert (relations.namespace, relations.labels) == ("team-a", (("app", "web"),))


def test_keys_of_own_labels_are_added_where_the_server_did_not() -> None:
    term = {**WEB_TERM, "matchLabelKeys": ["hash"], "mismatchLabelKeys": ["tenant"]}
    affinity = {"podAffinity": {REQUIRED: [term]}}
    pod = a_pod(labels={"hash": "1", "tenant": "t"}, affinity=affinity)
    selector = read_pod(pod).shape.relations.affinity[0].selector
    assert selector is not None
    assert set(selector.requirements) == {
        *WEB.requirements,
        Requirement("hash", Operator.IN, ("1",)),
        Requirement("tenant", Operator.NOT_IN, ("t",)),
    }


def test_what_the_server_merged_when_the_pod_was_made_stands() -> None:
    merged = [{"key": "hash", "operator": "In", "values": ["1"]}]
    term = {"topologyKey": "zone", "labelSelector": {"matchExpressions": merged}, "matchLabelKeys": ["hash"]}
    affinity = {"podAffinity": {REQUIRED: [term]}}
    selector = read_pod(a_pod(labels={"hash": "2"}, affinity=affinity)).shape.relations.affinity[0].selector
    assert selector == LabelSelector((Requirement("hash", Operator.IN, ("1",)),))


def test_spread() -> None:
    constraint = {
        "maxSkew": 2,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
        "minDomains": 3,
        "nodeAffinityPolicy": "Ignore",
        "nodeTaintsPolicy": "Honor",
        "matchLabelKeys": ["hash", "absent"],
    }
    soft = {"maxSkew": 1, "topologyKey": "host", "whenUnsatisfiable": "ScheduleAnyway"}
    spread = read_pod(
        a_pod(labels={"hash": "1"}, topologySpreadConstraints=[constraint, soft])
    ).shape.relations.spread
    selector = LabelSelector((*WEB.requirements, Requirement("hash", Operator.IN, ("1",))))
    assert spread == (
        SpreadConstraint(
            2, "zone", selector, required=True, min_domains=3, honor_affinity=False, honor_taints=True
        ),
        SpreadConstraint(1, "host", None, required=False),
    )


def test_volumes_are_part_of_the_shape() -> None:
    here = NodeAffinity((NodeTerm((Requirement("zone", Operator.IN, ("a",)),)),))
    attached = Volumes(attachments=(Attachment("ebs.csi.aws.com", "vol-1"),))
    shape = read_pod(a_pod(), volumes=PodVolumes((here,), attached)).shape
    assert shape.volume_affinities == (here,)
    assert shape.relations.volumes == attached


@pytest.mark.parametrize(
    ("spec", "feature"),
    [
        (
            {"containers": [{"name": "c", "restartPolicyRules": [{"action": "RestartAllContainers"}]}]},
            "RestartAllContainersOnContainerExits",
        ),
        ({"hostNetwork": True, "hostUsers": False}, "UserNamespacesHostNetworkSupport"),
        (
            {"containers": [{"name": "c", "volumeMounts": [{"name": "v", "bindMountOptions": ["noexec"]}]}]},
            "VolumeBindMountOptions",
        ),
    ],
)
def test_features_that_a_node_must_declare(spec: dict[str, Any], feature: str) -> None:
    assert read_pod(a_pod(**spec)).shape.features == (feature,)


def test_equal_pods_share_one_shape() -> None:
    one = read_pod(a_pod(limited("train", {NVIDIA: "1"}), name="a", labels={"index": "1"})).shape
    other = read_pod(a_pod(limited("train", {NVIDIA: "1"}), name="b", labels={"index": "2"})).shape
    assert one is other


def test_pods_differ_by_what_their_own_terms_see() -> None:
    affinity = {"podAffinity": {REQUIRED: [WEB_TERM]}}
    shapes = [
        read_pod(a_pod(namespace=namespace, labels={"app": app}, affinity=affinity)).shape
        for namespace, app in [("a", "web"), ("a", "db"), ("b", "web"), ("a", "web")]
    ]
    assert len(set(shapes)) == 3


def test_gates_are_waited_for() -> None:
    pod = a_pod(schedulingGates=[{"name": "quota.example.com"}])
    assert [wait.reason for wait in waits_of(pod)] == [WaitReason.GATED]
    assert "quota.example.com" in waits_of(pod)[0].message
    assert waits_of(a_pod()) == ()


def bad_affinity(kind: str, term: dict[str, Any]) -> dict[str, Any]:
    return {"affinity": {kind: {REQUIRED: [term]}}}


IMPOSSIBLE: dict[str, tuple[dict[str, Any], str]] = {
    "selector": ({"nodeSelector": {"a b": "c"}}, "spec.nodeSelector.key"),
    "operator": (
        bad_affinity(
            "podAffinity",
            {"topologyKey": "z", "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}},
        ),
        f"spec.affinity.podAffinity.{REQUIRED}[0].labelSelector.matchExpressions[0].operator",
    ),
    "no topology key": (
        bad_affinity("podAntiAffinity", {}),
        f"spec.affinity.podAntiAffinity.{REQUIRED}[0].topologyKey",
    ),
    "10,000 terms": (
        bad_affinity(
            "podAffinity",
            {
                "topologyKey": "z",
                "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Exists"}] * 10_000},
            },
        ),
        f"spec.affinity.podAffinity.{REQUIRED}[0].labelSelector.matchExpressions",
    ),
    "toleration": ({"tolerations": [{"operator": "Sometimes", "key": "a"}]}, "spec.tolerations[0].operator"),
    "skew": (
        {
            "topologySpreadConstraints": [
                {"maxSkew": 0, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}
            ]
        },
        "spec.topologySpreadConstraints[0].maxSkew",
    ),
    "GPUs": (
        {"containers": [limited("c", {NVIDIA: "1.5"})]},
        f"spec.containers[c].resources.limits[{NVIDIA}]",
    ),
}


@pytest.mark.parametrize(("spec", "field"), IMPOSSIBLE.values(), ids=IMPOSSIBLE.keys())
def test_the_field_is_named_by_its_path(spec: dict[str, Any], field: str) -> None:
    with pytest.raises(ObjectError) as caught:
        read_pod(a_pod(**spec))
    assert caught.value.field == field
    assert caught.value.where == "pod team-a/train-0"


def test_a_placed_pod_is_counted_whatever_else_it_says() -> None:
    pod = a_pod(limited("train", {NVIDIA: "1", "cpu": "2"}), **bad_affinity("podAntiAffinity", {}))
    shape = read_placed_pod(pod).shape
    assert (shape.gpu, shape.resources.cpu_milli) == (GpuRequest(1, 1000), 2000)
