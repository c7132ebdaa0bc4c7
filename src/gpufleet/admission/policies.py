"""The admission policies that judge by lint's rules, as objects for the API server.

Two policies hold all rules that CEL can say: one those that lint calls errors, one its warnings. How a
namespace is treated is said by its label ``gpufleet.io/admission``: deny refuses errors and warns of the
rest, warn and audit refuse nothing. A namespace without the label is treated as the chart says, never with
deny. An update is never refused, since what was there before has to go on: its pods are judged when they are
made. All fail open: with a policy that cannot be evaluated a request passes. ``cel`` makes the expressions.
"""

import enum
from typing import Any

from gpufleet.admission.cel import exceptions
from gpufleet.admission.cel.pods import Variable, bound, judged_kinds, variables
from gpufleet.admission.cel.rules import FINDINGS
from gpufleet.admission.cel.words import any_of, literal
from gpufleet.kube.keys import NAMESPACE_NAME
from gpufleet.lint.rule import Rule, Severity
from gpufleet.lint.rules import rule_of

Object = dict[str, Any]
LABEL = "gpufleet.io/admission"
VERSION = "admissionregistration.k8s.io/v1"
ERRORS, WARNINGS = "gpufleet-lint-errors", "gpufleet-lint-warnings"
LEFT_ALONE = ("kube-system", "gpufleet-system")
"""Namespaces in which nothing is judged: a cluster has to be able to mend itself."""


class Action(enum.Enum):
    """How findings in a namespace are treated: the values of its label."""

    OFF = "off"
    AUDIT = "audit"
    WARN = "warn"
    DENY = "deny"

    def of(self, severity: Severity) -> "Action":
        """What happens to a finding of this severity: only errors are refused."""
        if self is Action.DENY and severity is not Severity.ERROR:
            return Action.WARN
        return self


VALIDATION_ACTIONS = {
    Action.AUDIT: ["Audit"],
    Action.WARN: ["Warn", "Audit"],
    # The server takes no Warn beside Deny.
    Action.DENY: ["Deny", "Audit"],
}


def lint_policies(default: Action = Action.WARN) -> list[Object]:
    """Policies and bindings; ``default`` is for namespaces without the label. Raises nothing."""
    found: list[Object] = []
    for name, is_error in ((ERRORS, True), (WARNINGS, False)):
        rules = [rule_of(one) for one in FINDINGS]
        chosen = [one for one in rules if (one.severity is Severity.ERROR) == is_error]
        found.append(_policy(name, chosen))
        severity = Severity.ERROR if is_error else Severity.WARNING
        found += bindings(name, severity, default)
    return found


def bindings(
    policy: str, severity: Severity, default: Action, label: str = LABEL, *, refuses_updates: bool = False
) -> list[Object]:
    """One for each value of the label, and one for namespaces without it."""
    found = []
    for action in (Action.AUDIT, Action.WARN, Action.DENY):
        namespaces = [{"key": label, "operator": "In", "values": [action.value]}]
        done = action.of(severity)
        if done is Action.DENY and not refuses_updates:
            found.append(binding(policy, "deny", done, namespaces, ["CREATE"]))
            found.append(binding(policy, "deny-updates", Action.WARN, namespaces, ["UPDATE"]))
        else:
            found.append(binding(policy, action.value, done, namespaces))
    if default is not Action.OFF:
        unlabelled = [{"key": label, "operator": "DoesNotExist"}]
        found.append(binding(policy, "default", default.of(severity), unlabelled))
    return found


def binding(
    policy: str, name: str, action: Action, namespaces: list[Object], operations: list[str] | None = None
) -> Object:
    """A binding of a policy to namespaces of these labels, for all of its operations or for these."""
    resources: Object = {"namespaceSelector": {"matchExpressions": namespaces}}
    if operations is not None:
        resources["resourceRules"] = [resource_rule("*", ["*/*"], operations)]
    return {
        "apiVersion": VERSION,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": f"{policy}-{name}"},
        "spec": {
            "policyName": policy,
            "validationActions": VALIDATION_ACTIONS[action],
            "matchResources": resources,
        },
    }


def _policy(name: str, rules: list[Rule]) -> Object:
    found = [
        Variable(rule.id, f"{exceptions.is_excepted(rule.id)} ? [] :\n{FINDINGS[rule.id]()}")
        for rule in rules
    ]
    spec = {
        "failurePolicy": "Ignore",
        "matchConstraints": {"namespaceSelector": not_of_the_system(), "resourceRules": resource_rules()},
        "matchConditions": [
            {"name": "not-made-by-a-judged-object", "expression": _IS_FIRST},
            {"name": "finds-something", "expression": bound(_any_finding(rules))},
        ],
        "variables": as_objects((*variables(), *exceptions.VARIABLES, *found)),
        "validations": [_validation(rule) for rule in rules],
    }
    return {
        "apiVersion": VERSION,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": spec,
    }


def _any_finding(rules: list[Rule]) -> str:
    """Whether a rule finds something, excepted or not.

    The server evaluates expressions and messages of all validations, each with variables of its own: most
    objects pay for neither.
    """
    return any_of(f"size({FINDINGS[rule.id]()}) > 0" for rule in rules)


_IS_FIRST = (
    "object.kind == 'Pod' || !object.metadata.?ownerReferences.orValue([])"
    ".exists(owner, owner.?controller.orValue(false))"
)
"""A ReplicaSet of a Deployment says nothing that the Deployment did not say. Pods are always judged."""


def _validation(rule: Rule) -> Object:
    words = f"'{rule.id} {rule.title}: ' + variables.{rule.id}.join(', ') + "
    words += literal(f". gpufleet lint --explain {rule.id} says what to do")
    return {
        "expression": f"size(variables.{rule.id}) == 0",
        "messageExpression": words,
        "message": f"{rule.id} {rule.title}",
        "reason": "Forbidden",
    }


def as_objects(declared: tuple[Variable, ...]) -> list[Object]:
    """Variables as a policy writes them."""
    return [{"name": one.name, "expression": one.expression} for one in declared]


def not_of_the_system() -> Object:
    """The selector of all namespaces but those that are left alone."""
    return {"matchExpressions": [{"key": NAMESPACE_NAME, "operator": "NotIn", "values": list(LEFT_ALONE)}]}


def resource_rules(*, updates: bool = True) -> list[Object]:
    """What is judged: pods when they are made, what makes pods also when it is changed."""
    plurals: dict[str, list[str]] = {}
    for group, kind in judged_kinds():
        if (group, kind) != ("", "Pod"):
            plurals.setdefault(group, []).append(f"{kind.lower()}s")
    # A pod's containers do not change, but for their images: one look is enough.
    found = [resource_rule("", ["pods"], ["CREATE"])]
    operations = ["CREATE", "UPDATE"] if updates else ["CREATE"]
    return found + [resource_rule(group, names, operations) for group, names in plurals.items()]


def resource_rule(group: str, plurals: list[str], operations: list[str]) -> Object:
    """A rule of a policy for these resources of a group."""
    return {"apiGroups": [group], "apiVersions": ["*"], "operations": operations, "resources": plurals}
