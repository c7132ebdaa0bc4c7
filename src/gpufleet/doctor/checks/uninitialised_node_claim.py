"""Karpenter's NodeClaims with nodes that came and never became what was ordered."""

from collections.abc import Iterator

from gpufleet.doctor.check import Check, Failure, Good, Layer, Point, Remedy, listed
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.objects.status import age_s, conditions
from gpufleet.kube.meanings.gpu_resources import is_gpu
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.model.phrases import each_of

_PATIENCE_S = 900.0
"""After 15 minutes Karpenter itself gives up a node that does not register."""


def judge(facts: Facts) -> Iterator[Failure | Good]:
    """Each claim of GPUs that is old enough."""
    claims = [one for one in facts.of_kind("NodeClaim") if _asked(one)]
    bad = 0
    for one in claims:
        told = conditions(one.root.at("status"))
        initialised = told.get("Initialized")
        age = age_s(one.root.at("metadata", "creationTimestamp"), facts.now) or 0.0
        if (initialised is not None and initialised.is_true) or age < _PATIENCE_S:
            continue
        bad += 1
        node = one.root.text_at("status", "nodeName")
        why = "no condition Initialized"
        if initialised is not None:
            why = f"Initialized={initialised.status} {initialised.reason}: {initialised.message}"
        yield Failure(
            f"{one.title}: ordered with {listed(_asked(one))} {age / 60:.0f} minutes ago, not initialised",
            (f"Node {node}",) if node else (one.title,),
            (why, f"node: {node or 'none has registered'}"),
            (
                Remedy(
                    "see whether a device plugin runs on its node, and a startup taint is left",
                    f"kubectl describe nodeclaim {one.name}",
                ),
            ),
            frozenset({one.title}),
        )
    if claims and not bad:
        yield Good(f"{each_of(len(claims), 'NodeClaim')} with GPUs is initialised")


def _asked(claim: Manifest) -> list[str]:
    requests = claim.root.at("spec", "resources", "requests").entries()
    return [name for name, _ in requests if is_gpu(name)]


CHECK = Check(
    "node-claim-stuck",
    Point.SCALING,
    Layer.OFFER,
    "Nodes that were ordered become what was ordered",
    "A node is initialised when it offers every resource that was asked for; until then it is never removed.",
    judge,
    ("NodeClaim",),
)
