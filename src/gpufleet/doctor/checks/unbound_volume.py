"""GPU pods that wait for a volume that cannot come: no such claim, no such class, or provisioning fails."""

from collections.abc import Iterator

from gpufleet.doctor.check import Check, Failure, Good, Layer, Point, Remedy, listed
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.objects.pods import PodView
from gpufleet.doctor.objects.status import age_s
from gpufleet.doctor.views.warnings import warnings_of
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.model.label_advice import nearest

NO_CLAIM = "there is no such claim"
SLOW_S = 300.0
"""How long a provisioner may take."""

_DEFAULT = "storageclass.kubernetes.io/is-default-class"


def judge(facts: Facts) -> Iterator[Failure | Good]:
    """The pods by claim."""
    waiting: dict[tuple[str, str], list[PodView]] = {}
    for pod in facts.waiting:
        for name in _claims(pod):
            waiting.setdefault((pod.namespace, name), []).append(pod)
    failed = False
    for (namespace, name), pods in waiting.items():
        claim = facts.find("PersistentVolumeClaim", namespace, name)
        why = NO_CLAIM if claim is None else _why(facts, claim)
        if why:
            failed = True
            yield _failure(facts, namespace, name, pods, why)
    if waiting and not failed:
        yield Good("the volumes of GPU pods that wait are there, or can come")


def _claims(pod: PodView) -> Iterator[str]:
    """The claims of its volumes; those that are made with the pod are named after it."""
    for volume in pod.template.volumes:
        if name := volume.field.text_at("persistentVolumeClaim", "claimName"):
            yield name
        elif volume.field.at("ephemeral").exists:
            yield f"{pod.manifest.name}-{volume.name}"


def _why(facts: Facts, claim: Manifest) -> str:
    """Why a claim gets no volume; empty if it has one, or may still get one."""
    phase = claim.root.text_at("status", "phase") or ""
    if phase == "Lost":
        return "its volume was deleted (phase Lost)"
    if phase != "Pending" or claim.root.text_at("spec", "volumeName"):
        return ""
    name = claim.root.text_at("spec", "storageClassName")
    found = next((one for one in facts.of_kind("StorageClass") if one.name == name), None)
    if found is None:
        return "" if _has_free_volume(facts, name or "") else _without_class(facts, name)
    about = [one for one in warnings_of(facts) if one.is_about(claim)]
    told = [one for one in about if one.reason == "ProvisioningFailed"]
    if told:
        return f"provisioning fails: {told[-1].message}"
    waits = found.root.text_at("volumeBindingMode") == "WaitForFirstConsumer"
    old = (age_s(claim.root.at("metadata", "creationTimestamp"), facts.now) or 0.0) > SLOW_S
    return f"the provisioner of StorageClass {name} has made none for minutes" if old and not waits else ""


def _without_class(facts: Facts, name: str | None) -> str:
    if name:
        return f"there is no StorageClass {name}"
    if any(one.annotation(_DEFAULT) == "true" for one in facts.of_kind("StorageClass")) and name is None:
        return "it names no StorageClass, and was made before there was a default"
    return "it names no StorageClass, and the cluster has no default and no free volume"


def _has_free_volume(facts: Facts, class_name: str) -> bool:
    return any(
        (one.root.text_at("spec", "storageClassName") or "") == class_name
        and one.root.text_at("status", "phase") == "Available"
        for one in facts.of_kind("PersistentVolume")
    )


def _failure(facts: Facts, namespace: str, name: str, pods: list[PodView], why: str) -> Failure:
    titles = tuple(one.title for one in pods)
    classes = ", ".join(sorted(one.name for one in facts.of_kind("StorageClass"))) or "none"
    return Failure(
        f"{listed(titles)}: the volume claim {namespace}/{name} cannot be met: {why}",
        titles,
        (f"PersistentVolumeClaim {namespace}/{name}: {why}", f"StorageClasses: {classes}"),
        (_mend(facts, namespace, name, why),),
        frozenset(titles) | facts.works_above(titles),
    )


def _mend(facts: Facts, namespace: str, name: str, why: str) -> Remedy:
    if why != NO_CLAIM:
        does = "make the claim anew with a StorageClass that there is: that of a claim cannot be changed"
        return Remedy(does, f"kubectl describe pvc -n {namespace} {name}")
    there = [one.name for one in facts.of_kind("PersistentVolumeClaim") if one.namespace == namespace]
    near = nearest(name, sorted(there))
    hint = f" (did you mean {near}?)" if near else ""
    return Remedy(
        f"make a claim of this name, or name one that there is{hint}", f"kubectl get pvc -n {namespace}"
    )


CHECK = Check(
    "volume-unbound",
    Point.PLACING,
    Layer.PLACEMENT,
    "Volumes of GPU pods can be had",
    "A pod is not placed before its volumes are known; it holds its turn, and not a GPU is used.",
    judge,
    ("Pod", "PersistentVolumeClaim", "StorageClass", "PersistentVolume"),
)
