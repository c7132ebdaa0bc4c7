"""Pods that gpufleet's scheduler is to place, while none runs: its Lease is missing, or is not renewed."""

from collections.abc import Iterator

from gpufleet.doctor.check import Check, Failure, Good, Layer, Point, Remedy, listed
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.views.leases import holder_of, leases_of
from gpufleet.kube.installation import SCHEDULER_LEASE
from gpufleet.kube.keys import SCHEDULER_NAME

STALE_S = 60.0
"""Four times as long as another leader waits before it takes over."""


def judge(facts: Facts) -> Iterator[Failure | Good]:
    """The pods that wait for it."""
    mine = [one for one in facts.pods if one.scheduler == SCHEDULER_NAME and not one.has_ended]
    waiting = [one for one in mine if one.waits]
    leases = leases_of(facts)
    found = leases.named(SCHEDULER_LEASE)
    stale = [one for one in found if not holder_of(one) or (leases.silent_s(one) or 0.0) > STALE_S]
    # One Lease that is renewed is enough: others may be left from another installation.
    if mine and found and len(stale) < len(found):
        yield Good("gpufleet's scheduler renews its Lease")
    elif waiting or (mine and found):
        seen = tuple(
            f"{one.title}: held by {holder_of(one) or 'no process'}, not renewed for {silent_s:.0f} s"
            for one in stale
            if (silent_s := leases.silent_s(one)) is not None
        ) or (f"there is no Lease {SCHEDULER_LEASE} in any namespace",)
        titles = tuple(one.title for one in waiting) or tuple(one.title for one in found)
        held_up = frozenset(titles)
        yield Failure(
            f"{listed(titles)}: gpufleet's scheduler is to place pods, and none runs",
            titles,
            seen,
            (
                Remedy(
                    "see why the scheduler does not run; install it where it is not there",
                    "kubectl get pods -A -l app.kubernetes.io/component=scheduler -o wide",
                ),
            ),
            held_up | facts.works_above(held_up),
        )


CHECK = Check(
    "scheduler-absent",
    Point.STACK,
    Layer.CONTROL_PLANE,
    "gpufleet's scheduler runs",
    "A pod is placed by the scheduler that it names, and by no other.",
    judge,
    ("Pod", "Lease"),
)
