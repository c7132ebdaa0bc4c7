"""A verdict in plain words: what the pod waits for, which nodes fail why, and the nearest way out.

``verdict`` counts; this module only puts words to the counts. The group that needs the least change
(``nearest_nodes``) comes first, then the larger before the smaller, so that the sentence a person reads
first is the one that matters: that a hundred nodes have no GPU is not why a pod waits for one.
"""

from gpufleet.engine.explanations.queue_words import bar_words, shortage_words
from gpufleet.engine.explanations.reservation_words import reservation_words
from gpufleet.engine.instruction import GangUnknown, GangUnschedulable, ModelsTried, NodesLacking, Verdict
from gpufleet.engine.node_reasons import taint
from gpufleet.engine.node_reasons.amount_words import MISSING, NEAR, amount_of, cores, free_gpus, gibibytes
from gpufleet.engine.node_reasons.node_reason import Kind, NodeReason
from gpufleet.engine.node_reasons.table import TABLE
from gpufleet.model.device import WHOLE_GPU_MILLI
from gpufleet.model.gang import gang_title
from gpufleet.model.gpu_unit import GpuUnit
from gpufleet.model.phrases import counted, listed, subject, verb
from gpufleet.model.shape import GpuRequest, Shape

MAKES_ROOM = frozenset({Kind.ROOM, Kind.OTHER_PODS})
"""Reasons that go when pods end."""

CLAIMS_GIVE_BACK = "resource claims of pods that have ended give back their devices"
"""What a pod waits for whose place waits for no pod any more."""


def asked_for(shape: Shape) -> str:
    """What a pod of the shape needs, in a few words."""
    host = [cores(shape.resources.cpu_milli)] if shape.resources.cpu_milli else []
    if shape.resources.memory_bytes:
        host.append(f"{gibibytes(shape.resources.memory_bytes)} of memory")
    if not shape.gpu.count or shape.gpu_resource:
        # Beside shares of GPUs these are mostly the slots in which the kubelet counts them.
        host += [amount_of(name, amount) for name, amount in shape.resources.other]
    return ", ".join([*gpus_asked_for(shape.gpu), *host]) or "nothing"


def gpus_asked_for(gpu: GpuRequest) -> list[str]:
    """The GPU part of what a pod needs."""
    if gpu.count == 0:
        return []
    if gpu.whole:
        words = counted(gpu.count, "whole GPU")
    else:
        part = f"{gpu.gpu_milli / WHOLE_GPU_MILLI:g} of" if gpu.gpu_milli else "a share of"
        words = f"{part} {counted(gpu.count, 'GPU')}"
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
    groups = (f"{counted(count, 'node')} {TABLE.by_name[name].words}" for name, count in counts)
    words = ", ".join(groups)
    return words if one.placeable is None else f"{members_would_fit(one.placeable)}: {words}"


def members_would_fit(count: int) -> str:
    """How many members of a gang these models could hold."""
    return f"{counted(count, 'member')} would fit"


def by_queue(verdict: Verdict) -> list[str]:
    """What the pod's queue has against it, which comes before any node."""
    bar = [] if verdict.bar is None else [bar_words(verdict.bar)]
    return bar if verdict.quota is None else [*bar, shortage_words(verdict.quota)]


def by_nodes(verdict: Verdict) -> str:
    """What the nodes have against it."""
    if verdict.nodes == 0:
        return "there are no nodes"
    groups = ", ".join(f"{count} {words}" for words, count in ranked(verdict))
    with_room = verdict.nodes - sum(verdict.first_reasons.values())
    if with_room and by_queue(verdict):
        rest = f", {groups}" if groups else ""
        return f"of {counted(verdict.nodes, 'node')} {with_room} with room{rest}"
    return f"of {counted(verdict.nodes, 'node')} {groups or 'none fails'}; {way_out(verdict)}"


def ranked(verdict: Verdict) -> list[tuple[str, int]]:
    """Groups of nodes in words, and how many: those that need the least change, then the larger first.

    The former are told with all their reasons, the hardest first, which is the cause; the others are counted
    under their first reason.
    """
    counts = dict(verdict.first_reasons)
    found = []
    if verdict.lacking is not None and len(verdict.lacking.reasons) > 1:
        # These nodes have a group of their own, so that no node is counted twice.
        counts[TABLE.first_told(verdict.lacking.reasons)] -= verdict.lacking.nodes
        unit = verdict.lacking.unit
        words = " and ".join(TABLE.by_name[name].words_of(unit) for name in verdict.lacking.reasons)
        found.append((words, verdict.lacking.nodes))
    lacking = () if verdict.lacking is None else verdict.lacking.reasons
    rest = [(name, count) for name, count in counts.items() if count]
    rest.sort(key=lambda item: (item[0] not in lacking, -item[1]))
    return [*found, *((TABLE.by_name[name].words_of(_unit(verdict, name)), count) for name, count in rest)]


def _unit(verdict: Verdict, reason: str) -> GpuUnit:
    """What the nodes with a reason give out as GPUs, where that is known."""
    lacking = verdict.lacking
    return lacking.unit if lacking is not None and reason in lacking.reasons else GpuUnit.GPU


def way_out(verdict: Verdict) -> str:
    """The nearest way out."""
    near = verdict.nearest
    if near is None:
        return change(verdict)
    missing = " and ".join(_missing(name, amount, near.unit) for name, amount in near.short.items())
    others = f" (and {near.equals - 1} more like it)" if near.equals > 1 else ""
    lacks = [f"which lacks {missing}"] if missing else []
    bars = " and ".join(TABLE.by_name[name].remedy for name in near.barred_by)
    barred = [f"where {bars}"] if bars else []
    return f"nearest is {near.node}{others}, {' and '.join(lacks + barred)}"


def _missing(name: str, amount: int, unit: GpuUnit) -> str:
    """So much of what a node is short of, by the names of ``Nearest.short``."""
    if name == "gpus":
        return free_gpus(amount, unit)
    return MISSING[name](amount) if name in MISSING else amount_of(name, amount)


def change(verdict: Verdict) -> str:
    """What would have to change where no amount of room helps."""
    if verdict.lacking is None:
        return "nothing is in its way"
    reasons, nodes = verdict.lacking.reasons, verdict.lacking.nodes
    found = [TABLE.by_name[name] for name in reasons]
    unmet = next((one.remedy for one in found if one.kind is Kind.UNMET), "")
    changes = " and ".join(_remedy(one, verdict.lacking) for one in found if one.kind is Kind.CHANGE)
    if not changes:
        return unmet
    room = " and had room" if any(one.kind in MAKES_ROOM for one in found) else ""
    would = f"{counted(nodes, 'node')} would do if {changes}{room}"
    return f"{would}; {unmet}" if unmet else would


def _remedy(reason: NodeReason, lacking: NodesLacking) -> str:
    """What would have to be otherwise, with the taints by name."""
    named = reason is taint.REASON and lacking.taints
    return f"{reason.remedy} {listed(lacking.taints)}" if named else reason.remedy_of(lacking.unit)


def explain_unknown_gang(said: GangUnknown) -> str:
    """Why members of a gang that is not described wait."""
    waiting = subject(said.arrived, "pod", "wait")
    return f"{gang_title(said.gang)} is not described; {waiting} for it to be created"


def explain_gang(said: GangUnschedulable, shape: Shape | None) -> str:
    """Why a gang cannot start; ``shape`` is that of the first member that does not fit."""
    role = f", and it is short of members with the role {said.role}" if said.role else ""
    head = f"{gang_title(said.gang)} needs {counted(said.min_members, 'member')} at once{role}: "
    if said.verdict is None or shape is None:
        return f"{head}{said.arrived} {verb(said.arrived, 'have')} arrived"
    return head + f"{said.placeable} would fit; the next one {explain(said.verdict, shape)}"
