"""Autoscalers of GPU work: what they scale, and which metrics they ask for."""

import re
from dataclasses import dataclass
from functools import cached_property

from gpufleet.doctor.facts import Facts
from gpufleet.doctor.objects.status import ReadCondition, conditions
from gpufleet.doctor.objects.workloads import Workload
from gpufleet.lint.objects.manifest import Manifest

CUSTOM, EXTERNAL = "custom.metrics.k8s.io", "external.metrics.k8s.io"
_GROUPS = {"pods": CUSTOM, "object": CUSTOM, "external": EXTERNAL}
_ABOUT_GPUS = re.compile(r"dcgm|gpu|nvidia|vllm|triton|nv_inference", re.IGNORECASE)
# Kinds that are read whole: of others it is not known whether they exist.
_LISTED = frozenset({"Deployment", "StatefulSet", "ReplicaSet", "ReplicationController"})


@dataclass(frozen=True)
class Metric:
    """A metric that is asked for, and the API that has to serve it."""

    name: str
    group: str


@dataclass(frozen=True)
class Scaler:
    """A HorizontalPodAutoscaler or a ScaledObject. ``workload`` is what it scales, if that is GPU work."""

    manifest: Manifest
    target_kind: str
    target_name: str
    workload: Workload | None
    target_exists: bool | None
    """None where it is of a kind that is not listed."""

    @property
    def title(self) -> str:
        """How people name it."""
        return self.manifest.title

    @cached_property
    def metrics(self) -> tuple[Metric, ...]:
        """The metrics of the autoscaler that need an API of metrics."""
        return tuple(
            Metric(one.text_at(kind, "metric", "name") or "", group)
            for one in self.manifest.root.at("spec", "metrics").items()
            for kind, group in _GROUPS.items()
            if one.at(kind).exists
        )

    @cached_property
    def conditions(self) -> dict[str, ReadCondition]:
        """The conditions that the autoscaler's controller wrote, by type."""
        return conditions(self.manifest.root.at("status"))

    @property
    def affects(self) -> frozenset[str]:
        """The title of the object that suffers: the autoscaler alone; what it scales goes on as it is."""
        return frozenset({self.title})


def gpu_scalers(facts: Facts) -> tuple[Scaler, ...]:
    """Autoscalers of GPU work; those without a target count where they ask for metrics of GPUs.

    The HorizontalPodAutoscalers that KEDA makes are left out: their ScaledObjects are here.
    """
    found = (_scaler(facts, one) for one in facts.of_kind("HorizontalPodAutoscaler", "ScaledObject"))
    return tuple(
        one
        for one in found
        if not _is_kedas(one.manifest)
        and (one.workload is not None or (one.target_exists is False and _asks_about_gpus(facts, one)))
    )


def _scaler(facts: Facts, manifest: Manifest) -> Scaler:
    reference = manifest.root.at("spec", "scaleTargetRef")
    # A ScaledObject scales a Deployment unless it says otherwise.
    kind, name = reference.text_at("kind") or "Deployment", reference.text_at("name") or ""
    target = facts.find(kind, manifest.namespace, name)
    workload = None if target is None else facts.gpu_workload_above(target)
    known = kind in _LISTED and kind in facts.listed
    return Scaler(manifest, kind, name, workload, target is not None if known else None)


def _is_kedas(manifest: Manifest) -> bool:
    owners = manifest.root.at("metadata", "ownerReferences").items()
    return any(one.text_at("kind") == "ScaledObject" for one in owners)


def _asks_about_gpus(facts: Facts, scaler: Scaler) -> bool:
    triggers = scaler.manifest.root.at("spec", "triggers").items()
    words = [one.name for one in scaler.metrics]
    words += [one.text_at("metadata", "query") or "" for one in triggers]
    beside = {one.manifest.namespace for one in facts.gpu_workloads}
    return any(map(_ABOUT_GPUS.search, words)) or scaler.manifest.namespace in beside


def unavailable_apis(facts: Facts) -> dict[str, tuple[Manifest, ReadCondition]]:
    """APIs of metrics that are registered and do not answer, by their group."""
    found = {}
    for one in facts.of_kind("APIService"):
        group = one.root.text_at("spec", "group") or ""
        available = conditions(one.root.at("status")).get("Available")
        if group in {CUSTOM, EXTERNAL} and available is not None and available.status == "False":
            found[group] = (one, available)
    return found
