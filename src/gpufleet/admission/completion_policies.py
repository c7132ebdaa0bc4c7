"""The policies that complete pods, as objects for the API server: one, and one for the runtime class.

One mutation makes all additions: where it fails, or its policy is skipped, no pod has a part of what it
lacks. The policies are called where the namespace has the label, when a pod is made, never for the image of a
static pod, and by their conditions only for pods that may ask for a GPU. The policy of the runtime class has
the class as its parameter and is skipped where the cluster does not have it: a pod with a class that is not
there would be refused. ``cel.completion`` makes the expressions.
"""

from collections.abc import Iterable
from typing import Any

from gpufleet.admission.cel.completion import (
    ADDITIONS_VARIABLE,
    SCHEDULER_VARIABLE,
    TAINTS_VARIABLE,
    completion,
    may_ask,
    may_lack,
    names_of,
    runtime_class,
    used_variables,
)
from gpufleet.admission.cel.words import literal
from gpufleet.admission.policies import VERSION, as_objects, resource_rule
from gpufleet.completion.additions import Addition
from gpufleet.kube.keys import MANAGED, MIRROR

Object = dict[str, Any]
DEFAULT_RUNTIME_CLASS = "nvidia"
"""The name under which NVIDIA's toolkit is commonly installed; the chart writes its value in its place."""

COMPLETION, CLASS = "gpufleet-pod-completion", "gpufleet-runtime-class"
"""Names of the policies, and of their bindings."""

_PARAMETER = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass"}
_NO_MIRROR = f"!({literal(MIRROR)} in object.metadata.?annotations.orValue({{}}))"
_WITHOUT_CLASS = "!has(object.spec.runtimeClassName)"


def completion_policies(
    additions: Iterable[Addition],
    *,
    scheduler_name: str | None = None,
    pool_taints: tuple[str, ...] = (),
    runtime_class_name: str = DEFAULT_RUNTIME_CLASS,
) -> list[Object]:
    """The policies of these additions, each with its binding."""
    chosen = tuple(additions)
    others = tuple(one for one in chosen if one is not Addition.RUNTIME_CLASS)
    found: list[Object] = []
    if others:
        values = {
            TAINTS_VARIABLE: f"[{', '.join(map(literal, pool_taints))}]",
            ADDITIONS_VARIABLE: names_of(others),
        }
        if scheduler_name is not None:
            values[SCHEDULER_VARIABLE] = literal(scheduler_name)
        spec = _spec(completion(), values, lacks=may_lack(others, pool_taints))
        found += [_object("", COMPLETION, spec), _object("Binding", COMPLETION, {"policyName": COMPLETION})]
    if Addition.RUNTIME_CLASS in chosen:
        spec = {"paramKind": _PARAMETER, **_spec(runtime_class(), {}, _WITHOUT_CLASS)}
        reference = {"name": runtime_class_name, "parameterNotFoundAction": "Allow"}
        bound = {"policyName": CLASS, "paramRef": reference}
        found += [_object("", CLASS, spec), _object("Binding", CLASS, bound)]
    return found


def _spec(expression: str, values: dict[str, str], *conditions: str, lacks: str = "") -> Object:
    variables = as_objects(used_variables(expression))
    for one in variables:
        one["expression"] = values.get(one["name"], one["expression"])
    needs = {f"may-need-it-{number}": one for number, one in enumerate(conditions, 1)}
    every = {"not-the-image-of-a-static-pod": _NO_MIRROR, **needs, "may-ask-for-a-gpu": may_ask()}
    # The server asks the conditions in their order, and most pods ask for no GPU.
    every |= {"may-lack-something": lacks} if lacks else {}
    return {
        # A pod without its additions is better than no pod.
        "failurePolicy": "Ignore",
        "reinvocationPolicy": "IfNeeded",
        "matchConstraints": {
            "namespaceSelector": {"matchLabels": {MANAGED: "true"}},
            "resourceRules": [resource_rule("", ["pods"], ["CREATE"])],
        },
        "matchConditions": [{"name": name, "expression": text} for name, text in every.items()],
        "variables": variables,
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}],
    }


def _object(suffix: str, name: str, spec: Object) -> Object:
    kind = f"MutatingAdmissionPolicy{suffix}"
    return {"apiVersion": VERSION, "kind": kind, "metadata": {"name": name}, "spec": spec}
