"""Namespaces with GPU work without any NetworkPolicy, where those of other tenants have some."""

from collections.abc import Iterator

from gpufleet.doctor.check import Check, Failure, Good, Grade, Layer, Point, Remedy, Unjudged, listed
from gpufleet.doctor.facts import Facts
from gpufleet.model.phrases import counted

_POLICY = """\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: same-namespace
  namespace: {namespace}
spec:
  podSelector: {{}}
  policyTypes: [Ingress]
  ingress:
    - from:
        - podSelector: {{}}
"""


def judge(facts: Facts) -> Iterator[Failure | Good | Unjudged]:
    """The namespaces that were left out; where no namespace has a policy, that may be meant so."""
    used = {one.manifest.namespace for one in facts.gpu_workloads}
    guarded = {one.namespace for one in facts.of_kind("NetworkPolicy")}
    without = sorted(used - guarded)
    if not used:
        return
    if not without:
        yield Good("every namespace with GPU work has a NetworkPolicy")
    elif not used & guarded:
        if len(used) > 1:
            named = counted(len(used), "namespace")
            says = "policies of another kind, or separate clusters, may keep them apart"
            yield Unjudged(f"NetworkPolicies: none of {named} with GPU work has one; {says}")
    else:
        yield Failure(
            f"Namespace {listed(without)}: GPU work that every pod of the cluster may reach",
            tuple(f"Namespace {name}" for name in without),
            ("no NetworkPolicy", f"{listed(sorted(used & guarded))} has some"),
            (
                Remedy(
                    "let in what is of the namespace, and add what else is to reach it",
                    "",
                    _POLICY.format(namespace=without[0]),
                ),
            ),
        )


CHECK = Check(
    "network-policy-missing",
    Point.SECURITY,
    Layer.PRACTICE,
    "Tenants cannot reach each other's GPU work",
    "Notebooks and model servers seldom ask for a password; without a policy every pod may talk to them.",
    judge,
    ("NetworkPolicy", "Namespace"),
    Grade.RISK,
)
