"""What a server does to pods in particular: defaults, immutable specs, binding, graceful deletion.

The rules are those of ``pkg/registry/core/pod`` and ``pkg/apis/core`` of Kubernetes 1.37.
"""

from datetime import datetime, timedelta
from typing import Any

import msgspec

from gpufleet.simulation.refusal import (
    Cause,
    JsonObject,
    Refusal,
    bad_request,
    conflict,
    invalid,
    precondition_failed,
    unreadable,
)

DEFAULTS = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
    "enableServiceLinks": True,
    "priority": 0,
    "preemptionPolicy": "PreemptLowerPriority",
}
MUTABLE = {"activeDeadlineSeconds", "tolerations", "schedulingGates"}
MUTABLE_WHILE_GATED = {"nodeSelector", "affinity"}
TERMINAL = {"Succeeded", "Failed"}
MUTABLE_IN_WORDS = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
    "`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def prepare_new(pod: JsonObject, now: datetime) -> None:
    """Defaults and the first status of a new pod, in place."""
    name = pod["metadata"]["name"]
    spec = pod.get("spec")
    if not isinstance(spec, dict) or not spec.get("containers"):
        raise invalid("", "Pod", name, Cause("FieldValueRequired", "spec.containers", "Required value"))
    for field, value in DEFAULTS.items():
        spec.setdefault(field, value)
    for container in [*spec["containers"], *(spec.get("initContainers") or [])]:
        _complete_requests(container, name)
    status: JsonObject = {"phase": "Pending", "qosClass": _quality(spec)}
    if spec.get("schedulingGates"):
        message = "Scheduling is blocked due to non-empty scheduling gates"
        status["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "lastProbeTime": None,
                "lastTransitionTime": _timestamp(now),
                "reason": "SchedulingGated",
                "message": message,
            }
        ]
    pod["status"] = status


def _quality(spec: JsonObject) -> str:
    """Guaranteed where every container limits CPU and memory to what it requests."""
    resources = [one["resources"] for one in [*spec["containers"], *(spec.get("initContainers") or [])]]
    counted = [
        (field.get(kind) or {}).get(name)
        for field in resources
        for kind in ("requests", "limits")
        for name in ("cpu", "memory")
    ]
    if not any(counted):
        return "BestEffort"
    alike = all(
        (field.get("requests") or {}).get(name) == (field.get("limits") or {}).get(name)
        for field in resources
        for name in ("cpu", "memory")
    )
    return "Guaranteed" if all(counted) and alike else "Burstable"


def _complete_requests(container: JsonObject, pod_name: str) -> None:
    """A limit without a request is a request too; extended resources must have both alike."""
    if not container.get("name"):
        cause = Cause("FieldValueRequired", "spec.containers[0].name", "Required value")
        raise invalid("", "Pod", pod_name, cause)
    resources = container.setdefault("resources", {})
    limits = resources.get("limits") or {}
    requests = resources.get("requests") or {}
    if limits:
        resources["requests"] = requests = {**limits, **requests}
    for resource, amount in requests.items():
        if "/" in resource and "kubernetes.io/" not in resource:
            if resource not in limits:
                words = "Required value: Limit must be set for non overcommitable resources"
                path = "spec.containers[0].resources.limits"
                raise invalid("", "Pod", pod_name, Cause("FieldValueRequired", path, words))
            if limits[resource] != amount:
                words = f'Invalid value: "{amount}": must be equal to {resource} limit of {limits[resource]}'
                path = "spec.containers[0].resources.requests"
                raise invalid("", "Pod", pod_name, Cause("FieldValueInvalid", path, words))


def check_changed(new: JsonObject, old: JsonObject) -> None:
    """Only a few fields of a pod's spec may change."""
    gates = _names(new["spec"].get("schedulingGates"))
    added = gates - _names(old["spec"].get("schedulingGates"))
    name = old["metadata"]["name"]
    if added:
        words = f"Forbidden: only deletion is allowed, but found new scheduling gate '{min(added)}'"
        place = next(i for i, gate in enumerate(new["spec"]["schedulingGates"]) if gate["name"] in added)
        cause = Cause("FieldValueForbidden", f"spec.schedulingGates[{place}].name", words)
        raise invalid("", "Pod", name, cause)
    mutable = MUTABLE | (MUTABLE_WHILE_GATED if old["spec"].get("schedulingGates") else set())
    if _frozen(new["spec"], mutable) != _frozen(old["spec"], mutable):
        words = f"Forbidden: pod updates may not change fields other than {MUTABLE_IN_WORDS}"
        raise invalid("", "Pod", name, Cause("FieldValueForbidden", "spec", words))


def _names(gates: Any) -> set[str]:
    return {gate["name"] for gate in gates or []}


def _frozen(spec: JsonObject, mutable: set[str]) -> JsonObject:
    # To Go an empty list or map is the same as none, so such a change is no change.
    kept = {field: value for field, value in spec.items() if field not in mutable and value not in ({}, [])}
    for field in ("containers", "initContainers"):
        if field in kept:
            kept[field] = [{**container, "image": ""} for container in kept[field]]
    return kept


class BindingOrder(msgspec.Struct, frozen=True):
    """What a Binding says: preconditions, node, and what is copied onto the pod."""

    node: str
    uid: str = ""
    resource_version: str = ""
    annotations: dict[str, str] = {}
    labels: dict[str, str] = {}


def read_binding(binding: JsonObject, pod_name: str) -> BindingOrder:
    """The checked content of a Binding."""
    metadata, target = binding["metadata"], binding.get("target") or {}
    if (metadata.get("name") or "") != pod_name:
        raise bad_request("name in URL does not match name in Binding object")
    problems = []
    kind = target.get("kind") or ""
    if kind not in {"", "Node"}:
        problems.append(f'target.kind: Unsupported value: "{kind}": supported values: "Node", "<empty>"')
    if not target.get("name"):
        problems.append("target.name: Required value")
    if problems:
        # The server does not turn these into a status of their own.
        raise unreadable(problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]")
    return BindingOrder(
        target["name"],
        metadata.get("uid") or "",
        metadata.get("resourceVersion") or "",
        metadata.get("annotations") or {},
        metadata.get("labels") or {},
    )


def bind(pod: JsonObject, order: BindingOrder, now: datetime) -> JsonObject:
    """The pod with node, annotations, labels and condition of a Binding: one write. Raises Refusal."""
    metadata = pod["metadata"]
    name = metadata["name"]
    for asked, found, field in (
        (order.uid, metadata["uid"], "UID"),
        (order.resource_version, metadata["resourceVersion"], "ResourceVersion"),
    ):
        if asked and asked != found:
            raise conflict("", "pods", name, precondition_failed("pods", metadata, field, asked, found))
    if "deletionTimestamp" in metadata:
        raise _not_bound(name, f"pod {name} is being deleted, cannot be assigned to a host")
    if pod["spec"].get("nodeName"):
        node = pod["spec"]["nodeName"]
        raise _not_bound(name, f'pod {name} is already assigned to node "{node}"')
    if pod["spec"].get("schedulingGates"):
        raise _not_bound(name, f"pod {name} has non-empty .spec.schedulingGates")
    changed = dict(metadata)
    if order.annotations:
        changed["annotations"] = {**(metadata.get("annotations") or {}), **order.annotations}
    if order.labels:
        changed["labels"] = {**(metadata.get("labels") or {}), **order.labels}
    # A Binding clears the nomination: the API server does it in the same write.
    status = {field: value for field, value in pod["status"].items() if field != "nominatedNodeName"}
    status["conditions"] = with_condition(pod["status"], "PodScheduled", "True", now)
    spec = {**pod["spec"], "nodeName": order.node}
    return {**pod, "metadata": changed, "spec": spec, "status": status}


def _not_bound(name: str, words: str) -> Refusal:
    return conflict("", "pods/binding", name, words)


def with_condition(
    status: JsonObject, kind: str, value: str, now: datetime, reason: str = "", message: str = ""
) -> list[JsonObject]:
    """The conditions with this one set; its transition time changes only with its value."""
    conditions = list(status.get("conditions") or [])
    old = next((condition for condition in conditions if condition["type"] == kind), None)
    since = _timestamp(now)
    if old is not None and old["status"] == value:
        since = old.get("lastTransitionTime") or since
    new: JsonObject = {"type": kind, "status": value, "lastProbeTime": None, "lastTransitionTime": since}
    if reason:
        new["reason"] = reason
    if message:
        new["message"] = message
    if old is None:
        return [*conditions, new]
    return [new if condition is old else condition for condition in conditions]


def grace_period_s(pod: JsonObject, asked_s: int | None) -> int:
    """How long a pod may take to end: none for one that is on no node or has ended already."""
    if not pod["spec"].get("nodeName") or pod["status"].get("phase") in TERMINAL:
        return 0
    period_s: int = pod["spec"].get("terminationGracePeriodSeconds", 0) if asked_s is None else asked_s
    # A negative time of grace, which older versions took, counts as one second.
    return 1 if period_s < 0 else period_s


def being_deleted(pod: JsonObject, grace_s: int, now: datetime) -> JsonObject:
    """The pod marked for deletion."""
    metadata = {
        **pod["metadata"],
        "deletionTimestamp": _timestamp(now + timedelta(seconds=grace_s)),
        "deletionGracePeriodSeconds": grace_s,
    }
    if "generation" in metadata and "deletionTimestamp" not in pod["metadata"]:
        metadata["generation"] += 1
    return {**pod, "metadata": metadata}


def _timestamp(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")
