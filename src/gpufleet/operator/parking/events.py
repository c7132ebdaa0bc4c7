"""The Events by which owners hear of parking, on the workload itself and in words that say what to do."""

import datetime as dt
import secrets
from typing import Any

from gpufleet.kube.codec.times import micro_time
from gpufleet.kube.objects.metadata import Metadata
from gpufleet.kube.resources import EVENTS, Kind
from gpufleet.operator.parking.parking_keys import KEEP_UNTIL
from gpufleet.operator.parking.parking_step import ParkingAction, ParkingWrite
from gpufleet.operator.parking.stamp import ParkingCause, ParkingStamp, time_text

CONTROLLER = "gpufleet.io/operator"
NOTE_CHARACTERS_MAX = 1000
"""The API takes 1,024 bytes."""

REFUSED = "NotParked"
"""The reason of an Event on work that a rule concerns and that is never parked."""


def sentence_of(write: ParkingWrite) -> str:
    """What a write means for the owner of the workload."""
    key, stamp = write.key, write.stamp
    wake = f"gpufleet wake {key.kind}/{key.name} -n {key.namespace}"
    if stamp is not None and write.action is ParkingAction.WARN:
        return (
            f"Idle since {time_text(stamp.idle_since_us)}: it is parked at {time_text(stamp.park_at_us)} and"
            f" gives {stamp.gpus} GPUs back. Volumes are kept; memory and files outside of volumes are lost."
            f" Use it, or set the annotation {KEEP_UNTIL} to a time, to keep it."
        )
    if stamp is not None and write.action is ParkingAction.PARK:
        return f"Parked: {_why(stamp, write.reason)}. Volumes are kept. It comes back by: {wake}"
    return {
        ParkingAction.CALM: f"It is not parked: {write.reason}.",
        ParkingAction.WAKE: "It comes back, and waits in its queue for GPUs.",
        ParkingAction.RETURN: "It is back: all of its pods run.",
        ParkingAction.RELEASE: f"It is not parked any more: {write.reason}.",
    }[write.action]


def _why(stamp: ParkingStamp, reason: str) -> str:
    if stamp.cause is ParkingCause.ASKED:
        return "it was asked for"
    return reason or f"idle since {time_text(stamp.idle_since_us)}"


def event_of(
    kind: Kind, metadata: Metadata, reason: str, note: str, now: dt.datetime, *, warns: bool
) -> dict[str, Any]:
    """An Event on a workload."""
    return {
        "apiVersion": EVENTS.api_version,
        "kind": EVENTS.name,
        "metadata": {
            "name": f"{metadata.name[:200]}.{secrets.token_hex(8)}",
            "namespace": metadata.namespace,
        },
        "eventTime": micro_time(now.astimezone(dt.UTC)),
        "reportingController": CONTROLLER,
        "reportingInstance": CONTROLLER,
        "action": "Parking",
        "reason": reason,
        "type": "Warning" if warns else "Normal",
        "note": note[:NOTE_CHARACTERS_MAX],
        "regarding": {
            "apiVersion": kind.api_version,
            "kind": kind.name,
            "namespace": metadata.namespace,
            "name": metadata.name,
            "uid": metadata.uid,
        },
    }
