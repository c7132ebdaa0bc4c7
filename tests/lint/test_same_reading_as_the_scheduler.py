"""Lint and the scheduler read the same pod alike: GPUs, shares, requests, queue and gang.

A random pod is read twice: from the wire, as the scheduler reads it, and from a text, as lint does.
"""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.kube import keys, resources
from gpufleet.kube.codec.containers import pod_amounts, written_amounts
from gpufleet.kube.codec.gang_terms import Membership
from gpufleet.kube.codec.gangs import FOLLOWED, read_membership
from gpufleet.kube.codec.pod import read_pod
from gpufleet.kube.meanings.queue_names import named_queue
from gpufleet.kube.meanings.shares import read_share
from gpufleet.kube.objects.pod import Pod
from gpufleet.lint.objects.context import Context
from gpufleet.lint.objects.gangs import gangs_of
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.objects.pods import PodTemplate
from gpufleet.lint.run import read
from gpufleet.lint.source.text import SourceText
from gpufleet.model.requests import total_requests
from gpufleet.model.resource_names import GPU_RESOURCES
from tests.kube.shelf import Shelf

Written = dict[str, Any]

WHOLE = ("nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe")
SLOT = "gpufleet.io/gpu-share"
QUEUES = (
    "gpufleet.io/queue",
    "kueue.x-k8s.io/queue-name",
    "kai.scheduler/queue",
    "scheduling.volcano.sh/queue-name",
    "volcano.sh/queue-name",
)
CPU = st.sampled_from(["0", "100m", "1", "2.5", "1e1"])
MEMORY = st.sampled_from(["0", "1Mi", "1Gi", "1500M", "1e9"])
OF_THE_POD: list[Written] = [{}, {"requests": {"cpu": "64"}}, {"limits": {"memory": "1Ti", "cpu": "96"}}]
NAMES = st.sampled_from(["a", "b", "team-a"])


@st.composite
def amounts(draw: st.DrawFn, devices: dict[str, str]) -> Written:
    """Requests and limits of a container; a limit alone is a request, and either may be missing."""
    found: Written = {"requests": {}, "limits": dict(devices)}
    for name, texts in (("cpu", CPU), ("memory", MEMORY)):
        text = draw(texts)
        for part in draw(st.sampled_from([(), ("requests",), ("limits",), ("requests", "limits")])):
            found[part][name] = text
    if draw(st.booleans()):
        found["requests"] |= devices
    return found


@st.composite
def devices_of(draw: st.DrawFn, kind: str) -> dict[str, str]:
    """What one container asks for of the pod's kind of GPU."""
    if not kind or draw(st.booleans()):
        return {}
    return {kind: draw(st.sampled_from(["0", "1", "2", "4"]))}


@st.composite
def pods(draw: st.DrawFn) -> Written:
    """A pod that a server would take: whole GPUs of one kind, MIG instances, a share, or none."""
    kind = draw(st.sampled_from([*WHOLE, "nvidia.com/mig-1g.10gb", SLOT, ""]))
    containers = [
        {"name": f"run-{number}", "resources": draw(amounts(draw(devices_of(kind))))}
        for number in range(draw(st.integers(1, 3)))
    ]
    starting = [
        {"name": f"start-{number}", "resources": draw(amounts(draw(devices_of(kind))))}
        | ({"restartPolicy": "Always"} if draw(st.booleans()) else {})
        for number in range(draw(st.integers(0, 3)))
    ]
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    if kind == SLOT:
        containers[0]["resources"] = draw(amounts(draw(shares(labels, annotations))))
    for key in draw(st.lists(st.sampled_from(QUEUES), max_size=3, unique=True)):
        draw(st.sampled_from([labels, annotations]))[key] = draw(NAMES)
    spec: Written = {"containers": containers, "initContainers": starting}
    if draw(st.booleans()):
        spec["overhead"] = {"cpu": "250m", "memory": "120Mi"}
    whole = draw(st.sampled_from(OF_THE_POD))
    if whole:
        spec["resources"] = whole
    metadata: Written = {"name": "a", "namespace": "team-a", "uid": "u"}
    metadata |= {"labels": labels, "annotations": annotations, "creationTimestamp": "2026-01-31T12:00:00Z"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


@st.composite
def shares(draw: st.DrawFn, labels: dict[str, str], annotations: dict[str, str]) -> dict[str, str]:
    """A share in the words of one project; returns what the first container asks for."""
    project = draw(st.sampled_from(["ours", "ours-as-label", "kai", "hami", "volcano"]))
    if project == "ours":
        annotations[keys.GPU_FRACTION] = "0.5"
    elif project == "ours-as-label":
        labels[keys.GPU_MEMORY] = "4096"
    elif project == "kai":
        annotations["gpu-fraction"] = "0.25"
    elif project == "hami":
        return {SLOT: "1", "nvidia.com/gpumem": "3000", "nvidia.com/gpucores": "30"}
    elif project == "volcano":
        # As many slots in all as Volcano's number: the other containers' do not count to it.
        return {SLOT: "1", "volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "2000"}
    return {SLOT: "1"}


def of_scheduler(written: Written) -> Pod:
    return msgspec.json.decode(json.dumps(written).encode(), type=Pod)


def of_lint(*written: Written) -> list[Manifest]:
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": written})
    found = read(SourceText("a text", text))
    assert not found.problems
    return list(found.manifests)


def template_of(written: Written) -> PodTemplate:
    (manifest,) = of_lint(written)
    (template,) = manifest.templates
    return template


@given(pods())
def test_both_count_the_same_gpus(written: Written) -> None:
    shape, template = read_pod(of_scheduler(written)).shape, template_of(written)
    whole = {name: count for name, count in template.asked_devices.items() if name in GPU_RESOURCES}
    # Of a share the name only says whose GPUs will do.
    is_whole = bool(shape.gpu_resource) and shape.gpu.whole
    assert whole == ({shape.gpu_resource: shape.gpu.count} if is_whole else {})
    others = dict(shape.resources.other)
    assert template.asked_devices.get(SLOT, 0) == others.get(SLOT, 0)
    if shape.gpu.count:
        assert template.asks_for_gpu


@given(pods())
def test_both_read_the_same_share(written: Written) -> None:
    pod, template = of_scheduler(written), template_of(written)
    metadata = pod.metadata
    by_scheduler = read_share(metadata.labels, metadata.annotations, written_amounts(pod.spec))
    assert read_share(template.labels, template.annotations, template.amounts) == by_scheduler
    if by_scheduler is not None:
        assert template.asks_for_gpu


@given(pods())
def test_both_add_up_the_same_requests(written: Written) -> None:
    by_scheduler = total_requests(pod_amounts(of_scheduler(written).spec))
    by_lint = template_of(written).requests
    counted = {name: amount for name, amount in by_lint.items() if name not in keys.SHARE_RESOURCES}
    assert counted == by_scheduler


@given(pods())
def test_both_find_the_same_queue(written: Written) -> None:
    template = template_of(written)
    named = named_queue(template.labels, template.annotations)
    assert read_pod(of_scheduler(written)).queue == ("default" if named is None else named[1])


PARTS = st.sampled_from(["labels", "annotations"])
GROUPS = {
    "scheduling.k8s.io/v1beta1": (resources.POD_GROUPS_V1BETA1, ""),
    "scheduling.x-k8s.io/v1alpha1": (resources.PLUGINS_POD_GROUPS, "scheduling.x-k8s.io/pod-group"),
    "scheduling.volcano.sh/v1beta1": (resources.VOLCANO_POD_GROUPS, "scheduling.k8s.io/group-name"),
    "scheduling.run.ai/v2alpha2": (resources.KAI_POD_GROUPS, "pod-group-name"),
}


@pytest.mark.parametrize("version", GROUPS)
@given(
    pod=pods(), part=st.sampled_from(["labels", "annotations"]), named=st.booleans(), least=st.integers(1, 9)
)
def test_both_find_the_same_members_of_a_pod_group(
    version: str, pod: Written, part: str, named: bool, least: int
) -> None:
    kind, key = GROUPS[version]
    name = "train" if named else "another"
    if key:
        pod["metadata"][part] |= {key: name}
    else:
        pod["spec"]["schedulingGroup"] = {"podGroupName": name}
    spec = {"minMember": least} if key else {"schedulingPolicy": {"gang": {"minCount": least}}}
    metadata = {"name": "train", "namespace": "team-a"}
    shelf = Shelf()
    shelf.put(kind, dict(FOLLOWED)[kind], "train", "team-a", spec=spec)
    by_scheduler = read_membership(of_scheduler(pod), shelf)

    group, own = of_lint({"apiVersion": version, "kind": "PodGroup", "metadata": metadata, "spec": spec}, pod)
    (gang,) = gangs_of(group, Context((group, own)))
    if isinstance(by_scheduler, Membership):
        assert (gang.least, gang.count) == (by_scheduler.terms.min_members, 1)
    else:
        # The pod names another group, or this one in a part of its metadata where it does not count.
        assert not gang.members


@given(
    pod=pods(),
    words=st.sampled_from(
        [
            ("gpufleet.io/gang", "gpufleet.io/gang-min-members"),
            ("kueue.x-k8s.io/pod-group-name", "kueue.x-k8s.io/pod-group-total-count"),
        ]
    ),
    parts=st.tuples(*[st.sampled_from([("labels",), ("annotations",), ("labels", "annotations")])] * 2),
    leasts=st.permutations([2, 3, 4]),
)
def test_both_read_the_same_gang_of_pods_that_name_each_other(
    pod: Written, words: tuple[str, str], parts: tuple[tuple[str, ...], ...], leasts: list[int]
) -> None:
    for part, name in zip(parts[0], ("train", "other"), strict=False):
        pod["metadata"][part][words[0]] = name
    for part, least in zip(parts[1], leasts, strict=False):
        pod["metadata"][part][words[1]] = str(least)
    by_scheduler = read_membership(of_scheduler(pod), Shelf())
    assert isinstance(by_scheduler, Membership)
    (manifest,) = of_lint(pod)
    (gang,) = gangs_of(manifest, Context((manifest,)))
    assert (gang.least, gang.count) == (by_scheduler.terms.min_members, 1)


@given(
    key=st.sampled_from(["scheduling.volcano.sh/group-min-member", "kai.scheduler/batch-min-member"]),
    part=PARTS,
    pod=pods(),
    least=st.integers(1, 9),
)
def test_both_read_the_same_minimum_of_the_pods_of_a_job(
    key: str, part: str, pod: Written, least: int
) -> None:
    pod["metadata"][part][key] = str(least)
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "j", "controller": True}
    made = pod | {"metadata": pod["metadata"] | {"ownerReferences": [owner]}}
    by_scheduler = read_membership(of_scheduler(made), Shelf())
    assert isinstance(by_scheduler, Membership)
    template = {part: pod["metadata"][part] for part in ("labels", "annotations")}
    job = {"parallelism": 9, "template": {"metadata": template, "spec": pod["spec"]}}
    (manifest,) = of_lint(
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train"}, "spec": job}
    )
    (gang,) = gangs_of(manifest, Context((manifest,)))
    assert gang.least == by_scheduler.terms.min_members
