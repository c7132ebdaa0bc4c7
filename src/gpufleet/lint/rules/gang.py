"""GPU023: pods that only work together are not placed together."""

import re
from collections.abc import Iterator

from gpufleet.kube import keys
from gpufleet.kube.meanings.group_names import GROUP_NAMES
from gpufleet.lint.objects.containers import Container
from gpufleet.lint.objects.context import Context
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.objects.pods import PodTemplate
from gpufleet.lint.rule import Rule, RuleFinding, Severity

# Kinds whose pods compute together: one alone waits for the others and holds its GPUs.
_TRAINING = frozenset({"PyTorchJob", "TFJob", "MPIJob", "XGBoostJob", "PaddleJob", "JAXJob", "JobSet"})
# Any of these hands the pods to a scheduler that starts them together.
_MARKS = (
    *keys.QUEUE_KEYS,
    *(key for way in GROUP_NAMES if way.parts for key in way.keys),
    keys.GANG_MIN_MEMBERS,
)
_GANG_SCHEDULERS = frozenset({"volcano", "kai-scheduler", "gpufleet"})
"""Schedulers that see by the owner that pods of a training job belong together."""
_DEFAULT_SCHEDULERS = frozenset({None, "", "default-scheduler"})
_OTHER_MARKS = re.compile(r"gang|pod-?group|task-?group|queue", re.IGNORECASE)
"""Keys of labels and annotations by which other systems may place pods together."""
_ONLY_WAITS = re.compile(r"\b(sleep|tail -f|nvidia-smi|rocm-smi)\b")
_COMPUTES = re.compile(r"python|torch|mpirun|mpiexec|horovod|deepspeed|accelerate|\.(py|sh)\b")
_PEERS = re.compile(r"[\w)}]-0(-0)?\.[\w$({]")
"""A host name of the first pod of several, as JobSet and StatefulSets make them."""
_GATES = "gke.io/topology-aware-auto-"
"""What gates of GKE's scheduler for topology begin with, which opens those of a whole job at once."""
_OPERATORS_GANG = re.compile(r"--gang-scheduler-name[= ](?!none\b)\S")
"""By this the training operator makes a gang of each job, whatever the job says."""
_OPERATED = frozenset({"PyTorchJob", "TFJob", "MPIJob", "XGBoostJob", "PaddleJob", "JAXJob"})
_HERE = r"(?!localhost\b|127\.|\[?::1)"
"""What follows names no place of the pod's own."""
_MEET = re.compile(
    # One node, or from one on, waits for no other pod.
    r"--?(nnodes|num[-_](machines|nodes))[= ]+(?!1\b)\S|--?(node|machine)[-_]rank"
    r"|--?(rdzv[-_]endpoint|dist[-_]init[-_]addr|master[-_]addr|coordinator[-_]address|main[-_]process[-_]ip)"
    rf"[= ]+{_HERE}\S"
    r"|--?hostfile|\b(mpirun|mpiexec|horovodrun)\b.*\s-H\b|jax\.distributed|ray start"
)
"""What a command says whose processes wait for those of other pods; launchers alone run in one pod."""
_ALONE = re.compile(r"--standalone\b")
"""torchrun then starts on this node alone, whatever else it is told."""
_MEETING_PLACES = re.compile(
    r"MASTER_ADDR|NNODES|NUM_NODES|NODE_RANK|PET_(NNODES|NODE_RANK|MASTER_ADDR|RDZV_ENDPOINT)|TF_CONFIG"
    r"|TPU_WORKER_HOSTNAMES|(JAX_)?COORDINATOR_ADDR(ESS)?|RDZV_(ENDPOINT|HOST)|NCCL_(SOCKET_IFNAME|IB_.*|NET.*)"
    r"|MEGASCALE_.*"
)
"""Variables that tell processes where they meet those of other pods, or over which network."""
_PLACE_OF_ITS_OWN = re.compile(r"localhost(:\d+)?|127\..*|\[?::1\]?(:\d+)?|1")
"""Values of such variables that lead to no other pod: its own address, and one node."""


def _members(manifest: Manifest) -> int:
    return sum(one.replicas or 0 for one in manifest.templates if one.asks_for_gpu)


def _is_distributed(manifest: Manifest) -> bool:
    members = _members(manifest)
    if manifest.kind == "Job" and manifest.group == "batch":
        # Pods of a Job without an index cannot know each other: a queue of work, not a gang.
        return members > 1 and _is_indexed_together(manifest)
    if manifest.kind not in _TRAINING or members < 2 or _least(manifest) == 1:
        return False
    return not all(_only_waits(one) for one in manifest.templates)


def _only_waits(template: PodTemplate) -> bool:
    """Whether every container of its pods sleeps or lists its cards, and computes nothing."""
    lines = [" ".join(one.words) for one in template.containers]
    return bool(lines) and all(_ONLY_WAITS.search(one) and not _COMPUTES.search(one) for one in lines)


def _is_indexed_together(job: Manifest) -> bool:
    """Whether pods of an indexed Job know each other, or each works at its own part of the data."""
    spec = job.root.at("spec")
    if spec.at("completionMode").text != "Indexed" or spec.at("backoffLimitPerIndex").exists:
        return False
    completions, parallelism = spec.at("completions").integer, spec.at("parallelism").integer
    if completions is not None and parallelism is not None and completions > parallelism:
        # Later indexes run when earlier ones have ended.
        return False
    return any(_meets_others(one) for one in job.templates if one.asks_for_gpu)


def _meets_others(template: PodTemplate) -> bool:
    """Whether pods find each other by a subdomain, a variable or an option of their command."""
    if template.spec.at("subdomain").exists:
        return True
    return any(_waits_for_others(container) for container in template.containers)


def _doubt(manifest: Manifest) -> str | None:
    """What is left open: whether its pods wait for each other, or whether something gathers them."""
    schedulers = {one.spec.at("schedulerName").text for one in manifest.templates} - _DEFAULT_SCHEDULERS
    if schedulers:
        return f"the scheduler {schedulers.pop()} may place its pods together"
    places = [manifest.root.at("metadata"), *(one.metadata for one in manifest.templates)]
    keys_of = (
        name for place in places for part in ("labels", "annotations") for name, _ in place.at(part).entries()
    )
    other = next((name for name in keys_of if _OTHER_MARKS.search(name)), None)
    if other is not None:
        return f"what reads {other} may place its pods together"
    if (
        manifest.root.at("spec", "suspend").is_true
        or manifest.root.at("spec", "runPolicy", "suspend").is_true
    ):
        return "it is suspended, and what starts it may place its pods together"
    if manifest.kind == "TFJob" and any(one.role.lower() == "ps" for one in manifest.templates):
        return "workers of parameter servers may start one after the other"
    if manifest.kind == "JobSet" and not any(_is_of_a_world(one) for one in manifest.templates):
        return "nothing in its commands says that its pods wait for each other"
    return None


def _is_of_a_world(template: PodTemplate) -> bool:
    """Whether pods of a JobSet meet, as far as is written: all of them have a subdomain."""
    containers = [one for one in template.containers if one.has_gpu]
    told = [text for one in containers for text in (*one.words, *(each.value or "" for each in one.env))]
    return any(_waits_for_others(one) for one in containers) or any(_PEERS.search(text) for text in told)


def _waits_for_others(container: Container) -> bool:
    words = " ".join(container.words)
    if _MEET.search(words) and not _ALONE.search(words):
        return True
    return any(
        _MEETING_PLACES.fullmatch(variable.name) and not _PLACE_OF_ITS_OWN.fullmatch(variable.value or "")
        for variable in container.env
    )


def _least(manifest: Manifest) -> int | None:
    """With how many workers an elastic job starts; with one, it waits for no other."""
    return manifest.root.at("spec", "elasticPolicy", "minReplicas").integer


def _wait(manifest: Manifest) -> str:
    """What its pods wait for at the start."""
    least = _least(manifest)
    if least is None or least >= _members(manifest):
        return "its pods start only together"
    return f"no fewer than {least} of its pods start"


def _is_gated(template: PodTemplate) -> bool:
    gates = (one.at("name").text or "" for one in template.spec.at("schedulingGates").items())
    return any(one.startswith(_GATES) for one in gates)


def _operator_makes_gangs(manifest: Manifest, context: Context) -> bool:
    """Whether an operator that is read in this run is told to make gangs of all its jobs."""
    if manifest.kind not in _OPERATED:
        return False
    containers = (
        container
        for deployment in context.of_kind("Deployment")
        for template in deployment.templates
        for container in template.containers
    )
    return any(_OPERATORS_GANG.search(" ".join(one.words)) for one in containers)


def check(manifest: Manifest, context: Context) -> Iterator[RuleFinding]:
    """The object, if nothing of it or of its pods names a gang or a queue."""
    places = [manifest.root.at("metadata"), *(one.metadata for one in manifest.templates)]
    marked = any(
        place.at(part, mark).exists
        for place in places
        for part in ("labels", "annotations")
        for mark in _MARKS
    )
    scheduled = any(one.spec.at("schedulerName").text in _GANG_SCHEDULERS for one in manifest.templates)
    native = any(
        one.spec.at(name).exists for one in manifest.templates for name in ("workloadRef", "schedulingGroup")
    )
    scheduled = scheduled or any(_is_gated(one) for one in manifest.templates)
    scheduled = scheduled or _operator_makes_gangs(manifest, context)
    operator = manifest.root.at("spec", "runPolicy", "schedulingPolicy").exists
    if not (marked or scheduled or native or operator):
        doubt = _doubt(manifest)
        says = f"{_wait(manifest)}, and nothing that is read here places them together"
        if doubt is not None:
            says = f"nothing that is known places its pods together; {doubt}"
        advice = f"name a queue ({keys.QUEUE}) or a gang ({keys.GANG}), or a scheduler that places gangs"
        yield RuleFinding(manifest.root.at("spec"), says, advice)


RULE = Rule("GPU023", "Distributed job without a gang", Severity.WARNING, check, concerns=_is_distributed)
