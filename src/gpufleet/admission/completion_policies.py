"""The policies that complete pods, as objects for the API server: one for each addition.

One mutation a policy: one that fails is skipped whole, and no pod has half of an addition. They are called
where the namespace has the label, when a pod is made, never for the image of a static pod. The policy of the
runtime class has the class as its parameter and is skipped where the cluster does not have it: a pod with a
class that is not there would be refused. ``cel.completion`` makes the expressions.
"""

from collections.abc import Iterable
from typing import Any

from gpufleet.admission.additions import Addition
from gpufleet.admission.cel.completion import (
    MUTATIONS,
    NEEDS,
    SCHEDULER_VARIABLE,
    TAINTS_VARIABLE,
    inlined,
    used_variables,
)
from gpufleet.admission.cel.words import literal
from gpufleet.admission.policies import VERSION, as_objects, resource_rule
from gpufleet.kube.keys import MANAGED, MIRROR

Object = dict[str, Any]
DEFAULT_RUNTIME_CLASS = "nvidia"
"""The name under which NVIDIA's toolkit is commonly installed; the chart writes its value in its place."""

NEED = "may-need-it"
"""The condition by which a policy is passed over for a pod that has its addition."""

_PARAMETER = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass"}
_NO_MIRROR = f"!({literal(MIRROR)} in object.metadata.?annotations.orValue({{}}))"


def completion_policies(
    additions: Iterable[Addition],
    *,
    scheduler_name: str | None = None,
    pool_taints: tuple[str, ...] = (),
    runtime_class: str = DEFAULT_RUNTIME_CLASS,
) -> list[Object]:
    """The policies of these additions, each with its binding."""
    found: list[Object] = []
    values = {TAINTS_VARIABLE: f"[{', '.join(map(literal, pool_taints))}]"}
    if scheduler_name is not None:
        values[SCHEDULER_VARIABLE] = literal(scheduler_name)
    for addition in additions:
        found += [_policy(addition, values), _binding(addition, runtime_class)]
    return found


def _policy(addition: Addition, values: dict[str, str]) -> Object:
    expression = MUTATIONS[addition]()
    taints = values[TAINTS_VARIABLE]
    variables = as_objects(used_variables(expression))
    for one in variables:
        one["expression"] = values.get(one["name"], one["expression"])
    spec: Object = {
        "failurePolicy": "Ignore",
        "reinvocationPolicy": "IfNeeded",
        "matchConstraints": {
            "namespaceSelector": {"matchLabels": {MANAGED: "true"}},
            "resourceRules": [resource_rule("", ["pods"], ["CREATE"])],
        },
        "matchConditions": [
            {"name": "not-the-image-of-a-static-pod", "expression": _NO_MIRROR},
            {"name": NEED, "expression": inlined(NEEDS[addition]).replace("[].exists", f"{taints}.exists")},
        ],
        "variables": variables,
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}],
    }
    if addition is Addition.RUNTIME_CLASS:
        spec = {"paramKind": _PARAMETER, **spec}
    return _object("MutatingAdmissionPolicy", addition, spec)


def _binding(addition: Addition, runtime_class: str) -> Object:
    spec: Object = {"policyName": addition.policy}
    if addition is Addition.RUNTIME_CLASS:
        spec["paramRef"] = {"name": runtime_class, "parameterNotFoundAction": "Allow"}
    return _object("MutatingAdmissionPolicyBinding", addition, spec)


def _object(kind: str, addition: Addition, spec: Object) -> Object:
    return {"apiVersion": VERSION, "kind": kind, "metadata": {"name": addition.policy}, "spec": spec}
