"""Which pods belong together, in the words of each project, and what happens where they contradict."""

from typing import Any

import pytest

from gpufleet.kube import resources
from gpufleet.kube.codec.gang_terms import Membership
from gpufleet.kube.codec.gangs import FOLLOWED, make_gang, read_membership
from gpufleet.kube.codec.pod import GangPart, read_pod
from gpufleet.kube.codec.waits import Wait, WaitReason
from gpufleet.kube.kube_errors import ObjectError
from gpufleet.kube.objects.pod import Pod
from gpufleet.kube.resources import Kind
from gpufleet.model.bound_terms import NEVER_STALE
from gpufleet.model.gang import Gang
from tests.kube.shelf import Shelf
from tests.kube.wire_objects import a_pod

TYPES = dict(FOLLOWED)


def put(shelf: Shelf, kind: Kind, name: str, spec: dict[str, Any], **metadata: Any) -> Shelf:
    shelf.put(kind, TYPES[kind], name, "team-a" if kind.namespaced else "", spec=spec, metadata=metadata)
    return shelf


def controlled(kind: str, name: str) -> list[dict[str, Any]]:
    return [{"apiVersion": "example.com/v1", "kind": kind, "name": name, "uid": "u", "controller": True}]


def membership(pod: Pod, shelf: Shelf) -> Membership:
    found = read_membership(pod, shelf)
    assert isinstance(found, Membership), found
    return found


def gang(shelf: Shelf, *pods: Pod) -> Gang:
    members = []
    for pod in pods:
        its = membership(pod, shelf)
        members.append((read_pod(pod, gang=GangPart(its.gang, its.role)), its))
    return make_gang(members[0][1].gang, members)


def test_a_pod_that_says_nothing_stands_alone() -> None:
    assert read_membership(a_pod(), Shelf()) is None
    assert read_membership(a_pod(owners=controlled("ReplicaSet", "web")), Shelf()) is None
    assert read_membership(a_pod(owners=controlled("Job", "batch")), Shelf()) is None


@pytest.mark.parametrize("kind", [resources.POD_GROUPS_V1BETA1, resources.POD_GROUPS_V1ALPHA2])
def test_native_group(kind: Kind) -> None:
    spec = {
        "schedulingPolicy": {"gang": {"minCount": 4}},
        "schedulingConstraints": {"topology": [{"key": "rack"}]},
        "priority": 9,
    }
    shelf = put(Shelf(), kind, "train", spec, creationTimestamp="2026-01-01T00:00:00Z")
    found = gang(shelf, a_pod(schedulingGroup={"podGroupName": "train"}, priority=1))
    assert (found.name, found.min_members) == ("podgroups.scheduling.k8s.io/team-a/train", 4)
    assert (found.priority, found.required_level) == (9, "rack")
    assert found.created_at_us == 1_767_225_600_000_000


def test_native_group_without_a_gang_policy_is_one_of_one() -> None:
    shelf = put(Shelf(), resources.POD_GROUPS_V1BETA1, "train", {"schedulingPolicy": {"basic": {}}})
    assert gang(shelf, a_pod(schedulingGroup={"podGroupName": "train"})).min_members == 1


def test_group_of_scheduler_plugins() -> None:
    shelf = put(Shelf(), resources.PLUGINS_POD_GROUPS, "train", {"minMember": 3})
    assert gang(shelf, a_pod(labels={"scheduling.x-k8s.io/pod-group": "train"})).min_members == 3


def test_group_of_volcano() -> None:
    spec = {
        "minMember": 3,
        "minTaskMember": {"master": 1, "worker": 2},
        "queue": "q",
        "priorityClassName": "high",
    }
    shelf = put(Shelf(), resources.VOLCANO_POD_GROUPS, "train", spec)
    shelf.put(resources.PRIORITY_CLASSES, TYPES[resources.PRIORITY_CLASSES], "high", value=7)
    annotations = {"scheduling.k8s.io/group-name": "train", "volcano.sh/task-spec": "worker"}
    found = gang(shelf, a_pod(annotations=annotations))
    assert (found.min_members, found.role_minimums) == (3, (("master", 1), ("worker", 2)))
    assert (found.queue, found.priority) == ("q", 7)
    assert membership(a_pod(annotations=annotations), shelf).role == "worker"


def test_group_of_kai() -> None:
    subgroups = [
        {"name": "all"},
        {"name": "decode", "minMember": 2, "parent": "all"},
        {"name": "prefill", "minMember": 1, "parent": "all"},
    ]
    spec = {
        "subGroups": subgroups,
        "topologyConstraint": {"requiredTopologyLevel": "rack"},
        "queue": "research",
    }
    shelf = put(Shelf(), resources.KAI_POD_GROUPS, "train", spec)
    pod = a_pod(annotations={"pod-group-name": "train"}, labels={"kai.scheduler/subgroup-name": "decode"})
    found = gang(shelf, pod)
    assert (found.min_members, found.role_minimums) == (3, (("decode", 2), ("prefill", 1)))
    assert (found.required_level, found.queue) == ("rack", "research")


def kueue(total: str, name: str = "a") -> Pod:
    labels = {"kueue.x-k8s.io/pod-group-name": "train"}
    return a_pod(name=name, labels=labels, annotations={"kueue.x-k8s.io/pod-group-total-count": total})


def test_group_of_kueue() -> None:
    found = gang(Shelf(), kueue("2", "a"), kueue("2", "b"))
    assert (found.name, found.min_members) == ("kueue/team-a/train", 2)


def test_members_that_differ_condemn_the_whole_gang() -> None:
    with pytest.raises(ObjectError, match="differ") as caught:
        gang(Shelf(), kueue("2", "a"), kueue("3", "b"))
    assert "min_members" in caught.value.field


def test_more_members_than_the_size_that_they_name() -> None:
    with pytest.raises(ObjectError, match="3 members of a group of 2"):
        gang(Shelf(), *(kueue("2", name) for name in "abc"))


def test_members_in_several_queues() -> None:
    annotations = {"gpufleet.io/gang": "g", "gpufleet.io/gang-min-members": "2"}
    pods = [
        a_pod(name=queue, labels={"gpufleet.io/queue": queue}, annotations=annotations)
        for queue in ("one", "two")
    ]
    with pytest.raises(ObjectError, match="several queues, one and two"):
        gang(Shelf(), *pods)


def test_what_is_not_there_yet_is_waited_for() -> None:
    waits = [
        read_membership(a_pod(schedulingGroup={"podGroupName": "train"}), Shelf()),
        read_membership(a_pod(labels={"scheduling.x-k8s.io/pod-group": "train"}), Shelf()),
        read_membership(a_pod(annotations={"scheduling.k8s.io/group-name": "train"}), Shelf()),
        read_membership(a_pod(annotations={"pod-group-name": "train"}), Shelf()),
        read_membership(
            a_pod(owners=controlled("RayCluster", "ray"), labels={"ray.io/cluster": "ray"}), Shelf()
        ),
    ]
    for wait in waits:
        assert isinstance(wait, Wait)
        assert wait.reason is WaitReason.GROUP_MISSING


def job_set(**spec: Any) -> Shelf:
    jobs = [
        {"name": "driver", "template": {"spec": {"parallelism": 1, "completions": 1}}},
        {"name": "workers", "replicas": 2, "template": {"spec": {"parallelism": 4, "completions": 4}}},
    ]
    return put(Shelf(), resources.JOB_SETS, "train", {"replicatedJobs": jobs, **spec})


def of_job_set(role: str) -> Pod:
    labels = {"jobset.sigs.k8s.io/jobset-name": "train", "jobset.sigs.k8s.io/replicatedjob-name": role}
    return a_pod(labels=labels, owners=controlled("Job", f"train-{role}-0"))


def test_job_set() -> None:
    found = gang(job_set(), of_job_set("workers"), of_job_set("driver"))
    assert (found.min_members, found.role_minimums) == (9, (("driver", 1), ("workers", 8)))


def test_job_set_whose_jobs_come_in_order_is_a_gang_each() -> None:
    shelf = job_set(startupPolicy={"startupPolicyOrder": "InOrder"})
    assert read_membership(of_job_set("driver"), shelf) is None
    found = gang(shelf, of_job_set("workers"))
    assert (found.name, found.min_members) == ("jobsets/team-a/train/workers", 8)


def of_leader_worker_set(worker: str) -> Pod:
    prefix = "leaderworkerset.sigs.k8s.io"
    labels = {f"{prefix}/name": "llm", f"{prefix}/group-index": "2", f"{prefix}/worker-index": worker}
    return a_pod(name=f"llm-2-{worker}", labels=labels, owners=controlled("StatefulSet", "llm-2"))


def test_leader_worker_set_is_a_gang_for_each_leader() -> None:
    shelf = put(Shelf(), resources.LEADER_WORKER_SETS, "llm", {"leaderWorkerTemplate": {"size": 4}})
    found = gang(shelf, of_leader_worker_set("0"), of_leader_worker_set("3"))
    assert (found.name, found.min_members) == ("leaderworkersets/team-a/llm/2", 4)
    assert found.role_minimums == (("leader", 1), ("worker", 3))


@pytest.mark.parametrize(
    ("spec", "annotations"),
    [
        ({"startupPolicy": "LeaderReady"}, {}),
        ({}, {"leaderworkerset.sigs.k8s.io/exclusive-topology": "rack"}),
    ],
)
def test_workers_that_wait_for_their_leader_are_a_gang_without_it(
    spec: dict[str, Any], annotations: dict[str, str]
) -> None:
    written = {"leaderWorkerTemplate": {"size": 4}, **spec}
    shelf = put(Shelf(), resources.LEADER_WORKER_SETS, "llm", written, annotations=annotations)
    assert read_membership(of_leader_worker_set("0"), shelf) is None
    assert gang(shelf, of_leader_worker_set("1")).min_members == 3


def of_training_job(kind: str, role: str) -> Pod:
    labels = {"training.kubeflow.org/job-name": "train", "training.kubeflow.org/replica-type": role}
    return a_pod(name=role, labels=labels, owners=controlled(kind, "train"))


@pytest.mark.parametrize(
    ("kind", "field"),
    [
        (resources.PYTORCH_JOBS, "pytorchReplicaSpecs"),
        (resources.TF_JOBS, "tfReplicaSpecs"),
        (resources.XGBOOST_JOBS, "xgbReplicaSpecs"),
        (resources.PADDLE_JOBS, "paddleReplicaSpecs"),
        (resources.JAX_JOBS, "jaxReplicaSpecs"),
        (resources.MPI_JOBS, "mpiReplicaSpecs"),
    ],
)
def test_training_jobs(kind: Kind, field: str) -> None:
    shelf = put(Shelf(), kind, "train", {field: {"Master": {"replicas": 1}, "Worker": {"replicas": 3}}})
    found = gang(shelf, of_training_job(kind.name, "worker"), of_training_job(kind.name, "master"))
    assert (found.min_members, found.role_minimums) == (4, (("master", 1), ("worker", 3)))


def test_training_job_that_says_how_many_are_enough() -> None:
    spec = {
        "pytorchReplicaSpecs": {"Worker": {"replicas": 8}},
        "runPolicy": {"schedulingPolicy": {"minAvailable": 5}},
    }
    shelf = put(Shelf(), resources.PYTORCH_JOBS, "train", spec)
    assert gang(shelf, of_training_job("PyTorchJob", "worker")).min_members == 5


def test_elastic_training_starts_with_its_fewest_workers() -> None:
    replicas = {"Master": {"replicas": 1}, "Worker": {"replicas": 8}}
    spec = {"pytorchReplicaSpecs": replicas, "elasticPolicy": {"minReplicas": 2}}
    shelf = put(Shelf(), resources.PYTORCH_JOBS, "train", spec)
    assert gang(shelf, of_training_job("PyTorchJob", "worker")).min_members == 3


def test_a_launcher_that_waits_for_the_workers_is_no_member() -> None:
    replicas = {"Launcher": {"replicas": 1}, "Worker": {"replicas": 2}}
    spec = {"mpiReplicaSpecs": replicas, "launcherCreationPolicy": "WaitForWorkersReady"}
    shelf = put(Shelf(), resources.MPI_JOBS, "train", spec)
    labels = {"training.kubeflow.org/job-name": "train", "training.kubeflow.org/job-role": "launcher"}
    launcher = a_pod(labels=labels, owners=controlled("Job", "train-launcher"))
    assert read_membership(launcher, shelf) is None
    assert gang(shelf, of_training_job("MPIJob", "worker")).min_members == 2


@pytest.mark.parametrize(("scaled", "size"), [(False, 1 + 3 * 2), (True, 1 + 1 * 2)])
def test_ray_cluster(scaled: bool, size: int) -> None:
    groups = [
        {"groupName": "gpu", "replicas": 3, "minReplicas": 1, "numOfHosts": 2},
        {"groupName": "off", "replicas": 5, "suspend": True},
    ]
    spec = {"workerGroupSpecs": groups, "enableInTreeAutoscaling": scaled}
    shelf = put(Shelf(), resources.RAY_CLUSTERS, "ray", spec)
    labels = {"ray.io/cluster": "ray", "ray.io/group": "gpu"}
    found = gang(shelf, a_pod(labels=labels, owners=controlled("RayCluster", "ray")))
    assert found.min_members == size


def of_own_gang(**more: Any) -> Pod:
    annotations = {
        "gpufleet.io/gang": "train",
        "gpufleet.io/gang-role": "worker",
        **more.pop("annotations", {}),
    }
    return a_pod(annotations=annotations, **more)


def test_a_gang_by_our_own_words() -> None:
    pod = of_own_gang(annotations={"gpufleet.io/gang-min-members": "4"})
    assert membership(pod, Shelf()).role == "worker"
    assert gang(Shelf(), pod).min_members == 4


MODELS_IN_ORDER = {
    "gpufleet.io/gang-min-members": "4",
    "gpufleet.io/gang-one-model": "true",
    "gpufleet.io/gpu-models": "H100-80GB,A100",
}


def test_a_gang_on_one_model_has_each_model_of_its_list_in_order() -> None:
    found = gang(Shelf(), of_own_gang(annotations=MODELS_IN_ORDER))
    assert found.model_order == ("H100-80GB", "A100-40GB", "A100-80GB")
    spread_out = {**MODELS_IN_ORDER, "gpufleet.io/gang-one-model": "false"}
    assert gang(Shelf(), of_own_gang(annotations=spread_out)).model_order == ()


@pytest.mark.parametrize("one_model", ["yes", "", "True"])
def test_a_wish_for_one_model_that_is_none_is_refused(one_model: str) -> None:
    pod = of_own_gang(annotations={**MODELS_IN_ORDER, "gpufleet.io/gang-one-model": one_model})
    with pytest.raises(ObjectError, match="gang-one-model"):
        read_membership(pod, Shelf())


def test_one_model_without_a_list_of_models_is_refused() -> None:
    unlisted = {key: text for key, text in MODELS_IN_ORDER.items() if key != "gpufleet.io/gpu-models"}
    pod = of_own_gang(annotations=unlisted)
    with pytest.raises(ObjectError, match="gpu-models"):
        read_membership(pod, Shelf())


def test_a_job_and_a_stateful_set_where_they_ask() -> None:
    shelf = put(Shelf(), resources.JOBS, "batch", {"parallelism": 6, "completions": 4})
    put(shelf, resources.STATEFUL_SETS, "db", {"replicas": 3, "podManagementPolicy": "Parallel"})
    assert gang(shelf, of_own_gang(owners=controlled("Job", "batch"))).min_members == 4
    assert gang(shelf, of_own_gang(owners=controlled("StatefulSet", "db"))).min_members == 3


def test_a_stateful_set_that_starts_one_after_the_other_is_no_gang() -> None:
    shelf = put(Shelf(), resources.STATEFUL_SETS, "db", {"replicas": 3})
    with pytest.raises(ObjectError, match="one after the other"):
        read_membership(of_own_gang(owners=controlled("StatefulSet", "db")), shelf)


@pytest.mark.parametrize("key", ["scheduling.volcano.sh/group-min-member", "kai.scheduler/batch-min-member"])
def test_a_bare_minimum_gathers_the_pods_of_one_controller(key: str) -> None:
    pod = a_pod(annotations={key: "3"}, owners=controlled("ReplicaSet", "web-1"))
    found = gang(Shelf(), pod)
    assert (found.name, found.min_members) == ("replicaset/team-a/web-1", 3)


@pytest.mark.parametrize("on_the_job", [True, False])
def test_a_job_that_may_start_with_fewer_pods_is_a_gang_of_so_many(on_the_job: bool) -> None:
    annotations = {"kueue.x-k8s.io/job-min-parallelism": "3"}
    metadata = {"annotations": annotations} if on_the_job else {}
    shelf = put(Shelf(), resources.JOBS, "batch", {"parallelism": 8}, **metadata)
    pod = a_pod(owners=controlled("Job", "batch"), annotations={} if on_the_job else annotations)
    assert gang(shelf, pod).min_members == 3


def test_a_job_needs_no_more_pods_than_it_has() -> None:
    metadata = {"annotations": {"kueue.x-k8s.io/job-min-parallelism": "6"}}
    shelf = put(Shelf(), resources.JOBS, "batch", {"parallelism": 8, "completions": 4}, **metadata)
    assert gang(shelf, a_pod(owners=controlled("Job", "batch"))).min_members == 4


def test_a_job_that_says_nothing_or_is_not_there_leaves_its_pods_alone() -> None:
    shelf = put(Shelf(), resources.JOBS, "batch", {"parallelism": 8})
    assert read_membership(a_pod(owners=controlled("Job", "batch")), shelf) is None
    assert read_membership(a_pod(owners=controlled("Job", "gone")), shelf) is None


@pytest.mark.parametrize("text", ["0", "-1", "three", ""])
def test_a_least_parallelism_that_is_none_is_refused(text: str) -> None:
    metadata = {"annotations": {"kueue.x-k8s.io/job-min-parallelism": text}}
    shelf = put(Shelf(), resources.JOBS, "batch", {"parallelism": 8}, **metadata)
    with pytest.raises(ObjectError):
        gang(shelf, a_pod(owners=controlled("Job", "batch")))


@pytest.mark.parametrize(
    ("text", "stale_after_us"), [("90s", 90_000_000), ("0s", 0), ("-1", NEVER_STALE), ("-1s", NEVER_STALE)]
)
@pytest.mark.parametrize("key", ["gpufleet.io/gang-stale-after", "kai.scheduler/staleness-grace-period"])
def test_how_long_a_gang_may_be_short_of_members(key: str, text: str, stale_after_us: int) -> None:
    pod = of_own_gang(annotations={"gpufleet.io/gang-min-members": "2", key: text})
    assert membership(pod, Shelf()).terms.stale_after_us == stale_after_us


def test_kai_says_it_in_its_group() -> None:
    spec = {"minMember": 2, "stalenessGracePeriod": "5m"}
    shelf = put(Shelf(), resources.KAI_POD_GROUPS, "train", spec)
    found = membership(a_pod(annotations={"pod-group-name": "train"}), shelf)
    assert found.terms.stale_after_us == 300_000_000


@pytest.mark.parametrize("text", ["", "soon", "-2", "60"])
def test_a_grace_period_that_is_none_is_refused(text: str) -> None:
    annotations = {"gpufleet.io/gang-min-members": "2", "gpufleet.io/gang-stale-after": text}
    with pytest.raises(ObjectError, match="gang-stale-after"):
        read_membership(of_own_gang(annotations=annotations), Shelf())


def test_two_grace_periods_are_refused() -> None:
    two = {"gpufleet.io/gang-stale-after": "1m", "kai.scheduler/staleness-grace-period": "2m"}
    pod = of_own_gang(annotations={"gpufleet.io/gang-min-members": "2", **two})
    with pytest.raises(ObjectError, match="two lengths of time"):
        read_membership(pod, Shelf())


def test_a_pod_in_two_groups_is_refused_by_both_names() -> None:
    pod = a_pod(labels={"scheduling.x-k8s.io/pod-group": "one"}, annotations={"pod-group-name": "two"})
    with pytest.raises(ObjectError, match="two groups") as caught:
        read_membership(pod, Shelf())
    assert "scheduling.x-k8s.io/pod-group" in caught.value.field
    assert "pod-group-name" in caught.value.field


def test_what_a_pod_says_itself_goes_before_its_owner() -> None:
    shelf = put(Shelf(), resources.PLUGINS_POD_GROUPS, "train", {"minMember": 2})
    labels = {"scheduling.x-k8s.io/pod-group": "train", "ray.io/cluster": "ray"}
    pod = a_pod(labels=labels, owners=controlled("RayCluster", "ray"))
    assert gang(shelf, pod).min_members == 2


@pytest.mark.parametrize("name", ["team-b/train", "", "Train", "../../etc", "train\n", "\u202etrain"])
def test_a_group_of_another_namespace_or_of_no_name_is_refused(name: str) -> None:
    with pytest.raises(ObjectError) as caught:
        read_membership(a_pod(annotations={"scheduling.k8s.io/group-name": name}), Shelf())
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("minimum", [0, -1, 2**31])
def test_a_size_that_cannot_be_condemns_the_gang(minimum: int) -> None:
    shelf = put(Shelf(), resources.PLUGINS_POD_GROUPS, "train", {"minMember": minimum})
    with pytest.raises(ObjectError, match="not a size"):
        gang(shelf, a_pod(labels={"scheduling.x-k8s.io/pod-group": "train"}))


@pytest.mark.parametrize("text", ["", "0", "-1", "abc", "1e3", "1_0", " 2", "\uff12", "99999999"])
def test_a_size_in_an_annotation_is_plain_digits(text: str) -> None:
    with pytest.raises(ObjectError):
        read_membership(kueue(text), Shelf())


def test_what_cannot_be_honoured_is_refused_and_not_forgotten() -> None:
    spec = {"minMember": 2, "networkTopology": {"mode": "hard", "highestTierAllowed": 1}}
    shelf = put(Shelf(), resources.VOLCANO_POD_GROUPS, "train", spec)
    with pytest.raises(ObjectError, match="no HyperNode is of this tier"):
        read_membership(a_pod(annotations={"scheduling.k8s.io/group-name": "train"}), shelf)
    composite = {"schedulingPolicy": {"gang": {"minCount": 1}}, "parentCompositePodGroupName": "all"}
    shelf = put(Shelf(), resources.POD_GROUPS_V1BETA1, "train", composite)
    with pytest.raises(ObjectError, match="CompositePodGroup"):
        read_membership(a_pod(schedulingGroup={"podGroupName": "train"}), shelf)
    with pytest.raises(ObjectError, match=r"1\.35"):
        read_membership(a_pod(workloadRef={"name": "train", "podGroup": "workers"}), Shelf())
