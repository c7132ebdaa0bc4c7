"""GPU034: work on spot nodes is taken away with less notice than it needs, and with nothing kept."""

from collections.abc import Iterator

from gpufleet.lint.edits.edits import Fix, setting
from gpufleet.lint.objects.context import Context
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.objects.pods import PodTemplate
from gpufleet.lint.rule import Rule, RuleFinding, Severity
from gpufleet.model.spot import SPOT_LABELS

NOTICE_S = 30
"""The shortest notice that clouds give before they take a spot node away."""

_SPOT = dict(SPOT_LABELS)
# Volumes that outlive a pod's node, or may.
_KEPT = ("persistentVolumeClaim", "ephemeral", "csi", "nfs", "hostPath")
# Kinds that serve requests and have nothing to save.
_SERVING = frozenset({"Deployment", "StatefulSet", "InferenceService", "Service", "LLMInferenceService"})


def check(manifest: Manifest, _: Context) -> Iterator[RuleFinding]:
    """Each GPU pod that chooses spot nodes: its notice, and where it keeps what it has done."""
    for template in manifest.templates:
        if not (template.asks_for_gpu and _chooses_spot(template)):
            continue
        grace = template.spec.at("terminationGracePeriodSeconds")
        if grace.integer is not None and grace.integer < NOTICE_S:
            says = f"is given {grace.integer} s to end on nodes that are taken away"
            fix = Fix(f"give it {NOTICE_S} s", (setting(template.spec, str(grace.key), NOTICE_S),))
            yield RuleFinding(grace, says, f"give it at least {NOTICE_S} s to write a checkpoint", fix)
        if manifest.kind not in _SERVING and not _keeps(template):
            says = "runs on nodes that are taken away, and has no volume that outlives it"
            yield RuleFinding(template.spec, says, "mount one for checkpoints, and write them often")


def _chooses_spot(template: PodTemplate) -> bool:
    return any(
        _SPOT.get(one.requirement.key) in one.requirement.values
        for term in template.node_terms
        for one in term
        if one.requirement.key in _SPOT
    )


def _keeps(template: PodTemplate) -> bool:
    return any(volume.field.at(kind).exists for volume in template.volumes for kind in _KEPT)


RULE = Rule("GPU034", "Spot nodes without checkpoint or notice", Severity.WARNING, check, fixes=True)
