"""Who is silent is judged by the clocks of the cluster, and not by one that is wrong."""

import datetime as dt

from gpufleet.doctor.views.leases import leases_of
from tests.doctor.facts_of_text import NOW, facts_of


def silent_s(name: str, **renewed_ago_s: float) -> float | None:
    """For how long a Lease was silent, where each was renewed so many seconds ago."""
    leases = [
        "apiVersion: coordination.k8s.io/v1\nkind: Lease\n"
        f"metadata: {{name: {one}, namespace: kube-node-lease}}\n"
        f"spec: {{renewTime: '{(NOW - dt.timedelta(seconds=ago)).isoformat()}'}}\n"
        for one, ago in renewed_ago_s.items()
    ]
    found = leases_of(facts_of("---\n".join(leases)))
    return found.silent_s(found.named(name)[0])


def test_a_lease_is_silent_since_others_were_renewed() -> None:
    assert silent_s("dead", a=1, b=5, dead=600) == 599


def test_a_node_whose_clock_is_ahead_makes_nobody_silent() -> None:
    assert silent_s("a", a=1, b=5, ahead=-300) == 0
    assert silent_s("ahead", a=1, b=5, ahead=-300) == 0


def test_all_of_a_cluster_may_be_of_another_time_than_who_asks() -> None:
    assert silent_s("dead", a=3600, b=3605, dead=4000) == 400


def test_a_lease_that_is_alone_is_believed() -> None:
    assert silent_s("only", only=7) == 0
