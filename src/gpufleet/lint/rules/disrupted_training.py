"""GPU035: Karpenter moves training to fill fewer nodes."""

from collections.abc import Iterator

from gpufleet.kube.keys import DO_NOT_DISRUPT
from gpufleet.lint.edits.edits import Fix, Insert
from gpufleet.lint.objects.context import Context
from gpufleet.lint.objects.manifest import Manifest, has_gpu_pods
from gpufleet.lint.objects.node_pools import brings_gpus, is_pool
from gpufleet.lint.rule import Rule, RuleFinding, Scope, Severity, Unjudged, cluster_needed

# Kinds whose work is lost from the last checkpoint on when a pod is moved.
_TRAINING = frozenset(
    {"Job", "CronJob", "JobSet", "PyTorchJob", "TFJob", "MPIJob", "XGBoostJob", "PaddleJob", "JAXJob"}
)


def _trains(manifest: Manifest) -> bool:
    return manifest.kind in _TRAINING and has_gpu_pods(manifest)


def check(manifest: Manifest, context: Context) -> Iterator[RuleFinding | Unjudged]:
    """Each template without the annotation, where a pool of GPUs is consolidated."""
    cluster = context.cluster
    known = cluster is not None and cluster.knows("NodePool")
    pools = [one for one in (cluster.manifests if cluster else ()) if is_pool(one)]
    pools += filter(is_pool, context.of_kind("NodePool"))
    moving = [one for one in pools if _consolidates(one) and brings_gpus(one) is not False]
    sure = next((one for one in moving if brings_gpus(one)), None)
    for template in manifest.templates:
        if not template.asks_for_gpu or template.annotation(DO_NOT_DISRUPT) == "true":
            continue
        if sure is not None:
            says = f"its pods are moved when the NodePool {sure.name} is consolidated"
            advice = f"annotate its pods with {DO_NOT_DISRUPT}, or consolidate that pool WhenEmpty"
            edit = Insert(template.metadata.at("annotations"), DO_NOT_DISRUPT, "true")
            # A value that is there was chosen.
            fix = (
                None
                if template.annotation(DO_NOT_DISRUPT)
                else Fix(f"annotate with {DO_NOT_DISRUPT}", (edit,))
            )
            yield RuleFinding(template.metadata, says, advice, fix)
        elif moving:
            yield Unjudged(template.metadata, _pools_needed(moving))
        elif not known:
            yield Unjudged(template.metadata, cluster_needed("nodepools"))


def _pools_needed(pools: list[Manifest]) -> str:
    names = " or ".join(f"NodePool {one.name}" for one in pools)
    return f"requirements, taints or limits that tell whether {names} brings GPUs"


def _consolidates(pool: Manifest) -> bool:
    disruption = pool.root.at("spec", "disruption")
    # Karpenter's own policy, where none is written, moves pods.
    policy = disruption.at("consolidationPolicy").text
    return policy != "WhenEmpty" and disruption.at("consolidateAfter").text != "Never"


RULE = Rule(
    "GPU035",
    "Training that consolidation moves",
    Severity.WARNING,
    check,
    Scope.CLUSTER,
    concerns=_trains,
    fixes=True,
)
