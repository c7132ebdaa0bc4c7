"""A verdict in plain words: what the pod waits for, which nodes fail why, and the nearest way out.

``verdict`` counts; this module only puts words to the counts. The group that needs the least change
(``hurdles``) comes first, then the larger before the smaller, so that the sentence a person reads
first is the one that matters: that a hundred nodes have no GPU is not why a pod waits for one.
"""

from collections.abc import Callable

from gpufleet.engine.instruction import GangUnknown, GangUnschedulable, ModelsTried, Verdict
from gpufleet.engine.tell.queue_words import bar_words, shortage_words
from gpufleet.engine.tell.reservation_words import reservation_words
from gpufleet.model.device import WHOLE_GPU_MILLI
from gpufleet.model.resources import MEBIBYTE
from gpufleet.model.shape import GpuRequest, Shape, Within

WORDS = {
    "cordoned": "cordoned (unschedulable)",
    "taint": "tainted, and the pod does not tolerate it",
    "selector": "not selected by the pod's node selector or affinity",
    "volume-affinity": "where the pod's volumes cannot be used",
    "feature": "without a feature that the pod needs",
    "gpu-unreported": "without a readable report of their GPUs (NodeDevices)",
    "no-gpu": "without GPUs",
    "gpu-model": "without the GPU model asked for",
    "gpu-sharing": "whose GPUs do not serve this kind of request",
    "gpu-sick": "with too few healthy GPUs",
    "gpu-count": "with fewer GPUs than asked for",
    "gpu-busy": "with their GPUs in use",
    "gpu-fragmented": "with enough free GPU in sum, but in pieces too small",
    "gpu-memory": "short of GPU memory",
    "cpu": "short of CPU",
    "memory": "short of memory",
    "pods": "at their limit of pods",
    "storage": "short of local storage",
    "other-resource": "short of another resource",
    "domain": "outside of the gang's topology domain",
    "ports": "with a port taken that the pod wants",
    "volume-in-use": "ruled out because another pod uses a claim that is for one pod at a time",
    "volume-limit": "that cannot attach more volumes",
    "volume-unbound": "without a volume for the pod's claim, and where none can be provisioned",
    "spread": "where the pod would break its topology spread",
    "pod-affinity": "away from the pods that the pod must be near",
    "pod-anti-affinity": "near pods that the pod must keep away from",
    "others-anti-affinity": "near pods that keep this pod away",
    "gpu-apart": "without so many GPUs near each other",
}


NEAR = {
    Within.NODE: "",
    Within.NUMA_NODE: " on one NUMA node",
    Within.LINK_GROUP: " on one fast link",
}
"""How near to each other the GPUs must be."""


def cores(milli: int) -> str:
    """Millicores as cores."""
    return f"{milli / 1000:g} cores of CPU"


def gibibytes(amount: int) -> str:
    """Bytes as GiB, or as MiB below one."""
    mebibytes = amount / MEBIBYTE
    return f"{mebibytes / 1024:.4g} GiB" if mebibytes >= 1024 else f"{mebibytes:.4g} MiB"


BARS = {
    "ports": "a port is taken",
    "volume-in-use": "another pod uses the claim",
    "volume-limit": "no more volumes can be attached",
    "spread": "the pods would be spread too unevenly",
    "pod-anti-affinity": "pods run that this one must keep away from",
    "others-anti-affinity": "pods run that keep this one away",
}
"""What other pods have against a pod on the nearest node."""

UNMET = {
    "pod-affinity": "it can run once a pod that it must be near runs where there is room",
    "volume-unbound": "it can run once there is a volume for its claim where there is room",
}
"""What must come, not end, before a pod can run."""

CHANGES = {
    "cordoned": "they were uncordoned",
    "taint": "the pod tolerated their taint",
    "selector": "the pod's node selector or affinity selected them",
    "volume-affinity": "the pod's volumes could be used there",
    "feature": "they had the feature that the pod needs",
    "gpu-unreported": "their agents reported their GPUs again",
    "no-gpu": "they had GPUs",
    "gpu-model": "the pod accepted their model of GPU",
    "gpu-sharing": "their GPUs served this kind of request",
    "gpu-sick": "enough of their GPUs were healthy",
    "gpu-count": "the pod asked for fewer GPUs (several pods can be a gang)",
    "domain": "the gang's topology domain held them",
    "gpu-apart": "the pod took GPUs that are apart, or fewer of them",
}
"""What would have to be changed before a pod can run."""

MAKES_ROOM = frozenset(WORDS) - frozenset(CHANGES) - frozenset(UNMET)
"""Reasons that go when what runs there ends."""

MISSING: dict[str, Callable[[int], str]] = {
    "gpus": lambda count: f"{count} free GPU{'s' if count > 1 else ''}",
    "gpu_shares": lambda count: "a GPU with enough left" if count == 1 else f"{count} GPUs with enough left",
    "cpu_milli": cores,
    "memory_bytes": lambda amount: f"{gibibytes(amount)} of memory",
    "pods": lambda count: f"room for {count} pod{'s' if count > 1 else ''}",
    "ephemeral_storage_bytes": lambda amount: f"{gibibytes(amount)} of local storage",
}


def asked_for(shape: Shape) -> str:
    """What a pod of the shape needs, in a few words."""
    host = [cores(shape.resources.cpu_milli)] if shape.resources.cpu_milli else []
    if shape.resources.memory_bytes:
        host.append(f"{gibibytes(shape.resources.memory_bytes)} of memory")
    if not shape.gpu.count:
        # Beside GPUs these are mostly the slots in which the kubelet counts them.
        host += [f"{amount} of {name}" for name, amount in shape.resources.other]
    return ", ".join([*gpus_asked_for(shape.gpu), *host]) or "nothing"


def gpus_asked_for(gpu: GpuRequest) -> list[str]:
    """The GPU part of what a pod needs."""
    if gpu.count == 0:
        return []
    if gpu.whole:
        words = f"{gpu.count} whole GPU{'s' if gpu.count > 1 else ''}"
    else:
        part = f"{gpu.gpu_milli / WHOLE_GPU_MILLI:g} of" if gpu.gpu_milli else "a share of"
        words = f"{part} {gpu.count} GPU{'s' if gpu.count > 1 else ''}"
    words += NEAR[gpu.within]
    if gpu.memory_mib is not None:
        words += f" with {gpu.memory_mib} MiB"
    if gpu.model_order:
        words += f" ({', else '.join(' or '.join(models) for models in gpu.model_order)})"
    elif gpu.models:
        words += f" ({' or '.join(gpu.models)})"
    return [words]


def explain(verdict: Verdict, shape: Shape) -> str:
    """Why a pod of the shape fits nowhere, in one paragraph."""
    models = [by_models(verdict)] if verdict.models_tried else []
    reserved = reservation_words(verdict)
    said = [f"needs {asked_for(shape)}", *reserved, *by_queue(verdict), by_nodes(verdict), *models]
    return "; ".join(said)


def by_models(verdict: Verdict) -> str:
    """What came of each group of models, in the order in which they were tried."""
    tried = (f"{' or '.join(one.models)} ({model_words(one)})" for one in verdict.models_tried)
    return f"tried in order: {', '.join(tried)}"


def model_words(one: ModelsTried) -> str:
    """Why work did not get these models."""
    if one.quota is not None:
        return shortage_words(one.quota)
    if not one.reasons:
        return "no node has any" if not one.placeable else members_would_fit(one.placeable)
    counts = sorted(one.reasons.items(), key=lambda item: -item[1])
    words = ", ".join(f"{count} {'node' if count == 1 else 'nodes'} {WORDS[name]}" for name, count in counts)
    return words if one.placeable is None else f"{members_would_fit(one.placeable)}: {words}"


def members_would_fit(count: int) -> str:
    """How many members of a gang these models could hold."""
    return f"{count} member{'' if count == 1 else 's'} would fit"


def by_queue(verdict: Verdict) -> list[str]:
    """What the pod's queue has against it, which comes before any node."""
    bar = [] if verdict.bar is None else [bar_words(verdict.bar)]
    return bar if verdict.quota is None else [*bar, shortage_words(verdict.quota)]


def by_nodes(verdict: Verdict) -> str:
    """What the nodes have against it."""
    if verdict.nodes == 0:
        return "there are no nodes"
    groups = ", ".join(f"{count} {WORDS[name]}" for name, count in ranked(verdict))
    with_room = verdict.nodes - sum(verdict.first_reasons.values())
    if with_room and by_queue(verdict):
        rest = f", {groups}" if groups else ""
        return f"of {verdict.nodes} nodes {with_room} with room{rest}"
    return f"of {verdict.nodes} nodes {groups or 'none fails'}; {way_out(verdict)}"


def ranked(verdict: Verdict) -> list[tuple[str, int]]:
    """The first reasons and their counts, those that need the least change before the others."""
    hurdle = () if verdict.hurdle is None else verdict.hurdle.reasons

    def rank(item: tuple[str, int]) -> tuple[bool, int]:
        return (item[0] not in hurdle, -item[1])

    return sorted(verdict.first_reasons.items(), key=rank)


def way_out(verdict: Verdict) -> str:
    """The nearest way out."""
    near = verdict.nearest
    if near is None:
        return change(verdict)
    missing = " and ".join(
        MISSING[name](amount) if name in MISSING else f"{amount} of {name}"
        for name, amount in near.short.items()
    )
    others = f" (and {near.equals - 1} more like it)" if near.equals > 1 else ""
    lacks = [f"which lacks {missing}"] if missing else []
    bars = " and ".join(BARS[name] for name in near.barred_by)
    barred = [f"where {bars}"] if bars else []
    return f"nearest is {near.node}{others}, {' and '.join(lacks + barred)}"


def change(verdict: Verdict) -> str:
    """What would have to change where no amount of room helps."""
    if verdict.hurdle is None:
        return "nothing is in its way"
    reasons, nodes = verdict.hurdle.reasons, verdict.hurdle.nodes
    unmet = next((UNMET[name] for name in reasons if name in UNMET), "")
    changes = " and ".join(CHANGES[name] for name in reasons if name in CHANGES)
    if not changes:
        return unmet
    room = " and had room" if len(reasons) > 1 and any(name in MAKES_ROOM for name in reasons) else ""
    would = f"{nodes} node{'s' if nodes > 1 else ''} would do if {changes}{room}"
    return f"{would}; {unmet}" if unmet else would


def explain_unknown_gang(said: GangUnknown) -> str:
    """Why members of a gang that is not described wait."""
    pods = "pod waits" if said.arrived == 1 else "pods wait"
    return f"nobody has described gang {said.gang}; {said.arrived} {pods} for it to be created"


def explain_gang(said: GangUnschedulable, shape: Shape | None) -> str:
    """Why a gang cannot start; ``shape`` is that of the first member that does not fit."""
    role = f", and it is short of members with the role {said.role}" if said.role else ""
    head = f"gang {said.gang} needs {said.min_members} members at once{role}: "
    if said.verdict is None or shape is None:
        return head + f"{said.arrived} have arrived"
    return head + f"{said.placeable} would fit; the next one {explain(said.verdict, shape)}"
