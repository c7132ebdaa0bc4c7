"""Work of a scenario: its pods and, where they belong together, their gang."""

import msgspec

from gpufleet.model.gang import Gang, Slices
from gpufleet.model.gpu_share import GpuShare, parse_fraction_milli, parse_memory_mib
from gpufleet.model.identifiers import (
    DEFAULT_QUEUE,
    GangName,
    GpuModelName,
    NodeName,
    PodUid,
    QueueName,
    TopologyLevelName,
)
from gpufleet.model.pod import Pod
from gpufleet.model.requests import gpu_request
from gpufleet.model.resources import Resources
from gpufleet.model.shape import GpuRequest, Shape, Within
from gpufleet.model.taint import EXISTS, Toleration
from gpufleet.scenario.amounts import microseconds, milli, units
from gpufleet.scenario.fleet import COUNT_MAX, gpus_within_bounds, numbered
from gpufleet.scenario.scenario_errors import ScenarioError
from gpufleet.scenario.text import NeedsText, RoleText, WorkText

NAMESPACE = "scenario"
"""The namespace of work that names none, and of disruption budgets."""
# Words of scenarios, which are those of the annotation gpus-within.
WITHIN = {"node": Within.NODE, "numa-node": Within.NUMA_NODE, "link-group": Within.LINK_GROUP}


class Work(msgspec.Struct, frozen=True):
    """Work with a name: pods, the gang they form if they do, and where they run already."""

    name: str
    pods: tuple[Pod, ...]
    gang: Gang | None = None
    runs_on: tuple[NodeName, ...] = ()
    started_at_us: int = 0
    checkpointed_at_us: int | None = None
    eviction_takes_us: int | None = None
    whole_within_us: int | None = None


def work_of(text: WorkText, now_us: int, field: str) -> Work:
    """The work that an entry describes, told of at this engine time."""
    created_at_us = now_us - microseconds(text.age, f"{field}.age")
    queue = QueueName(text.queue) if text.queue else DEFAULT_QUEUE
    longest_us = None if text.run_time_max is None else microseconds(text.run_time_max, f"{field}.runTimeMax")
    run_time_us = None if text.run_time is None else microseconds(text.run_time, f"{field}.runTime")
    gang = _gang(text, queue, created_at_us, field)
    pods = tuple(
        Pod(
            PodUid(name),
            needs,
            name,
            queue,
            text.priority,
            None if gang is None else gang.name,
            created_at_us,
            text.namespace,
            tuple(sorted(text.labels.items())),
            role,
            preemptible=text.preemptible,
            run_time_max_us=longest_us,
            preempts=text.preempts,
            run_time_us=run_time_us,
            interruptible=text.interruptible,
        )
        for name, role, needs in _pods(text, field)
    )
    saved = text.checkpointed
    return Work(
        text.name,
        pods,
        gang,
        _places(text, len(pods), field),
        now_us - microseconds(text.runs_for, f"{field}.runsFor"),
        None if saved is None else now_us - microseconds(saved, f"{field}.checkpointed"),
        None if text.eviction_takes is None else microseconds(text.eviction_takes, f"{field}.evictionTakes"),
        None if text.whole_within is None else microseconds(text.whole_within, f"{field}.wholeWithin"),
    )


def _gang(text: WorkText, queue: QueueName, created_at_us: int, field: str) -> Gang | None:
    if text.pods is None and not text.roles:
        given = {
            "min": text.min,
            "level": text.level,
            "preferred": text.preferred,
            "slices": text.slices,
            "slicesPreferred": text.slices_preferred,
            "oneModel": text.one_model,
            "wholeWithin": text.whole_within,
        }
        for name in (name for name, value in given.items() if value):
            raise ScenarioError(
                "only a gang has this", field=f"{field}.{name}", expected="pods: or roles: beside it"
            )
        return None
    total = sum(role.pods for role in text.roles) if text.roles else text.pods or 0
    if not 1 <= total <= COUNT_MAX:
        raise ScenarioError("out of range", field=f"{field}.pods", value=total, expected=f"1 to {COUNT_MAX}")
    minimums = tuple((role.name, role.pods if role.min is None else role.min) for role in text.roles)
    # Without a word on it all pods are needed.
    least = sum(minimum for _, minimum in minimums) if text.roles else total
    return Gang(
        GangName(text.name),
        least if text.min is None else text.min,
        queue,
        text.priority,
        _level(text.level),
        created_at_us,
        minimums,
        _level(text.preferred),
        tuple(Slices(TopologyLevelName(level), size) for level, size in text.slices.items()),
        text.slices_preferred,
        text.balanced,
        _one_of(text, field) if text.one_model else (),
    )


def _one_of(text: WorkText, field: str) -> tuple[GpuModelName, ...]:
    """The models of which a gang wants one for all its pods."""
    if not text.model_order:
        raise ScenarioError("one of no models", field=f"{field}.oneModel", expected="modelOrder beside it")
    return tuple(GpuModelName(model) for model in text.model_order)


def _level(name: str | None) -> TopologyLevelName | None:
    return None if name is None else TopologyLevelName(name)


def _pods(text: WorkText, field: str) -> list[tuple[str, str, Shape]]:
    """Name, role and shape of every pod."""
    if text.roles and (text.pods is not None or text.count is not None):
        raise ScenarioError("both roles and a number of pods", field=field, expected="one of them")
    if text.pods is not None and text.count is not None:
        raise ScenarioError("both pods and count", field=field, expected="pods for a gang, or count")
    if text.roles:
        return [
            (f"{text.name}-{role.name}-{number}", role.name, shape_of(role, f"{field}.roles[{place}]"))
            for place, role in enumerate(text.roles)
            for number in range(1, role.pods + 1)
        ]
    needs = shape_of(text, field)
    count = text.count if text.pods is None else text.pods
    return [(name, "", needs) for name in numbered(text.name, count, field)]


def shape_of(text: NeedsText | RoleText | WorkText, field: str) -> Shape:
    """What a pod asks for."""
    resources = Resources(
        milli(text.cpu, f"{field}.cpu"),
        units(text.memory, f"{field}.memory"),
        other=tuple(sorted(text.resources.items())),
    )
    tolerations = tuple(Toleration(key, EXISTS) for key in text.tolerates)
    selector = tuple(sorted(text.selector.items()))
    return Shape(resources, _gpus(text, field), selector, tolerations=tolerations)


def _gpus(text: NeedsText, field: str) -> GpuRequest:
    gpus_within_bounds(text.gpus, field)
    if text.models and text.model_order:
        raise ScenarioError("both models and modelOrder", field=field, expected="one of them")
    # Sorted, as the codec of pods does: the order of preference stands in model_order alone.
    models = tuple(GpuModelName(model) for model in text.models or sorted(text.model_order))
    order = tuple((GpuModelName(model),) for model in text.model_order)
    if text.fraction is None and text.gpu_memory is None:
        whole = gpu_request(text.gpus)
        # One GPU is near itself; the engine is told of no condition that always holds.
        within = WITHIN[text.gpus_within] if text.gpus > 1 else Within.NODE
        whole = msgspec.structs.replace(whole, within=within)
        return msgspec.structs.replace(whole, models=models, model_order=order) if text.gpus else whole
    if text.gpus_within != "node":
        problem, expected = "no whole GPUs are asked for", "gpus alone beside it"
        raise ScenarioError(problem, field=f"{field}.gpusWithin", expected=expected)
    share_milli, memory_mib = 0, None
    if text.fraction is not None:
        share_milli = parse_fraction_milli(str(text.fraction), field=f"{field}.fraction")
    if text.gpu_memory is not None:
        memory_mib = parse_memory_mib(str(text.gpu_memory), field=f"{field}.gpuMemory")
    share = gpu_request(text.gpus or 1, GpuShare(share_milli, memory_mib))
    return msgspec.structs.replace(share, models=models, model_order=order)


def _places(text: WorkText, pods: int, field: str) -> tuple[NodeName, ...]:
    if text.runs_on is None:
        return ()
    names = [text.runs_on] * pods if isinstance(text.runs_on, str) else text.runs_on
    if len(names) != pods:
        raise ScenarioError(
            "not as many nodes as pods",
            field=f"{field}.runsOn",
            value=len(names),
            expected=f"{pods}, or one name",
        )
    return tuple(NodeName(name) for name in names)
