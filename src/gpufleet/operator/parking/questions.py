"""Parking by hand: one workload is parked or woken, with its gang, and all that is parked is told.

The rights are those of the person who asks, and the operator need not run. A name may be ``KIND/NAME``;
without a kind the one workload of that name is meant. ``cli`` lays the answers out.
"""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from gpufleet.kube.client import Client
from gpufleet.kube.connection import ClusterChoice, connect
from gpufleet.kube.keys import MANAGED
from gpufleet.kube.objects.metadata import PartialObject
from gpufleet.kube.resources import (
    DEPLOYMENTS,
    INFERENCE_SERVICES,
    NAMESPACES,
    NOTEBOOKS,
    STATEFUL_SETS,
    Kind,
)
from gpufleet.kube.status import Forbidden
from gpufleet.model.model_errors import InputError
from gpufleet.operator.parking.observation import list_workloads, pods_in
from gpufleet.operator.parking.parking_step import (
    ParkingAction,
    ParkingWrite,
    SeenWorkload,
    WorkloadKey,
    parked_stamp,
    woken,
)
from gpufleet.operator.parking.patches import patch_of
from gpufleet.operator.parking.stamp import ParkingCause, ParkingPhase, ParkingStamp, time_text
from gpufleet.operator.parking.work_pods import WorkPod, by_workload, refusal_of
from gpufleet.operator.parking.workloads import (
    WAYS,
    Workload,
    is_made_by_another,
    key_of,
    seen_workload,
    unit_of_pod,
)

SCHEMA = "gpufleet.io/parked/v1"
"""A change that breaks readers of the JSON gets another version."""

US_PER_S = 10**6
EXPECTED = "NAME or KIND/NAME of a Deployment, StatefulSet, Notebook or InferenceService"
KINDS_BY_WORD: dict[str, Kind] = {
    **dict.fromkeys(("deployment", "deployments", "deploy"), DEPLOYMENTS),
    **dict.fromkeys(("statefulset", "statefulsets", "sts"), STATEFUL_SETS),
    **dict.fromkeys(("notebook", "notebooks"), NOTEBOOKS),
    **dict.fromkeys(("inferenceservice", "inferenceservices", "isvc"), INFERENCE_SERVICES),
}
OTHER_KINDS = {
    "job": "Job",
    "pod": "Pod",
    "daemonset": "DaemonSet",
    "ds": "DaemonSet",
    "replicaset": "ReplicaSet",
}
DEFAULT_SCHEDULER = "default-scheduler"
"""What the API server writes where a template names no scheduler."""

WOKEN_SUFFIX = "-woken"
"""Tells the copy of a workload that is asked about from the workload itself, which is there."""


class ParkedWorkload(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One workload as it is told; times as the API writes them, "" for none."""

    kind: str
    namespace: str
    name: str
    phase: str
    since: str
    park_at: str = ""
    idle_since: str = ""
    replicas: int | None = None
    gpus: int = 0
    cause: str = ""


class ParkedWork(msgspec.Struct, frozen=True, rename="camel"):
    """All that is warned, parked or waking; ``notes`` say what could not be read."""

    schema: str
    work: tuple[ParkedWorkload, ...]
    notes: tuple[str, ...] = ()


class Named(msgspec.Struct, frozen=True):
    """A workload that is meant, with all that it is parked and woken with; the first is the one named."""

    members: tuple["Member", ...]
    namespace: str


class Member(msgspec.Struct, frozen=True):
    """A workload of a unit."""

    kind: Kind
    workload: Workload
    seen: SeenWorkload


def park(cluster: ClusterChoice, name: str) -> tuple[ParkedWorkload, ...]:
    """Park a workload with its gang. Raises InputError where it cannot be parked."""
    _read_name(name)
    return asyncio.run(_park(cluster, name))


def wake(cluster: ClusterChoice, name: str) -> tuple[ParkedWorkload, ...]:
    """Wake a workload with its gang. Raises InputError where it is not parked."""
    _read_name(name)
    return asyncio.run(_wake(cluster, name))


def manifests_to_wake(cluster: ClusterChoice, name: str) -> tuple[bytes, str]:
    """The work that would come back, as a file of objects that a what-if can be asked about, and its
    namespace; b"" where its kind keeps its pods to itself.
    """
    _read_name(name)
    return asyncio.run(_manifests(cluster, name))


def parked_work(cluster: ClusterChoice, *, everywhere: bool) -> ParkedWork:
    """All that has a stamp, in the namespace that is meant or everywhere."""
    return asyncio.run(_parked_work(cluster, everywhere=everywhere))


async def _park(cluster: ClusterChoice, name: str) -> tuple[ParkedWorkload, ...]:
    async with connect(cluster) as connection:
        named = await _named(connection.client, name, connection.namespace)
        _check_parkable(named)
        pods = by_workload(await pods_in(connection.client, named.namespace))
        _check_whole(named, pods, name)
        now_us = _now_us()
        told = []
        for one in named.members:
            # A stamp would have it woken with the others, although it was stopped before.
            if one.seen.is_stopped:
                continue
            gpus = sum(pod.gpus for pod in pods.get(one.seen.key, ()))
            seen = msgspec.structs.replace(one.seen, gpus=gpus)
            stamp = parked_stamp(seen, now_us, ParkingCause.ASKED)
            await _write(connection.client, one, ParkingAction.PARK, stamp)
            told.append(_parked_workload(one.seen.key, stamp))
        return tuple(told)


def _check_whole(named: Named, pods: Mapping[WorkloadKey, Sequence[WorkPod]], name: str) -> None:
    """Raises InputError where the gang has pods that stay."""
    unit, members = named.members[0].seen.unit, {one.seen.key for one in named.members}
    for key, own in pods.items():
        units = {
            unit_of_pod(one.metadata.namespace, one.metadata.labels, one.metadata.annotations) for one in own
        }
        if unit in units and key not in members:
            problem = f"its gang has pods of {key}, and {refusal_of(key.kind)}"
            raise InputError(problem, value=name, expected="a gang of which all can be parked")


async def _wake(cluster: ClusterChoice, name: str) -> tuple[ParkedWorkload, ...]:
    async with connect(cluster) as connection:
        named = await _named(connection.client, name, connection.namespace)
        told = []
        for one in _parked_members(named, name):
            stamp = woken(one.seen, _now_us())
            await _write(connection.client, one, ParkingAction.WAKE, stamp)
            told.append(_parked_workload(one.seen.key, stamp))
        return tuple(told)


async def _write(client: Client, one: Member, action: ParkingAction, stamp: ParkingStamp) -> None:
    metadata = one.workload.metadata
    patch = patch_of(ParkingWrite(action, one.seen.key, stamp), one.kind, metadata)
    await client.patch(one.kind, metadata.name, patch, namespace=metadata.namespace)


def _check_parkable(named: Named) -> None:
    for one in named.members:
        if one.seen.problem:
            raise InputError(one.seen.problem, where=str(one.seen.key), expected="work that loses no data")
    first = named.members[0].seen
    if first.is_stopped:
        stamped = first.phase is ParkingPhase.PARKED
        problem = "it is parked already" if stamped else "it asks for no pod, so there is nothing to park"
        raise InputError(problem, where=str(first.key), expected="work that runs")


def _parked_members(named: Named, name: str) -> list[Member]:
    found = [one for one in named.members if one.seen.phase is ParkingPhase.PARKED and one.seen.is_stopped]
    if not found:
        first = named.members[0].seen
        expected = "work of `gpufleet parked`"
        raise InputError("it is not parked", where=str(first.key), value=name, expected=expected)
    return found


async def _named(client: Client, name: str, namespace: str) -> Named:
    """The workload that is meant and its gang. Raises InputError where it is none or several."""
    kinds, plain = _read_name(name)
    # All kinds, since members of its gang may be of any.
    listed = {kind: await list_workloads(client, kind, namespace) for kind in WAYS}
    matching = [(kind, one) for kind in kinds for one in listed[kind] if one.metadata.name == plain]
    top_level = [(kind, one) for kind, one in matching if not is_made_by_another(one)]
    if not top_level and matching:
        kind, one = matching[0]
        owner = one.metadata.controller
        above = "" if owner is None else f"{owner.kind} {owner.name}"
        problem = f"{kind.name} {plain} is kept by {above}, which would undo it"
        raise InputError(problem, value=name, expected=f"the name of that {above}")
    if not top_level:
        raise InputError(f"no such work in namespace {namespace}", value=name, expected=EXPECTED)
    if len(top_level) > 1:
        both = ", ".join(f"{kind.name.lower()}/{plain}" for kind, _ in top_level)
        raise InputError("several kinds have this name", value=name, expected=f"one of {both}")
    kind, workload = top_level[0]
    first = Member(kind, workload, seen_workload(kind, workload, {}))
    others = (
        Member(kind, one, seen_workload(kind, one, {}))
        for kind, those in listed.items()
        for one in those
        if not is_made_by_another(one)
    )
    gang = [one for one in others if one.seen.unit == first.seen.unit and one.seen.key != first.seen.key]
    return Named((first, *gang), namespace)


def _read_name(name: str) -> tuple[Sequence[Kind], str]:
    word, slash, plain = name.rpartition("/")
    if not plain or plain in {".", ".."}:
        raise InputError("no name", value=name, expected=EXPECTED)
    if not slash:
        return tuple(WAYS), plain
    # kubectl names kinds with their group, as in ``statefulset.apps/NAME``.
    word = word.lower().partition(".")[0]
    if word in KINDS_BY_WORD:
        return (KINDS_BY_WORD[word],), plain
    # ``ds`` is the short name of a DaemonSet and no plural.
    other = OTHER_KINDS.get(word.removesuffix("s") if word != "ds" else word)
    if other is not None:
        raise InputError(f"a {other} is not parked: {refusal_of(other)}", value=name, expected=EXPECTED)
    raise InputError(f"work of this kind is not parked: {refusal_of(word)}", value=name, expected=EXPECTED)


async def _manifests(cluster: ClusterChoice, name: str) -> tuple[bytes, str]:
    async with connect(cluster) as connection:
        client = connection.client
        named = await _named(client, name, connection.namespace)
        documents = []
        is_completed = await _is_completed(client, named.namespace)
        for one in _parked_members(named, name):
            metadata = one.workload.metadata
            body = await client.get(one.kind, metadata.name, namespace=metadata.namespace)
            copy = _copy(one, msgspec.json.decode(body))
            if copy is None:
                continue
            if is_completed:
                _leave_scheduler_open(copy)
            documents.append(copy)
        # JSON is YAML, and documents stand one after the other.
        return b"\n---\n".join(map(msgspec.json.encode, documents)), named.namespace


async def _is_completed(client: Client, namespace: str) -> bool:
    """Whether admission gives pods of the namespace to our scheduler."""
    try:
        body = await client.get(NAMESPACES, namespace)
    # Many people may not read namespaces; what the template says of a scheduler then counts.
    except Forbidden:
        return False
    return msgspec.json.decode(body, type=PartialObject).metadata.labels.get(MANAGED) == "true"


def _leave_scheduler_open(copy: dict[str, Any]) -> None:
    """Drop the scheduler that the API server wrote into the template where none was named."""
    spec = copy["spec"]["template"]["spec"]
    if spec.get("schedulerName") == DEFAULT_SCHEDULER:
        del spec["schedulerName"]


def _copy(one: Member, body: dict[str, Any]) -> dict[str, Any] | None:
    """A workload with the pods that this one would have; None where its controller makes them up."""
    metadata, stamp = one.workload.metadata, one.seen.stamp
    if one.kind == INFERENCE_SERVICES:
        return None
    replicas = 1 if stamp is None or stamp.replicas is None else stamp.replicas
    spec = body["spec"]
    if one.kind == NOTEBOOKS:
        labels = {**metadata.labels, "notebook-name": metadata.name}
        template = {"metadata": {"labels": labels}, "spec": spec["template"]["spec"]}
        selector = {"matchLabels": {"notebook-name": metadata.name}}
        spec = {"template": template, "selector": selector, "serviceName": metadata.name}
    kind = STATEFUL_SETS if one.kind == NOTEBOOKS else one.kind
    return {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        "metadata": {
            "name": f"{metadata.name[:200]}{WOKEN_SUFFIX}",
            "namespace": metadata.namespace,
            "labels": metadata.labels,
        },
        "spec": {**spec, "replicas": replicas},
    }


async def _parked_work(cluster: ClusterChoice, *, everywhere: bool) -> ParkedWork:
    told, notes = [], []
    async with connect(cluster) as connection:
        namespace = "" if everywhere else connection.namespace
        for kind in WAYS:
            try:
                listed = await list_workloads(connection.client, kind, namespace)
            except Forbidden as error:
                notes.append(f"{kind.plural} may not be listed: {error}")
                continue
            for one in listed:
                try:
                    stamp = seen_workload(kind, one, {}).stamp
                except InputError as error:
                    notes.append(f"{key_of(kind, one)}: {error}")
                    continue
                if stamp is not None:
                    told.append(_parked_workload(key_of(kind, one), stamp))
    told.sort(key=lambda one: (one.namespace, one.phase, one.kind, one.name))
    return ParkedWork(SCHEMA, tuple(told), tuple(notes))


def _parked_workload(key: WorkloadKey, stamp: ParkingStamp) -> ParkedWorkload:
    return ParkedWorkload(
        key.kind,
        key.namespace,
        key.name,
        stamp.phase.value,
        time_text(stamp.since_us),
        time_text(stamp.park_at_us) if stamp.park_at_us else "",
        time_text(stamp.idle_since_us) if stamp.idle_since_us else "",
        stamp.replicas,
        stamp.gpus,
        stamp.cause.value,
    )


def _now_us() -> int:
    return int(datetime.now(UTC).timestamp()) * US_PER_S
