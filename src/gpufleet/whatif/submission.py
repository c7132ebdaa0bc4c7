"""Work out of files, put into a picture of a cluster as the API server and the controllers would make it.

Pods as they are; of Jobs, Deployments, ReplicaSets and StatefulSets their pods, as many as run at once; and
the objects that pods speak of: queues, groups, namespaces, priority classes, claims. What admission would
add is added as far as placement depends on it: amounts, priority, the scheduler's name, and what our own
policy writes in namespaces that it completes. Claims are made of templates as a controller would make them.
ResourceQuota, LimitRange and others' webhooks are not asked.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from gpufleet.cluster.watching.mirrors import WATCHED
from gpufleet.cluster.watching.picture import Picture
from gpufleet.completion.additions import Completion
from gpufleet.completion.completing import completing_patch
from gpufleet.completion.json_patch import patched_copy
from gpufleet.kube import keys, resources
from gpufleet.kube.codec.field_path import harmless
from gpufleet.kube.objects.owners import StatefulSet
from gpufleet.kube.objects.pod import Pod
from gpufleet.kube.resources import Kind
from gpufleet.kube.yaml_documents import objects_of
from gpufleet.model.label_advice import nearest
from gpufleet.model.label_syntax import is_subdomain
from gpufleet.model.model_errors import InputError, printable
from gpufleet.model.phrases import listed
from gpufleet.whatif.request import Submitted

PODS_MAX = 100_000
"""More than the largest clusters run; a Job with a mistaken parallelism would fill memory."""

# Kinds that make pods of a template: their pods are made here as the controllers would.
TEMPLATED = (
    resources.JOBS,
    resources.DEPLOYMENTS,
    resources.REPLICA_SETS,
    resources.STATEFUL_SETS,
    resources.REPLICATION_CONTROLLERS,
)
# Kinds that pods refer to: taken into the picture as they are.
SPOKEN_OF = (
    resources.FLEET_QUEUES,
    resources.NAMESPACES,
    resources.PRIORITY_CLASSES,
    resources.POD_GROUPS_V1BETA1,
    resources.POD_GROUPS_V1ALPHA2,
    resources.PLUGINS_POD_GROUPS,
    resources.VOLCANO_POD_GROUPS,
    resources.KAI_POD_GROUPS,
    resources.PERSISTENT_VOLUME_CLAIMS,
    resources.RESOURCE_CLAIMS,
    resources.RESOURCE_CLAIM_TEMPLATES,
    resources.DEVICE_CLASSES,
)
KINDS = (resources.PODS, *TEMPLATED, *SPOKEN_OF)
IGNORED = {"Service", "ConfigMap", "ServiceAccount", "NetworkPolicy", "Ingress", "PodDisruptionBudget"}
"""Kinds that often stand beside work and decide nothing about a pod that has not started."""

_TYPES = {one.kind: one.type for one in WATCHED}
Body = dict[str, Any]


class Submission:
    """Puts the objects of files into a picture. ``uids`` are the pods that came."""

    def __init__(self, picture: Picture, namespace: str, scheduler_name: str, created_at: str) -> None:
        self.picture = picture
        self.namespace = namespace
        self.scheduler_name = scheduler_name
        self.created_at = created_at
        self.uids: list[str] = []
        self.notes: dict[str, None] = {}
        self._claim_templates: dict[tuple[str, str], Body] = {}

    def submit(self, file: Submitted) -> None:
        """Everything in a file, what others speak of first. Raises InputError, naming the object."""
        found = [(self._kind(body, file.name), body) for body in objects_of(file.content, file.name)]
        if not any(kind in (resources.PODS, *TEMPLATED) for kind, _ in found if kind is not None):
            expected = "a Pod, Job, Deployment, ReplicaSet or StatefulSet"
            raise InputError("no work in it", where=file.name, expected=expected)
        chosen = [(kind, body) for kind, body in found if kind is not None]
        for kind, body in sorted(chosen, key=lambda one: one[0] not in SPOKEN_OF):
            where = f"{file.name}, {kind.name} {_name(body, file.name)}"
            self._add(kind, body, where)

    def _kind(self, body: Body, where: str) -> Kind | None:
        api_version, name = body.get("apiVersion"), body.get("kind")
        for kind in KINDS:
            if (kind.api_version, kind.name) == (api_version, name):
                return kind
        if name in IGNORED:
            self.notes[f"{name} in {where} decides nothing here and is left out"] = None
            return None
        known = ", ".join(dict.fromkeys(kind.name for kind in KINDS))
        value = f"{api_version} {name}"
        raise InputError("not a kind that can be asked about", where=where, value=value, expected=known)

    def _add(self, kind: Kind, body: Body, where: str) -> None:
        metadata = dict(body["metadata"])
        if kind.namespaced:
            metadata["namespace"] = metadata.get("namespace") or self.namespace
        metadata.setdefault("creationTimestamp", self.created_at)
        metadata["uid"] = f"whatif-{kind.name.lower()}-{metadata.get('namespace', '')}/{metadata['name']}"
        body = {**body, "metadata": metadata}
        if kind == resources.PODS:
            self._pod(body, where)
        elif kind in TEMPLATED:
            self._pods_of(kind, body, where)
        elif kind == resources.RESOURCE_CLAIM_TEMPLATES:
            _check_template(body, where)
            self._claim_templates[metadata["namespace"], metadata["name"]] = body
        else:
            # A queue or class of that name takes the place of the one that is there.
            self._put(kind, body, where)

    def _put(self, kind: Kind, body: Body, where: str) -> Any:
        found = _converted(body, _TYPES[kind], where)
        key = (found.metadata.namespace, found.metadata.name)
        self.picture.objects.setdefault(kind, {})[key] = found
        return found

    def _pods_of(self, kind: Kind, body: Body, where: str) -> None:
        spec = body.get("spec")
        template = spec.get("template") if isinstance(spec, dict) else None
        if not isinstance(spec, dict) or not isinstance(template, dict) or "spec" not in template:
            raise InputError(
                "no template", where=where, field="spec.template", expected="a pod's metadata and spec"
            )
        if kind in _TYPES:
            self._refuse_twice(kind, body["metadata"], where)
            self._put(kind, body, where)
        if kind == resources.JOBS and spec.get("suspend"):
            self.notes[f"{where}: suspended; asked as if it were resumed"] = None
        own = body["metadata"]
        owner = _owner(kind, own)
        for index in range(_replicas(kind, spec, where)):
            written = dict(template.get("metadata") or {})
            name = f"{own['name']}-{index}"
            metadata = {
                **written,
                "name": name,
                "namespace": own["namespace"],
                "uid": f"{own['uid']}/{index}",
                "creationTimestamp": self.created_at,
                "labels": {**(written.get("labels") or {}), **_LABELS[kind](own["name"], name, index)},
                "ownerReferences": [owner],
            }
            self._pod({"metadata": metadata, "spec": template["spec"]}, where)
        if kind == resources.STATEFUL_SETS:
            self._ordered(_converted(body, StatefulSet, where), where)

    def _ordered(self, found: StatefulSet, where: str) -> None:
        if found.spec.pod_management_policy != "Parallel" and (found.spec.replicas or 1) > 1:
            self.notes[f"{where}: its pods come one after the other; asked as if they came at once"] = None

    def _pod(self, body: Body, where: str) -> None:
        self._refuse_twice(resources.PODS, body["metadata"], where)
        if len(self.uids) >= PODS_MAX:
            raise InputError("too many pods", where=where, expected=f"at most {PODS_MAX}")
        spec = body.get("spec")
        if not isinstance(spec, dict):
            raise InputError("no spec", where=where, field="spec", expected="what is asked for the pod")
        spec = dict(spec)
        for field in ("containers", "initContainers"):
            if isinstance(spec.get(field), list):
                spec[field] = [_with_amounts(one) for one in spec[field]]
        if isinstance(spec.get("resources"), dict):
            spec["resources"] = _with_amounts(spec)["resources"]
        spec = self._completed(spec, body["metadata"], where)
        # What is asked is where it would go.
        spec.pop("nodeName", None)
        self._prioritise(spec, where)
        if spec.get("schedulerName") != self.scheduler_name:
            name = printable(spec.get("schedulerName"))
            raise InputError(
                "another scheduler's",
                where=where,
                field="spec.schedulerName",
                value=name,
                expected=f"{self.scheduler_name}, or none",
            )
        status = {
            "phase": "Pending",
            "resourceClaimStatuses": self._claims_made(body["metadata"], spec, where),
        }
        found = _converted({"metadata": body["metadata"], "spec": spec, "status": status}, Pod, where)
        key = (found.metadata.namespace, found.metadata.name)
        self.picture.objects.setdefault(resources.PODS, {})[key] = found
        self.uids.append(found.metadata.uid)

    def _claims_made(self, metadata: Body, spec: Body, where: str) -> list[Body]:
        """Make the claims of a pod's templates as Kubernetes' controller would; what its status says then."""
        made: list[Body] = []
        uses = spec.get("resourceClaims")
        for use in uses if isinstance(uses, list) else ():
            template = use.get("resourceClaimTemplateName") if isinstance(use, dict) else None
            if not isinstance(template, str) or not isinstance(use.get("name"), str):
                continue
            found = self._claim_templates.get((metadata["namespace"], template))
            if found is None:
                field, expected = "spec.resourceClaims", "its ResourceClaimTemplate in the same files"
                raise InputError(
                    "no such template", where=where, field=field, value=template, expected=expected
                )
            owner = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]}
            name = f"{metadata['name']}-{use['name']}"
            of_claim = {
                "name": name,
                "namespace": metadata["namespace"],
                "uid": f"{metadata['uid']}/{use['name']}",
                "ownerReferences": [{**owner, "controller": True}],
            }
            asked = found.get("spec") or {}
            self._put(
                resources.RESOURCE_CLAIMS, {"metadata": of_claim, "spec": asked.get("spec") or {}}, where
            )
            made.append({"name": use["name"], "resourceClaimName": name})
        return made

    def _refuse_twice(self, kind: Kind, metadata: Body, where: str) -> None:
        key = (metadata["namespace"], metadata["name"])
        if key in self.picture.objects.get(kind, {}):
            problem = f"{kind.name} {harmless(key[1])} is there already in namespace {harmless(key[0])}"
            raise InputError(problem, where=where, field="metadata.name", expected="another name")

    def _completed(self, spec: Body, metadata: Body, where: str) -> Body:
        """What a pod is given as it comes into the cluster, and the scheduler's name."""
        namespace = self.picture.find(resources.NAMESPACES, metadata["namespace"])
        # Elsewhere pods stay as they were written.
        if namespace is not None and namespace.metadata.labels.get(keys.MANAGED) == "true":
            pod = {"metadata": metadata, "spec": spec}
            # Completion reads objects as the API server has checked them.
            _converted({**pod, "status": {}}, Pod, where)
            patch = completing_patch(pod, Completion(self.scheduler_name))
            spec = patched_copy(pod, patch)["spec"]
        if not spec.get("schedulerName"):
            spec["schedulerName"] = self.scheduler_name
        return spec

    def _prioritise(self, spec: Body, where: str) -> None:
        """The priority of its class, else of the class that holds for all."""
        classes = {one.metadata.name: one for one in self.picture.all(resources.PRIORITY_CLASSES)}
        name = spec.get("priorityClassName")
        if name:
            found = classes.get(name)
            if found is None:
                near = nearest(str(name), classes)
                expected = f"such as {listed(sorted(classes))}" if near is None else f"did you mean {near}?"
                field = "spec.priorityClassName"
                raise InputError("no such class", where=where, field=field, value=name, expected=expected)
        elif spec.get("priority") is not None:
            return
        else:
            found = next((one for one in classes.values() if one.global_default), None)
        spec["priority"] = 0 if found is None else found.value
        if found is not None and found.preemption_policy:
            spec.setdefault("preemptionPolicy", found.preemption_policy)


def _check_template(body: Body, where: str) -> None:
    """Refuse a ResourceClaimTemplate without the form of one. Raises InputError."""
    part: Any = body
    for field, holds in (("spec", "spec: what its claims are"), ("spec.spec", "devices: what is asked")):
        part = part.get("spec")
        # The API server takes null as a field that is not there.
        if part is None:
            return
        if not isinstance(part, dict):
            expected = f"a map with {holds}"
            raise InputError("not a map", where=where, field=field, value=part, expected=expected)


def _owner(kind: Kind, own: Body) -> Body:
    """The controller that makes the pods; of a Deployment that is a ReplicaSet."""
    name = own["name"]
    if kind == resources.DEPLOYMENTS:
        kind, name = resources.REPLICA_SETS, f"{name}-whatif"
    return {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        "name": name,
        "uid": own["uid"],
        "controller": True,
    }


def _name(body: Body, where: str) -> str:
    metadata = body.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if isinstance(name, str) and is_subdomain(name):
        namespace = metadata.get("namespace", "")  # type: ignore[union-attr]
        if isinstance(namespace, str) and (not namespace or is_subdomain(namespace)):
            return name
        raise InputError("not a namespace", where=where, field="metadata.namespace", value=namespace)
    field, expected = "metadata.name", "a DNS name"
    raise InputError("not a name", where=where, field=field, value=name, expected=expected)


def _converted(body: Body, kind: type[Any], where: str) -> Any:
    try:
        return msgspec.convert(body, kind)
    except msgspec.ValidationError as error:
        problem, _, path = str(error).partition(" - at `$.")
        field = path.rstrip("`")
        raise InputError(problem, where=where, field=field, value=_value_at(body, field)) from error


def _value_at(body: Any, path: str) -> Any:
    """What stands at a path such as ``spec.containers[0].name``; None where the path leads nowhere."""
    for part in path.replace("[", ".[").split(".") if path else ():
        if isinstance(body, Mapping):
            body = body.get(part)
        elif isinstance(body, list) and part[1:-1].isdecimal() and int(part[1:-1]) < len(body):
            body = body[int(part[1:-1])]
        else:
            return None
    return body if path else None


def _replicas(kind: Kind, spec: Body, where: str) -> int:
    """How many pods run at once."""
    fields = ("parallelism", "completions") if kind == resources.JOBS else ("replicas",)
    found = []
    for field in fields:
        number = spec.get(field)
        if number is not None and (type(number) is not int or not 0 <= number <= PODS_MAX):
            expected = f"a whole number from 0 to {PODS_MAX}"
            raise InputError(
                "not a number", where=where, field=f"spec.{field}", value=number, expected=expected
            )
        found.append(number)
    at_once = 1 if found[0] is None else found[0]
    return min(at_once, *(number for number in found[1:] if number is not None), PODS_MAX)


def _with_amounts(container: Any) -> Any:
    """Amounts as text, and requests where only limits are written, as the API server has them."""
    if not isinstance(container, dict) or not isinstance(container.get("resources"), Mapping):
        return container
    asked = dict(container["resources"])
    for field in ("requests", "limits"):
        if isinstance(asked.get(field), Mapping):
            asked[field] = {name: _text(amount) for name, amount in asked[field].items()}
    if isinstance(asked.get("limits"), Mapping) and isinstance(asked.get("requests", {}), Mapping):
        asked["requests"] = {**asked["limits"], **asked.get("requests", {})}
    return {**container, "resources": asked}


def _text(amount: Any) -> Any:
    return str(amount) if type(amount) in (int, float) else amount


def _labels_of_job(job: str, _pod: str, _index: int) -> dict[str, str]:
    return {"batch.kubernetes.io/job-name": job, "job-name": job}


def _labels_of_stateful_set(_owner: str, pod: str, index: int) -> dict[str, str]:
    return {"statefulset.kubernetes.io/pod-name": pod, "apps.kubernetes.io/pod-index": str(index)}


def _labels_of_replicas(_owner: str, _pod: str, _index: int) -> dict[str, str]:
    return {"pod-template-hash": "whatif"}


def _no_labels(_owner: str, _pod: str, _index: int) -> dict[str, str]:
    return {}


_LABELS: dict[Kind, Callable[[str, str, int], dict[str, str]]] = {
    resources.JOBS: _labels_of_job,
    resources.STATEFUL_SETS: _labels_of_stateful_set,
    resources.DEPLOYMENTS: _labels_of_replicas,
    resources.REPLICA_SETS: _no_labels,
    resources.REPLICATION_CONTROLLERS: _no_labels,
}
