"""What the leader has decided and the API server does not hold yet, put onto the objects that were listed.

A write takes its time, and is tried again while the server takes none. Its outcome is not known
until then, so a comparison shows it as arrived:

- *Bindings* that were begun and of which no answer has come: the pod has its node and its grant;
- *queue statuses*: each FleetQueue says what the leader would write into it now, such as nominations,
  reservations and learned run times;
- *conditions* that are queued or on their way: nodes that are left alone, nodes without a volume for a claim,
  pauses after refused Bindings, what gangs went through;
- *places kept* for pods of no queue, in conditions of these pods.
"""

from collections.abc import Callable, Mapping

import msgspec

from gpufleet.cluster.pods.pod_entry import Intent
from gpufleet.cluster.queues.queue_figures import figures_of
from gpufleet.cluster.watching.mirrors import Cluster, Watched
from gpufleet.kube import resources
from gpufleet.kube.codec.nomination_parts import write_nomination
from gpufleet.kube.codec.queue_status import status_patch
from gpufleet.kube.objects.pod import NOMINATED
from gpufleet.kube.resources import Kind
from gpufleet.scheduler.queue_status_writer import QueueStatusWriter
from gpufleet.scheduler.queue_statuses import QueueStatuses
from gpufleet.scheduler.rounds import Rounds
from gpufleet.simulation.object_patch import merge, strategic_merge
from gpufleet.simulation.refusal import JsonObject
from gpufleet.simulation.simulation_errors import SimulationError

Listed = Mapping[Watched, list[msgspec.Raw]]
"""All objects of each kind, as a list of them has them."""

Change = Callable[[JsonObject], JsonObject]


def with_bindings(listed: Listed, rounds: Rounds, version: str) -> Listed:
    """The pods with a Binding under way as the Binding makes them, at this version."""
    entries = rounds.engine_events.pods.entries
    intents = {str(uid): one.intent for uid, one in entries.items() if one.intent is not None}
    return _changed(listed, resources.PODS, {uid: _binding(one, version) for uid, one in intents.items()})


def with_queue_statuses(listed: Listed, rounds: Rounds) -> Listed:
    """The queues with what the leader would write into their statuses now."""
    cluster = cluster_of(rounds)
    client = rounds.dispatch.conditions.client
    statuses = QueueStatuses(client, cluster, lambda: cluster.unreadable(resources.FLEET_QUEUES))
    writer = QueueStatusWriter(
        client,
        cluster,
        rounds.engine_events.queues,
        lambda: figures_of(rounds.engine),
        statuses.unreadable,
        statuses=statuses,
        busy=lambda: False,
        may_write=lambda: True,
    )
    changes: dict[str, Change] = {}
    for write in writer.differences():
        status = msgspec.json.decode(status_patch(write.status, ""))["status"]
        changes[write.queue.metadata.uid] = _merging({"status": status})
    return _changed(listed, resources.FLEET_QUEUES, changes)


def with_conditions(listed: Listed, rounds: Rounds) -> Listed:
    """The nodes and pods with the conditions that are on their way."""
    changed = listed
    rounds.short_gangs.after_round(at_once=True)
    for target, said in rounds.dispatch.conditions.outstanding().items():
        condition = {"type": target.type, **said._asdict()}
        change = _joining({"status": {"conditions": [condition]}})
        changed = _changed(changed, target.kind, {target.uid: change})
    return changed


def with_nominations(listed: Listed, rounds: Rounds) -> Listed:
    """The pods of no queue with what the leader would say of places kept for them."""
    write_ahead = rounds.dispatch.eviction_planner.write_ahead
    write_ahead.write_pods()
    changes: dict[str, Change] = {}
    for uid, part in write_ahead.pods.outstanding().items():
        condition = {"type": NOMINATED, **write_nomination(part)._asdict()}
        changes[uid] = _joining({"status": {"conditions": [condition]}})
    return _changed(listed, resources.PODS, changes)


def cluster_of(rounds: Rounds) -> Cluster:
    """The mirrors of a live scheduler. Raises SimulationError for one that has none."""
    cluster = rounds.engine_events.cluster
    if not isinstance(cluster, Cluster):
        raise SimulationError("a live scheduler without mirrors")
    return cluster


def _changed(listed: Listed, kind: Kind, changes: Mapping[str, Change]) -> Listed:
    """All objects, those of a kind with these uids changed."""
    if not changes:
        return listed

    def one(raw: msgspec.Raw) -> msgspec.Raw:
        found = msgspec.json.decode(raw)
        change = changes.get(found["metadata"]["uid"])
        return raw if change is None else msgspec.Raw(msgspec.json.encode(change(found)))

    return {
        watched: [one(raw) for raw in raws] if watched.kind == kind else raws
        for watched, raws in listed.items()
    }


def _binding(intent: Intent, version: str) -> Change:
    def change(pod: JsonObject) -> JsonObject:
        # The server would refuse such a Binding, so it is not shown as arrived.
        if pod["spec"].get("nodeName") or "deletionTimestamp" in pod["metadata"]:
            return pod
        metadata = {"annotations": dict(intent.annotations), "resourceVersion": version}
        return strategic_merge(pod, {"metadata": metadata, "spec": {"nodeName": intent.node}})

    return change


def _merging(patch: JsonObject) -> Change:
    return lambda found: JsonObject(merge(found, patch))


def _joining(patch: JsonObject) -> Change:
    return lambda found: strategic_merge(found, patch)
