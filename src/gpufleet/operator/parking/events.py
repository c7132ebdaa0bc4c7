"""The Events by which owners hear of parking, on the workload itself and in words that say what to do."""

from gpufleet.model.phrases import counted
from gpufleet.operator.parking.parking_keys import KEEP_UNTIL
from gpufleet.operator.parking.parking_step import ParkingAction, ParkingWrite
from gpufleet.operator.parking.stamp import ParkingCause, ParkingStamp, time_text
from gpufleet.operator.parking.work_pods import JUPYTERHUB_KIND

ACTION = "Parking"
REFUSED = "NotParked"
"""The reason of an Event on work that a rule concerns and that is never parked."""


def sentence_of(write: ParkingWrite) -> str:
    """What a write means for the owner of the workload."""
    key, stamp = write.key, write.stamp
    wake = f"gpufleet wake {key.kind}/{key.name} -n {key.namespace}"
    if stamp is not None and write.action is ParkingAction.WARN:
        return (
            f"Idle since {time_text(stamp.idle_since_us)}: it is parked at {time_text(stamp.park_at_us)} and"
            f" gives {counted(stamp.gpus, 'GPU')} back."
            f" Volumes are kept; memory and files outside of volumes are lost."
            f" Use it, or set the annotation {KEEP_UNTIL} to a time, to keep it."
        )
    if stamp is not None and write.action is ParkingAction.PARK:
        back = "the page of its JupyterHub, which starts it anew" if key.kind == JUPYTERHUB_KIND else wake
        return f"Parked: {_why(stamp, write.reason)}. Volumes are kept. It comes back by: {back}"
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
