"""gpufleet is at work without the admission policies that keep others from writing its grants."""

from collections.abc import Iterator

from gpufleet.doctor.check import Check, Failure, Good, Grade, Layer, Point, Remedy, listed
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.views.leases import leases_of
from gpufleet.kube.installation import GUARD, SCHEDULER_LEASE

FENCE = "gpufleet-epoch-fence"
_POLICY = "ValidatingAdmissionPolicy"
_BINDING = "ValidatingAdmissionPolicyBinding"


def judge(facts: Facts) -> Iterator[Failure | Good]:
    """Each policy and each binding that is not there."""
    if not leases_of(facts).named(SCHEDULER_LEASE):
        return
    there = {(kind, one.name) for kind in (_POLICY, _BINDING) for one in facts.of_kind(kind)}
    missing = [
        f"{kind} {name}"
        for name in (GUARD, FENCE)
        for kind in (_POLICY, _BINDING)
        if (kind, name) not in there
    ]
    if not missing:
        yield Good("admission policies keep grants from being forged")
        return
    yield Failure(
        f"{listed(missing, 4)}: missing, so a pod can name its own devices, or an old scheduler can bind",
        tuple(missing),
        tuple(f"{one} is not there" for one in missing),
        (
            Remedy(
                "apply gpufleet's policies again; they need Kubernetes 1.30 or later",
                "helm upgrade gpufleet charts/gpufleet --namespace gpufleet-system --reuse-values",
            ),
        ),
    )


CHECK = Check(
    "guard-missing",
    Point.STACK,
    Layer.CONTROL_PLANE,
    "gpufleet's admission policies are in force",
    "The grant on a pod says which GPUs it gets; only the scheduler may write it.",
    judge,
    (_POLICY, _BINDING, "Lease"),
    Grade.RISK,
)
