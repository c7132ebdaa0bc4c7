"""What a variant of a guide's manifest is, and objects as short as guides have them.

`variants` has the table of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from gpufleet.localkube.access.api import Object
from tests.guides.entries import Outcome, Refused

GPU = "nvidia.com/gpu"
ONE: Mapping[str, object] = {GPU: 1}
CUDA = "nvidia/cuda:12.3.2-runtime-ubuntu22.04"


@dataclass(frozen=True)
class Variant:
    """An object, the rules of lint that find something in it, and what comes of it."""

    object: Object
    lint: tuple[str, ...]
    outcome: Outcome

    @property
    def name(self) -> str:
        """The object's own name."""
        return str(self.object["metadata"]["name"])


def pod(name: str, limits: Mapping[str, object] = ONE, **spec: object) -> Object:
    """A pod as short as guides have them."""
    requests = spec.pop("requests", None)
    resources: Object = {"limits": dict(limits)} if limits else {}
    resources |= {"requests": requests} if requests is not None else {}
    container = {"name": "main", "image": CUDA, "command": ["sleep", "infinity"], "resources": resources}
    spec = {"terminationGracePeriodSeconds": 0, "containers": [container], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def template(**spec: object) -> Object:
    """The pod template of a controller."""
    container = {"name": "main", "image": CUDA, "resources": {"limits": dict(ONE)}}
    return {"metadata": {"labels": {"app": "variant"}}, "spec": {"containers": [container], **spec}}


def other(kind: str, api_version: str, name: str, **fields: object) -> Object:
    """An object of another kind."""
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **fields}


def affinity(key: str, operator: str, *values: str) -> Object:
    """A required node affinity with one expression."""
    expression = {"key": key, "operator": operator, "values": list(values)}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def toleration(key: str, value: str, effect: str) -> list[Object]:
    """One toleration with Equal."""
    return [{"key": key, "operator": "Equal", "value": value, "effect": effect}]


def scaler(name: str, metric: Object) -> Object:
    """An autoscaler of a Deployment that is not there."""
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "queue-worker"}
    spec = {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 10, "metrics": [metric]}
    return other("HorizontalPodAutoscaler", "autoscaling/v2", name, spec=spec)


def kind_of_another_system(kind: str, api_version: str) -> Variant:
    """An object of a system that is not installed: kubectl says so."""
    words = f'no matches for kind "{kind}" in version "{api_version}"'
    return Variant(other(kind, api_version, f"{kind.lower()}-of-a-guide"), (), Refused(words))
