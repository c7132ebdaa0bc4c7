"""All work that a rule concerns or that has a stamp, at one moment: objects, pods, and what was measured.

Nothing is kept between two observations but what the API server and Prometheus keep. Pods are listed only in
namespaces where there is such work. ``parking_step`` decides from an observation, and
``parking_controller`` takes one every minute.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from gpufleet.daemon.daemon_thread import in_daemon_thread
from gpufleet.kube.client import Client
from gpufleet.kube.listing import Selection
from gpufleet.kube.objects.metadata import Metadata, PartialObject
from gpufleet.kube.resources import INFERENCE_SERVICES, NAMESPACES, PODS, Kind
from gpufleet.kube.status import NotFound
from gpufleet.model.gpu_project import MINUTE_US
from gpufleet.model.model_errors import InputError, WorldError
from gpufleet.model.phrases import counted
from gpufleet.operator.parking.activity import Activity, MeasuredPod, Steps, judge
from gpufleet.operator.parking.hub_sessions import HubServer, SessionSource, judged_with, server_of
from gpufleet.operator.parking.measuring import measure
from gpufleet.operator.parking.parking_keys import PARK_AFTER
from gpufleet.operator.parking.parking_step import SeenWorkload, WorkloadKey
from gpufleet.operator.parking.stamp import ParkingPhase
from gpufleet.operator.parking.work_pods import (
    JUPYTERHUB_KIND,
    JUPYTERHUB_LABEL,
    WorkPod,
    by_workload,
    refusal_of,
)
from gpufleet.operator.parking.workloads import (
    SERVERS,
    UNINSTALLED,
    WAYS,
    Workload,
    has_rule,
    is_made_by_another,
    is_stopped,
    seen_workload,
    sessions_of,
    unit_of_pod,
)
from gpufleet.usage.prometheus.client import Source
from gpufleet.usage.prometheus.labels import PodName

LOG = logging.getLogger(__name__)
US_PER_S = 10**6
STEP_LEAST_S = 60
STEPS_MAX = 120
"""How finely a long time is looked at: 24 hours in steps of 12 minutes, each by its highest value."""

ENDS_WITHIN_US = 15 * MINUTE_US
"""Pods of parked work have ended by then: a model server that answers its last requests takes minutes."""

RECENT_STEPS = 3
"""The minutes that are looked at first; without a sample in them a pod is not known now."""

_WORKLOAD = msgspec.json.Decoder(Workload)
_POD = msgspec.json.Decoder(WorkPod)
_PARTIAL = msgspec.json.Decoder(PartialObject)


class FoundWorkload(msgspec.Struct):
    """A workload and its pods that have not ended."""

    kind: Kind
    workload: Workload
    seen: SeenWorkload
    pods: list[WorkPod]


class Observation(msgspec.Struct):
    """All that was found, by key, and what cannot be read or parked, each with the reason."""

    found: dict[WorkloadKey, FoundWorkload] = {}
    problems: list[tuple[Kind, Metadata, str]] = []
    namespaces: dict[str, Mapping[str, str]] = {}
    """The annotations of every namespace."""

    @property
    def seen(self) -> Iterable[SeenWorkload]:
        """What the step decides from."""
        return (one.seen for one in self.found.values())


async def observe(
    client: Client,
    source: Source | None,
    now_us: int,
    *,
    hub: SessionSource | None = None,
    namespace: str = "",
) -> Observation:
    """Everything as it is now; without a source of measurements nothing is known to be idle.

    ``hub`` knows of sessions in servers of one namespace; where it does not answer these are not idle.

    Raises KubeError, and WorldError if the source fails.
    """
    found = await observe_objects(client, namespace=namespace)
    await _add_pods(client, found, namespace)
    add_unended(found, now_us)
    if source is not None:
        await _judge_all(found, source, now_us)
        if hub is not None:
            await _ask_hub(found, hub, now_us)
    return found


async def observe_objects(client: Client, *, namespace: str = "") -> Observation:
    """The workloads that a rule concerns or that have a stamp, without their pods."""
    found = Observation(namespaces=await _namespace_annotations(client))
    for kind in (*WAYS, SERVERS):
        for workload in await list_workloads(client, kind, namespace):
            # Its maker would undo what is changed on it, so only the maker can be parked.
            if is_made_by_another(workload) or (kind is SERVERS and is_stopped(kind, workload)):
                continue
            inherited = found.namespaces.get(workload.metadata.namespace, {})
            try:
                seen = seen_workload(kind, workload, inherited)
            except InputError as error:
                found.problems.append((kind, workload.metadata, str(error)))
                continue
            if seen.stamp is not None or has_rule(kind, workload, inherited):
                found.found[seen.key] = FoundWorkload(kind, workload, seen, [])
                if seen.problem:
                    found.problems.append((kind, workload.metadata, seen.problem))
    return found


async def list_workloads(client: Client, kind: Kind, namespace: str = "") -> list[Workload]:
    """All workloads of a kind; none where its project is not installed. Raises KubeError."""
    selection = Selection(labels=JUPYTERHUB_LABEL) if kind is SERVERS else Selection()
    try:
        return [
            _WORKLOAD.decode(raw)
            async for page in client.list_pages(kind, namespace=namespace, selection=selection)
            for raw in page.items or ()
        ]
    except NotFound:
        if kind in UNINSTALLED:
            return []
        raise


async def pods_in(client: Client, namespace: str) -> list[WorkPod]:
    """The pods of a namespace. Raises KubeError."""
    pages = client.list_pages(PODS, namespace=namespace)
    return [_POD.decode(raw) async for page in pages for raw in page.items or ()]


async def _namespace_annotations(client: Client) -> dict[str, Mapping[str, str]]:
    pages = client.list_pages(NAMESPACES)
    found = [_PARTIAL.decode(raw) async for page in pages for raw in page.items or ()]
    return {one.metadata.name: one.metadata.annotations for one in found}


async def _add_pods(client: Client, found: Observation, namespace: str) -> None:
    ruled = {name for name, annotations in found.namespaces.items() if PARK_AFTER in annotations}
    chosen = ruled & {namespace} if namespace else ruled
    for name in sorted({key.namespace for key in found.found} | chosen):
        add_pods(found, by_workload(await pods_in(client, name)), is_ruled=name in ruled)


def add_pods(
    found: Observation, pods: Mapping[WorkloadKey, Sequence[WorkPod]], *, is_ruled: bool = False
) -> None:
    """What the pods of one namespace say of its workloads; ``is_ruled``: the namespace has a rule."""
    for key, own in pods.items():
        one = found.found.get(key)
        if one is not None:
            one.pods = list(own)
            gpus = sum(pod.gpus for pod in own) or _gpus_before(one.seen)
            one.seen = msgspec.structs.replace(one.seen, gpus=gpus, is_ready=_are_ready(one.seen, own))
            continue
        _refuse_gangs_of(found, key, own)
        for pod in own:
            said = PARK_AFTER in pod.metadata.annotations or (is_ruled and key.kind == JUPYTERHUB_KIND)
            if pod.gpus and said:
                found.problems.append((PODS, pod.metadata, f"{key}: {refusal_of(key.kind)}"))


def add_unended(found: Observation, now_us: int) -> None:
    """Parked work whose pods run on gives no GPU back: its controller does not know what it was asked for."""
    for one in found.found.values():
        stamp = one.seen.stamp
        if stamp is None or stamp.phase is not ParkingPhase.PARKED or not one.pods:
            continue
        if one.seen.is_stopped and now_us - stamp.since_us > ENDS_WITHIN_US:
            older = ", as KServe before 0.15" if one.kind is INFERENCE_SERVICES else ""
            problem = (
                f"{counted(len(one.pods), 'pod')} of it did not end: its controller does not act on it{older}"
            )
            found.problems.append((one.kind, one.workload.metadata, problem))


def _refuse_gangs_of(found: Observation, key: WorkloadKey, pods: Sequence[WorkPod]) -> None:
    """A gang with a member that stays is not parked at all."""
    for pod in pods:
        unit = unit_of_pod(pod.metadata.namespace, pod.metadata.labels, pod.metadata.annotations)
        problem = f"its gang has pods of {key}, and {refusal_of(key.kind)}"
        for one in found.found.values():
            if unit and one.seen.unit == unit and not one.seen.problem:
                one.seen = msgspec.structs.replace(one.seen, problem=problem)
                found.problems.append((one.kind, one.workload.metadata, problem))


def _gpus_before(seen: SeenWorkload) -> int:
    return 0 if seen.stamp is None else seen.stamp.gpus


def _are_ready(seen: SeenWorkload, pods: Sequence[WorkPod]) -> bool:
    wanted = 1 if seen.replicas is None else seen.replicas
    return sum(pod.is_ready for pod in pods) >= max(wanted, 1)


async def _judge_all(found: Observation, source: Source, now_us: int) -> None:
    """Judge what runs and holds GPUs: first by the last minutes, then what was quiet by its whole time."""
    asked = [one for one in found.found.values() if is_to_judge(one.seen)]
    recent = Steps(now_us // US_PER_S, STEP_LEAST_S, RECENT_STEPS)
    await _judge(asked, source, recent, now_us)
    quiet = [one for one in asked if one.seen.judgement.activity in {Activity.QUIET, Activity.IDLE}]
    by_length: dict[int, list[FoundWorkload]] = {}
    for one in quiet:
        by_length.setdefault(_after_us(one), []).append(one)
    for after_us, those in by_length.items():
        await _judge(those, source, steps_of(after_us, now_us), now_us)


async def _ask_hub(found: Observation, hub: SessionSource, now_us: int) -> None:
    """What measurements call quiet is asked of the hub: a person may read, or think, in an open notebook."""
    asked = [
        one
        for one in found.found.values()
        if one.kind is SERVERS
        and one.workload.metadata.namespace == hub.namespace
        and one.seen.judgement.activity in {Activity.QUIET, Activity.IDLE}
    ]
    if not asked:
        return
    seen: Mapping[HubServer, int] = {}
    try:
        seen = await in_daemon_thread(hub.last_seen)
    except (WorldError, InputError) as error:
        LOG.warning("sessions are not known", extra={"problem": str(error)})
    for one in asked:
        last_us = seen.get(server_of(one.workload.metadata), 0)
        judgement = judged_with(one.seen.judgement, last_us, _after_us(one), now_us)
        one.seen = msgspec.structs.replace(one.seen, judgement=judgement)


def steps_of(after_us: int, now_us: int) -> Steps:
    """The steps in which a time of idleness is looked at, and a little more than that time."""
    minutes = -(-after_us // MINUTE_US)
    step_s = STEP_LEAST_S * max(1, -(-minutes // STEPS_MAX))
    return Steps(now_us // US_PER_S, step_s, -(-after_us // (step_s * US_PER_S)) + 1)


def is_to_judge(seen: SeenWorkload) -> bool:
    """Whether work runs, holds GPUs and has a rule by which it can be parked."""
    return seen.rule is not None and not seen.problem and not seen.is_stopped and seen.gpus > 0


def _after_us(one: FoundWorkload) -> int:
    return 0 if one.seen.rule is None else one.seen.rule.after_us


async def _judge(those: Sequence[FoundWorkload], source: Source, steps: Steps, now_us: int) -> None:
    pods = {_name(pod): pod.started_us for one in those for pod in one.pods if pod.gpus}
    if not pods:
        return
    # A query blocks its thread, and the loop has to renew the Lease meanwhile.
    measured = await in_daemon_thread(lambda: measure(source, pods, steps))
    for one in those:
        own = [measured.get(_name(pod), _unmeasured(pod)) for pod in one.pods if pod.gpus]
        judgement = judge(own, sessions_of(one.workload), steps, _after_us(one), now_us)
        one.seen = msgspec.structs.replace(one.seen, judgement=judgement)


def _unmeasured(pod: WorkPod) -> MeasuredPod:
    return MeasuredPod(pod.metadata.name, pod.started_us, {})


def _name(pod: WorkPod) -> PodName:
    return PodName(pod.metadata.namespace, pod.metadata.name)
