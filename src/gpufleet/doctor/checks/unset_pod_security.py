"""Namespaces with GPU work that enforce no Pod Security level, where others of the cluster do."""

from collections.abc import Iterator

from gpufleet.doctor.check import Check, Failure, Good, Grade, Layer, Point, Remedy, Unjudged, listed
from gpufleet.doctor.facts import Facts

_LABEL = "pod-security.kubernetes.io/enforce"
# Kubernetes' own namespaces need rights that the levels refuse.
_OF_THE_SYSTEM = frozenset({"kube-system", "kube-public", "kube-node-lease"})


def judge(facts: Facts) -> Iterator[Failure | Good | Unjudged]:
    """The namespaces that were left out; where no namespace enforces a level, that may be meant so."""
    used = {one.manifest.namespace for one in facts.gpu_workloads} - _OF_THE_SYSTEM
    levels = {one.name: one.labels.get(_LABEL, "") for one in facts.of_kind("Namespace")}
    without = sorted(name for name in used if not levels.get(name))
    enforcing = sorted(name for name, level in levels.items() if level and name not in _OF_THE_SYSTEM)
    if not used:
        return
    if not without:
        yield Good("every namespace with GPU work enforces a Pod Security level")
    # Where no namespace has the label the levels may be enforced in another way.
    elif not enforcing:
        yield Unjudged(
            "Pod Security: no namespace enforces a level; the server's own default, or another tool, may"
        )
    else:
        yield Failure(
            f"Namespace {listed(without)}: GPU work, and no Pod Security level is enforced",
            tuple(f"Namespace {name}" for name in without),
            (f"no label {_LABEL}", f"{listed(f'{name} has {levels[name]}' for name in enforcing)}"),
            (
                Remedy(
                    "see first what it would refuse, then enforce it",
                    f"kubectl label --dry-run=server --overwrite namespace {without[0]} {_LABEL}=baseline",
                ),
            ),
        )


CHECK = Check(
    "pod-security-unset",
    Point.SECURITY,
    Layer.PRACTICE,
    "Namespaces with GPU work enforce Pod Security",
    "Without a level every account that may make pods there may make privileged ones, and has the node.",
    judge,
    ("Namespace",),
    Grade.RISK,
)
