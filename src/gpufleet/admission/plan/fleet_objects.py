"""Objects with pods by what makes them: a plan judges what people wrote, and counts the pods that came of it.

A pod of a Deployment belongs to a ReplicaSet, which belongs to the Deployment: the Deployment is judged. Pods
whose controller is not known are judged by themselves. What has ended makes no more pods and is left out.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from gpufleet.lint.objects.template_paths import PLACES, RUNTIMES

Body = dict[str, Any]
POD = ("", "Pod")
DEFAULT_NAMESPACE = "default"
"""Where kubectl puts an object of a file that names none."""

_ENDED_PHASES = frozenset({"Succeeded", "Failed"})
_ENDED_CONDITIONS = frozenset({"Complete", "Completed", "Failed", "Succeeded"})

KINDS = frozenset(
    kind
    for kind in PLACES
    if kind[1] not in RUNTIMES and kind not in {("", "PodTemplate"), ("extensions", "Deployment")}
)
"""Kinds that make pods: group and name."""


class Key(NamedTuple):
    """What names an object."""

    group: str
    kind: str
    namespace: str
    name: str


@dataclass(frozen=True)
class Namespace:
    """What a namespace says."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass
class FleetObjects:
    """Namespaces, and objects with pods."""

    namespaces: dict[str, Namespace] = field(default_factory=dict)
    bodies: dict[Key, Body] = field(default_factory=dict)
    controllers: dict[Key, Key | None] = field(default_factory=dict)
    pods: Counter[Key] = field(default_factory=Counter)
    """Pods that have not ended, by the object that controls them."""

    knows_all_pods: bool = False
    """Whether an object that no pod names has none."""

    def add(self, body: Body) -> None:
        """Take a namespace or an object with pods; others are left out."""
        metadata = body.get("metadata") or {}
        if (body.get("apiVersion"), body.get("kind")) == ("v1", "Namespace"):
            labels, annotations = (metadata.get(part) or {} for part in ("labels", "annotations"))
            self.namespaces[metadata.get("name", "")] = Namespace(
                metadata.get("name", ""), labels, annotations
            )
            return
        key = key_of(body)
        if (key.group, key.kind) not in KINDS:
            return
        controller = _controller(metadata, key.namespace)
        self.controllers[key] = controller
        if _has_ended(body):
            return
        if (key.group, key.kind) == POD and controller is not None:
            self.pods[controller] += 1
        # The bodies of many pods of one known object would be read for nothing.
        if controller is None or controller not in self.controllers:
            self.bodies[key] = body

    def workloads(self) -> Iterator[tuple[Key, Body]]:
        """What is judged, by namespace, kind and name."""
        chosen = [key for key in self.bodies if self.controllers[key] not in self.controllers]
        for key in sorted(chosen, key=lambda one: (one.namespace, one.kind, one.name, one.group)):
            yield key, self.bodies[key]

    def pods_of(self) -> dict[Key, int]:
        """How many pods each object has, with those of what it controls; without those that are not known."""
        found: Counter[Key] = Counter()
        for key, count in self.pods.items():
            found[self._first(key)] += count
        if self.knows_all_pods:
            return {key: found[key] for key in self.controllers if (key.group, key.kind) != POD}
        return dict(found)

    def _first(self, key: Key) -> Key:
        seen = {key}
        while (above := self.controllers.get(key)) is not None and above in self.controllers:
            if above in seen:
                break
            seen.add(above)
            key = above
        return key


def key_of(body: Mapping[str, Any]) -> Key:
    """Group, kind, namespace and name."""
    group, slash, _ = str(body.get("apiVersion") or "").rpartition("/")
    metadata = body.get("metadata") or {}
    name = metadata.get("name") or metadata.get("generateName") or ""
    namespace = metadata.get("namespace") or DEFAULT_NAMESPACE
    return Key(group if slash else "", str(body.get("kind") or ""), namespace, name)


def _controller(metadata: Mapping[str, Any], namespace: str) -> Key | None:
    for one in metadata.get("ownerReferences") or ():
        if one.get("controller"):
            owner = {**one, "metadata": {"name": one.get("name"), "namespace": namespace}}
            return key_of(owner)
    return None


def _has_ended(body: Mapping[str, Any]) -> bool:
    status = body.get("status") or {}
    if status.get("phase") in _ENDED_PHASES:
        return True
    conditions = status.get("conditions") or ()
    return any(one.get("type") in _ENDED_CONDITIONS and one.get("status") == "True" for one in conditions)
