"""Edges of GPU024: where gangs say how many they are, which pods count, what their queue ever has."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.engine import event
from gpufleet.lint.objects.cluster import Cluster
from gpufleet.lint.objects.fleet_queue_tree import FleetTree
from gpufleet.lint.rules import all_rules
from gpufleet.lint.run import lint, read
from gpufleet.lint.source.text import SourceText
from gpufleet.model.queue import Queue
from tests.engine.fleet_builder import Story
from tests.engine.fleet_builder import node as node_of_engine
from tests.engine.queueing.queue_builder import available, queue, quota
from tests.lint.linting import findings_of, report_of
from tests.lint.test_cluster_rules import A100, node

ROOM = node(A100) + node(A100, name="m")
"""Two nodes of eight GPUs."""


def work(kind: str = "Job", count: int = 2, gpus: int = 1, /, **said: str) -> str:
    """Work of one template with so many pods, and what is said of it.

    ``labels`` and ``annotations`` are of its pods, with ``own_`` in front of the object; ``spec`` goes into
    the pods' spec, ``fields`` below that of the object.
    """
    version, number = {
        "Job": ("batch/v1", "parallelism"),
        "Deployment": ("apps/v1", "replicas"),
    }[kind]
    name, namespace = said.get("name", "a"), said.get("namespace", "")
    place = f", namespace: {namespace}" if namespace else ""
    own = f"labels: {{{said.get('own_labels', '')}}}, annotations: {{{said.get('own_annotations', '')}}}"
    pods = f"labels: {{{said.get('labels', '')}}}, annotations: {{{said.get('annotations', '')}}}"
    limits = f"resources: {{limits: {{nvidia.com/gpu: {gpus}}}}}"
    return (
        f"apiVersion: {version}\nkind: {kind}\nmetadata: {{name: {name}{place}, {own}}}\n"
        f"spec:\n  {number}: {count}\n  template:\n    metadata: {{{pods}}}\n"
        f"    spec: {{{said.get('spec', '')} containers: [{{name: c, {limits}}}]}}\n"
        f"{said.get('fields', '')}---\n"
    )


def bare(annotations: str) -> str:
    return (
        f"apiVersion: v1\nkind: Pod\nmetadata: {{name: p, annotations: {{{annotations}}}}}\n"
        "spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: 1}}}]}\n---\n"
    )


def group(version: str, spec: str, namespace: str = "") -> str:
    place = f", namespace: {namespace}" if namespace else ""
    return f"apiVersion: {version}\nkind: PodGroup\nmetadata: {{name: g{place}}}\nspec: {{{spec}}}\n---\n"


def judgement(text: str, cluster: str = ROOM) -> str:
    """Whether GPU024 finds something, does not judge, or lets pass."""
    report = report_of(text, cluster=cluster)
    assert report.problems == ()
    if any(one.rule.id == "GPU024" for one in report.findings):
        return "found"
    return "unjudged" if any(one.rule.id == "GPU024" for one in report.unjudged) else "passed"


PLUGINS, VOLCANO = "scheduling.x-k8s.io/v1alpha1", "scheduling.volcano.sh/v1beta1"
KAI, NATIVE = "scheduling.run.ai/v2alpha2", "scheduling.k8s.io/v1beta1"
GANG_OF = "schedulingPolicy: {gang: {minCount: %d}}"
NAMED = {
    PLUGINS: {"labels": "scheduling.x-k8s.io/pod-group: g"},
    VOLCANO: {"annotations": "scheduling.k8s.io/group-name: g"},
    KAI: {"annotations": "pod-group-name: g"},
    NATIVE: {"spec": "schedulingGroup: {podGroupName: g},"},
}


@pytest.mark.parametrize("version", NAMED)
@pytest.mark.parametrize(("least", "expected"), [(2, "passed"), (3, "found")])
def test_a_pod_group_waits_for_no_more_members_than_it_has(version: str, least: int, expected: str) -> None:
    minimum = GANG_OF % least if version == NATIVE else f"minMember: {least}"
    assert judgement(group(version, minimum) + work("Job", 2, **NAMED[version])) == expected


def test_an_older_label_names_a_pod_group_too() -> None:
    pods = work("Job", 2, labels="pod-group.scheduling.sigs.k8s.io: g")
    assert judgement(group(PLUGINS, "minMember: 3") + pods) == "found"


def test_members_of_several_objects_count_together() -> None:
    halves = work("Job", 2, **NAMED[PLUGINS]) + work("Deployment", 2, name="b", **NAMED[PLUGINS])
    assert judgement(group(PLUGINS, "minMember: 4") + halves) == "passed"
    assert judgement(group(PLUGINS, "minMember: 5") + halves) == "found"


def test_members_of_another_namespace_do_not_count() -> None:
    here = work("Job", 2, namespace="here", **NAMED[PLUGINS])
    away = work("Job", 2, namespace="away", **NAMED[PLUGINS])
    assert judgement(group(PLUGINS, "minMember: 4", "here") + here + away) == "found"


def test_a_pod_group_without_its_pods_is_not_judged() -> None:
    assert judgement(group(PLUGINS, "minMember: 4")) == "unjudged"


def test_tasks_of_volcano_and_subgroups_of_kai_count_for_themselves() -> None:
    task = {"annotations": "scheduling.k8s.io/group-name: g, volcano.sh/task-spec: w"}
    assert (
        judgement(group(VOLCANO, "minMember: 1, minTaskMember: {w: 3}") + work("Job", 2, **task)) == "found"
    )
    assert (
        judgement(group(VOLCANO, "minMember: 1, minTaskMember: {w: 2}") + work("Job", 2, **task)) == "passed"
    )
    part = {"annotations": "pod-group-name: g", "labels": "kai.scheduler/subgroup-name: w"}
    assert judgement(group(KAI, "subGroups: [{name: w, minMember: 3}]") + work("Job", 2, **part)) == "found"
    assert judgement(group(KAI, "subGroups: [{name: w, minMember: 2}]") + work("Job", 2, **part)) == "passed"


OWN = "gpufleet.io/gang: g, gpufleet.io/gang-min-members: '%d'"
SAID = [
    (work("Deployment", annotations=OWN % 2), "passed"),
    (work("Deployment", annotations=OWN % 3), "found"),
    (work("Deployment", labels=OWN % 3), "found"),
    (
        work("Deployment", annotations=OWN % 3) + work("Deployment", 1, annotations=OWN % 3, name="b"),
        "passed",
    ),
    # Other pods of such a gang may be written elsewhere.
    (bare(OWN % 3), "unjudged"),
    (bare(OWN % 1), "passed"),
    (bare("kueue.x-k8s.io/pod-group-name: g, kueue.x-k8s.io/pod-group-total-count: '2'"), "unjudged"),
    (bare("kueue.x-k8s.io/pod-group-name: g, kueue.x-k8s.io/pod-group-total-count: '2'") * 2, "passed"),
    (work(annotations="scheduling.volcano.sh/group-min-member: '3'"), "found"),
    (work(annotations="kai.scheduler/batch-min-member: '3'"), "found"),
    (work(own_annotations="kai.scheduler/batch-min-member: '2'"), "passed"),
    (work(own_annotations="kueue.x-k8s.io/job-min-parallelism: '3'"), "found"),
    (work(own_annotations="kueue.x-k8s.io/job-min-parallelism: '2'"), "passed"),
    # No more pods of a Job run at once than have to complete.
    (work(annotations=OWN % 2, fields="  completions: 1\n"), "found"),
    # What no scheduler reads as a number is refused with its field, and is no gang that is too large.
    (work(annotations="gpufleet.io/gang: g, gpufleet.io/gang-min-members: many"), "passed"),
    # Without a number a Job counts its pods: 17 pods of one GPU each are one more than both nodes hold.
    (work("Job", 16, annotations="gpufleet.io/gang: g"), "passed"),
    (work("Job", 17, annotations="gpufleet.io/gang: g"), "found"),
    (work("Deployment", 17, annotations="gpufleet.io/gang: g"), "passed"),
]


@pytest.mark.parametrize(("text", "expected"), SAID)
def test_a_gang_by_the_words_of_its_pods(text: str, expected: str) -> None:
    assert judgement(text) == expected


def test_without_nodes_its_room_is_not_judged() -> None:
    assert judgement(work(annotations=OWN % 2), "") == "unjudged"


KUEUE = "kueue.x-k8s.io/v1beta2"
LOCAL = (
    f"apiVersion: {KUEUE}\nkind: LocalQueue\nmetadata: {{name: q, namespace: n}}\n"
    "spec: {clusterQueue: c}\n---\n"
)
QUEUED = {"own_labels": "kueue.x-k8s.io/queue-name: q", "namespace": "n"}


def cluster_queue(*flavors: str, name: str = "c", cohort: str = "") -> str:
    listed = ", ".join(
        f"{{name: f{number}, resources: [{{name: nvidia.com/gpu, {quota}}}]}}"
        for number, quota in enumerate(flavors)
    )
    return (
        f"apiVersion: {KUEUE}\nkind: ClusterQueue\nmetadata: {{name: {name}}}\n"
        f"spec: {{{f'cohortName: {cohort}, ' if cohort else ''}"
        f"resourceGroups: [{{coveredResources: [nvidia.com/gpu], flavors: [{listed}]}}]}}\n---\n"
    )


EIGHT = "nominalQuota: 8"
COHORT = f"apiVersion: {KUEUE}\nkind: Cohort\nmetadata: {{name: all}}\n---\n"
# Each is a Job of some pods with four GPUs.
IN_KUEUE = [
    (2, LOCAL + cluster_queue(EIGHT), "passed"),
    (3, LOCAL + cluster_queue(EIGHT), "found"),
    # One template's pods get one flavor: the larger of both.
    (3, LOCAL + cluster_queue(EIGHT, "nominalQuota: 12"), "passed"),
    (4, LOCAL + cluster_queue(EIGHT, "nominalQuota: 12"), "found"),
    # Without a cohort there is nobody to borrow from.
    (3, LOCAL + cluster_queue(f"{EIGHT}, borrowingLimit: 8"), "found"),
    (4, LOCAL + cluster_queue(f"{EIGHT}, borrowingLimit: 8", cohort="all"), "passed"),
    (4, LOCAL + cluster_queue(f"{EIGHT}, borrowingLimit: 7", cohort="all"), "found"),
    # What a cohort has besides its members' quotas, a Cohort says.
    (4, LOCAL + cluster_queue(EIGHT, cohort="all"), "unjudged"),
    (4, LOCAL + cluster_queue(EIGHT, cohort="all") + COHORT, "unjudged"),
    (1, LOCAL, "unjudged"),
    (1, cluster_queue(EIGHT), "unjudged"),
    (1, "", "unjudged"),
    # A resource that the queue does not cover has no bound here.
    (4, LOCAL + cluster_queue().replace("nvidia.com/gpu", "cpu"), "passed"),
]


@pytest.mark.parametrize(("count", "queues", "expected"), IN_KUEUE)
def test_a_job_in_a_queue_of_kueue(count: int, queues: str, expected: str) -> None:
    assert judgement(work("Job", count, 4, **QUEUED), ROOM + queues) == expected


@pytest.mark.parametrize(("count", "expected"), [(4, False), (5, True)])
def test_without_a_borrowing_limit_all_of_a_cohort_counts(count: int, expected: bool) -> None:
    """Two members of 8 GPUs each are four pods of four."""
    queues = LOCAL + cluster_queue(EIGHT, cohort="all") + cluster_queue(EIGHT, name="d", cohort="all")
    # Neither the quota of another cohort helps, nor one of another flavor.
    other = cluster_queue(EIGHT, name="e", cohort="other")
    other += cluster_queue("nominalQuota: 0", EIGHT, name="f", cohort="all")
    nodes = "".join(node(A100, name=f"n{number}") for number in range(4))
    objects = read(SourceText("cluster", nodes + queues + other)).manifests
    text = SourceText("0.yaml", work("Job", count, 4, **QUEUED))
    report = lint([read(text)], all_rules(), cluster=Cluster(objects, frozenset({"Cohort"})))
    assert any(one.rule.id == "GPU024" for one in report.findings) == expected
    assert not any(one.rule.id == "GPU024" for one in report.unjudged)


def test_a_queue_says_what_it_never_has() -> None:
    cluster = ROOM + LOCAL + cluster_queue(EIGHT)
    (says,) = findings_of("GPU024", work("Job", 3, 4, **QUEUED), cluster=cluster)
    assert says == "needs 12 nvidia.com/gpu at once, and ClusterQueue c never has over 8"


def fleet_queue(name: str, quota: str, parent: str = "") -> str:
    above = f"parent: {parent}, " if parent else ""
    return (
        f"apiVersion: gpufleet.io/v1alpha1\nkind: FleetQueue\nmetadata: {{name: {name}}}\n"
        f"spec: {{{above}quotas: [{quota}]}}\n---\n"
    )


GPU_8 = "{resource: gpu, nominal: 8%s}"
IN_FLEET = [
    (2, fleet_queue("q", GPU_8 % ""), "passed"),
    (3, fleet_queue("q", GPU_8 % ""), "found"),
    # A root lends to nobody and borrows from nobody.
    (3, fleet_queue("q", GPU_8 % ", borrowingLimit: 8"), "found"),
    (4, fleet_queue("q", GPU_8 % ", borrowingLimit: 8", "r") + fleet_queue("r", GPU_8 % ""), "passed"),
    (4, fleet_queue("q", GPU_8 % ", borrowingLimit: 7", "r") + fleet_queue("r", GPU_8 % ""), "found"),
    # All that the tree owns: 8 and 8.
    (4, fleet_queue("q", GPU_8 % "", "r") + fleet_queue("r", GPU_8 % ""), "passed"),
    (4, fleet_queue("q", GPU_8 % "", "r") + fleet_queue("r", GPU_8 % ", hardLimit: 15"), "found"),
    (3, fleet_queue("q", GPU_8 % "", "r") + fleet_queue("r", "{resource: gpu, nominal: 3}"), "found"),
    # What those below a root own is all that there is to share, also where the root says nothing of it.
    (3, fleet_queue("q", GPU_8 % "", "r") + fleet_queue("r", "{resource: cpu, nominal: 1}"), "found"),
    (4, fleet_queue("q", "{resource: cost, nominal: 1}"), "passed"),
    (3, fleet_queue("q", "{resource: nvidia.com/mig-1g.5gb, nominal: 1}"), "passed"),
    (1, "", "unjudged"),
]


@pytest.mark.parametrize(("count", "queues", "expected"), IN_FLEET)
def test_a_gang_in_a_queue_of_ours(count: int, queues: str, expected: str) -> None:
    pods = work("Job", count, 4, annotations="gpufleet.io/gang: g", labels="gpufleet.io/queue: q")
    assert judgement(pods, ROOM + queues) == expected


def test_of_queues_that_are_not_all_known_only_own_limits_count() -> None:
    """Among the manifests there may be a part of them; a hard limit holds whatever the others are."""
    pods = work("Job", 3, 4, annotations="gpufleet.io/gang: g", labels="gpufleet.io/queue: q")
    assert judgement(fleet_queue("q", GPU_8 % "") + pods) == "unjudged"
    assert judgement(fleet_queue("q", GPU_8 % ", hardLimit: 8") + pods) == "found"
    assert judgement(fleet_queue("q", GPU_8 % ", borrowingLimit: 3") + pods) == "found"


AMOUNTS = st.one_of(st.none(), st.integers(0, 9))


@st.composite
def forests(draw: st.DrawFn) -> list[Queue]:
    """Up to six queues, each below one before it or a root, with any limits that the definition allows."""
    found: list[Queue] = []
    for number in range(draw(st.integers(1, 6))):
        parent = draw(st.one_of(st.none(), st.sampled_from(found))) if found else None
        nominal, lend = draw(st.integers(0, 9)), draw(AMOUNTS)
        limits = {
            "borrow": draw(AMOUNTS),
            "lend": None if lend is None else min(lend, nominal),
            "hard": draw(AMOUNTS),
        }
        states = draw(st.booleans())
        scaled = {name: None if one is None else one * 1000 for name, one in limits.items()}
        quotas = (quota("gpu", nominal * 1000, **scaled),) if states else ()
        found.append(queue(f"q{number}", *quotas, parent=None if parent is None else str(parent.name)))
    return found


def written(one: Queue) -> str:
    """The queue as its FleetQueue says it."""
    words = [("nominal", "nominal"), ("borrowing_limit", "borrowingLimit")]
    words += [("lending_limit", "lendingLimit"), ("hard_limit", "hardLimit")]
    quotas = [
        ", ".join(
            f"{name}: {getattr(each, field) // 1000}"
            for field, name in words
            if getattr(each, field) is not None
        )
        for each in one.quotas
    ]
    listed = ", ".join(f"{{resource: gpu, {each}}}" for each in quotas)
    return fleet_queue(str(one.name), listed, str(one.parent or ""))


@given(forests())
def test_what_a_queue_may_have_is_what_the_engine_says(forest: list[Queue]) -> None:
    told = Story()
    told.nodes(node_of_engine("n", 16_000))
    # Some queue elsewhere names the resource, so that the engine counts it.
    told.happen(*(event.QueueSet(one) for one in [*forest, queue("z", quota("gpu", 1000))]))
    objects = read(SourceText("cluster", "".join(map(written, forest)))).manifests
    tree = FleetTree({one.name: one for one in objects}, "nvidia.com/gpu")
    for one in objects:
        expected = available(told.engine.state, one.name, "gpu")
        assert (tree.available(one) * 1000 if tree.limits(one) else None) == expected


def test_queues_in_a_circle_or_in_a_very_long_line_bound_nothing() -> None:
    pods = work("Job", 3, 4, annotations="gpufleet.io/gang: g", labels="gpufleet.io/queue: q")
    circle = fleet_queue("q", GPU_8 % "", "r") + fleet_queue("r", GPU_8 % "", "q")
    line = "".join(fleet_queue(f"l{one}", GPU_8 % "", f"l{one + 1}") for one in range(1500))
    assert judgement(pods, ROOM + circle) == "passed"
    assert judgement(pods, ROOM + line + fleet_queue("q", GPU_8 % "", "l0")) == "passed"


def test_a_local_name_stands_for_its_fleet_queue() -> None:
    queue = fleet_queue("long", GPU_8 % "").replace(
        "quotas:", "localQueues: [{namespace: n, name: q}], quotas:"
    )
    assert judgement(work("Job", 3, 4, **QUEUED), ROOM + queue) == "found"
    away = {**QUEUED, "namespace": "away"}
    assert judgement(work("Job", 3, 4, **away), ROOM + queue) == "unjudged"


def test_the_queue_of_a_pod_group_is_its_own() -> None:
    pods = work("Job", 3, 4, **NAMED[VOLCANO])
    gang = group(VOLCANO, "minMember: 3, queue: q")
    assert judgement(gang + pods, ROOM + fleet_queue("q", GPU_8 % "")) == "found"
    assert judgement(gang + pods, ROOM + fleet_queue("q", "{resource: gpu, nominal: 12}")) == "passed"


def test_of_several_roles_the_least_that_the_gang_can_ask_for_counts() -> None:
    """Of a launcher with one GPU and two workers with four, any two need 5, and all three 9."""
    container = "{name: c, resources: {limits: {nvidia.com/gpu: %d}}}"
    replicas = f"{{replicas: %d, template: {{spec: {{containers: [{container}]}}}}}}"
    job = (
        "apiVersion: kubeflow.org/v1\nkind: MPIJob\nmetadata: {name: j, labels: {gpufleet.io/queue: q}}\n"
        f"spec: {{runPolicy: {{schedulingPolicy: {{minAvailable: %d}}}}, mpiReplicaSpecs: "
        f"{{Launcher: {replicas % (1, 1)}, Worker: {replicas % (2, 4)}}}}}\n"
    )
    for least, most, expected in ((2, 5, "passed"), (2, 4, "found"), (3, 9, "passed"), (3, 8, "found")):
        queue = fleet_queue("q", f"{{resource: gpu, nominal: {most}}}")
        assert judgement(job % least, ROOM + queue) == expected
