"""What the scheduler writes about pods for people to read: Events and conditions, as bytes.

``reporting`` says when and how often.
"""

import datetime as dt
from typing import NamedTuple

import msgspec

from gpufleet.kube.codec.times import micro_time, whole_time
from gpufleet.model.identifiers import NodeName
from gpufleet.model.pod_name import PodName
from gpufleet.model.visible import visible_text

NOTE_LENGTH_MAX = 1024
"""The API server refuses longer notes."""


class EventText(NamedTuple):
    """What an Event says. ``kind`` is Normal or Warning, ``action`` what was tried."""

    kind: str
    reason: str
    action: str
    note: str


def event(pod: PodName, said: EventText, instance: str, name: str, moment: dt.datetime) -> bytes:
    """An Event of events.k8s.io/v1 about a pod."""
    regarding = {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": pod.namespace,
        "name": pod.name,
        "uid": pod.uid,
    }
    return _event(regarding, pod.namespace, said, instance, name, moment)


def queue_event(
    queue: str, uid: str, said: EventText, instance: str, name: str, moment: dt.datetime
) -> bytes:
    """An Event of events.k8s.io/v1 about a FleetQueue."""
    regarding = {"apiVersion": "gpufleet.io/v1alpha1", "kind": "FleetQueue", "name": queue, "uid": uid}
    return _event(regarding, "default", said, instance, name, moment)


def _event(
    regarding: dict[str, str],
    namespace: str,
    said: EventText,
    instance: str,
    name: str,
    moment: dt.datetime,
) -> bytes:
    note = visible_text(said.note)
    # Cut, because the server refuses an Event with a longer note as a whole.
    note = note if len(note) <= NOTE_LENGTH_MAX else note[: NOTE_LENGTH_MAX - 3] + "..."
    return msgspec.json.encode(
        {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "eventTime": micro_time(moment),
            "reportingController": "gpufleet",
            "reportingInstance": instance,
            "type": said.kind,
            "reason": said.reason,
            "action": said.action,
            "note": note,
            "regarding": regarding,
        }
    )


class WrittenCondition(NamedTuple):
    """A condition of a pod. ``since`` None keeps the time that is there."""

    type: str
    status: str
    reason: str
    message: str
    since: dt.datetime | None = None


def condition_patch(
    pod: PodName, condition: WrittenCondition, version: str, nominated: NodeName | None = None
) -> bytes:
    """A strategic merge patch that sets one condition of this pod, as long as it is of this version.

    ``nominated`` also says which node is kept for it, "" for none; None leaves that as it is.

    By its version, so that what was true when it was decided is not said of a pod that was bound since.
    """
    written = {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": visible_text(condition.message),
    }
    if condition.since is not None:
        written["lastTransitionTime"] = whole_time(condition.since)
    status: dict[str, object] = {"conditions": [written]}
    if nominated is not None:
        # In a merge patch null takes a field away.
        status["nominatedNodeName"] = nominated or None
    metadata = {"uid": pod.uid, "resourceVersion": version}
    return msgspec.json.encode({"metadata": metadata, "status": status})
