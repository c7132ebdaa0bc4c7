"""Pods that wait for a PodGroup that is not there."""

from collections.abc import Iterator

from gpufleet.doctor.check import Check, Failure, Layer, Point, Remedy, listed
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.objects.pods import PodView
from gpufleet.kube import keys
from gpufleet.model.label_advice import nearest

_GROUP = """\
apiVersion: {version}
kind: PodGroup
metadata:
  name: {name}
  namespace: {namespace}
spec:
  {minimum}
"""


def judge(facts: Facts) -> Iterator[Failure]:
    """Each group that is missing. Volcano and KAI make theirs by themselves, so these are not judged."""
    missing: dict[tuple[str, str, str], list[PodView]] = {}
    for pod in facts.waiting:
        for group, name in _named(pod):
            there = {
                one.name for one in facts.of_kind("PodGroup", group=group) if one.namespace == pod.namespace
            }
            if group in facts.served_groups and name not in there:
                missing.setdefault((group, pod.namespace, name), []).append(pod)
    for (group, namespace, name), pods in missing.items():
        yield _failure(facts, group, namespace, name, pods)


def _named(pod: PodView) -> Iterator[tuple[str, str]]:
    if name := pod.root.text_at("spec", "schedulingGroup", "podGroupName"):
        yield "scheduling.k8s.io", name
    if name := pod.labels.get(keys.PLUGINS_POD_GROUP):
        yield "scheduling.x-k8s.io", name


def _failure(facts: Facts, group: str, namespace: str, name: str, pods: list[PodView]) -> Failure:
    names = sorted(one.name for one in facts.of_kind("PodGroup", group=group) if one.namespace == namespace)
    near = nearest(name, names)
    hint = f" (did you mean {near}?)" if near else ""
    native = group == "scheduling.k8s.io"
    manifest = _GROUP.format(
        version=f"{group}/{'v1beta1' if native else 'v1alpha1'}",
        name=name,
        namespace=namespace,
        minimum=f"schedulingPolicy: {{gang: {{minCount: {len(pods)}}}}}"
        if native
        else f"minMember: {len(pods)}",
    )
    titles = tuple(one.title for one in pods)
    there = f"there are {listed(names, 6)}" if names else "the namespace has none"
    return Failure(
        f"{listed(titles)}: there is no PodGroup {namespace}/{name} of {group}",
        titles,
        (f"the pods name the group {name}", there),
        (Remedy(f"make it, or name one that is there{hint}", "", manifest),),
        frozenset(titles),
    )


CHECK = Check(
    "pod-group-missing",
    Point.GANGS,
    Layer.QUEUE,
    "PodGroups that pods name are there",
    "A pod that names a group is not placed before the group says how many must start together.",
    judge,
    ("Pod", "PodGroup"),
)
