"""NVIDIA's GPU operator says itself that what it was told to set up is not ready."""

import datetime as dt
from collections.abc import Iterator

from gpufleet.doctor.check import Check, Failure, Good, Layer, Point, Remedy
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.kubectl import get_command
from gpufleet.doctor.objects.status import age_s, conditions
from gpufleet.lint.objects.manifest import Manifest

SLOW_S = 30 * 60.0
"""A driver that is built on the node takes twenty minutes."""


def judge(facts: Facts) -> Iterator[Failure | Good]:
    """Each object of the operator that has been unready for long."""
    for one in facts.of_kind("ClusterPolicy", "NVIDIADriver", group="nvidia.com"):
        state = one.root.text_at("status", "state") or ""
        if state == "ready":
            yield Good(f"{one.title} is ready")
        elif state == "notReady" and _unready_s(one, facts.now) > SLOW_S:
            told = [
                f"{kind}={condition.status} {condition.reason}: {condition.message}"
                for kind, condition in conditions(one.root.at("status")).items()
            ]
            yield Failure(
                f"{one.title}: its operator has not got it ready",
                (one.title,),
                ("status.state: notReady", *told),
                (
                    Remedy("read what is missing", f"{get_command(one)} -o yaml"),
                    Remedy(
                        "look at the operator's pods",
                        "kubectl get pods -A -l app.kubernetes.io/part-of=gpu-operator",
                    ),
                ),
                frozenset({one.title}),
            )


def _unready_s(manifest: Manifest, now: dt.datetime) -> float:
    """For how long it has been so, as far as anything tells."""
    ready = conditions(manifest.root.at("status")).get("Ready")
    if ready is not None and ready.since is not None:
        return (now - ready.since).total_seconds()
    return age_s(manifest.root.at("metadata", "creationTimestamp"), now) or 0.0


CHECK = Check(
    "operator-unready",
    Point.STACK,
    Layer.OFFER,
    "The GPU operator is done",
    "The operator goes no further than the first part that does not get ready.",
    judge,
    ("ClusterPolicy", "NVIDIADriver"),
)
