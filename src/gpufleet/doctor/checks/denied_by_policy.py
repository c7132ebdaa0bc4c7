"""GPU pods that a policy of the cluster denies: an admission policy, or a webhook that says no."""

from collections.abc import Iterator

from gpufleet.doctor.check import Check, Failure, Layer, Point, Remedy
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.views.refusals import RefusalCause, refusals


def judge(facts: Facts) -> Iterator[Failure]:
    """Each workload with pods that are denied."""
    for one in refusals(facts, RefusalCause.POLICY, RefusalCause.WEBHOOK):
        name = one.words["name"]
        if one.ground is RefusalCause.POLICY:
            who = f"ValidatingAdmissionPolicy {name}"
            look = Remedy("see what it asks for", f"kubectl get validatingadmissionpolicy {name} -o yaml")
        else:
            who = f"the webhook {name}"
            look = Remedy(
                "see which program the webhook belongs to, and what it asks for",
                f"kubectl get validatingwebhookconfigurations -o yaml | grep -B20 {name}",
            )
        yield Failure(
            f"{one.workload.title}: {who} denies its pods: {one.words['says']}",
            (one.workload.title,),
            (f"{one.maker.title}: {one.message}",),
            (Remedy("change the pod template so that the policy lets it pass"), look),
            one.affects,
        )


CHECK = Check(
    "policy-denies",
    Point.QUOTAS,
    Layer.ADMISSION,
    "Policies let GPU pods be made",
    "A policy that denies pods is told to the controller that makes them, not to users that wait for them.",
    judge,
    written=True,
)
