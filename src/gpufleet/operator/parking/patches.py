"""The one write by which a workload gets its next phase: its stamp, its label, and what makes it run or not.

All of it is one merge patch that names the version that was read: a change by another writer in between
refuses the patch, and the next round sees that change.
"""

from typing import Any

from gpufleet.kube.objects.metadata import Metadata
from gpufleet.kube.resources import Kind
from gpufleet.operator.parking.parking_keys import (
    KSERVE_STOP,
    KUBEFLOW_STOPPED,
    PARKED,
    PARKED_VALUE,
    STAMP,
    WAKE,
)
from gpufleet.operator.parking.parking_step import ParkingAction, ParkingWrite
from gpufleet.operator.parking.stamp import ParkingPhase, ParkingStamp, time_text, written_stamp
from gpufleet.operator.parking.workloads import REPLICAS_DEFAULT, WayToPark, way_of

LABELLED = frozenset({ParkingPhase.PARKED, ParkingPhase.WAKING})


def patch_of(write: ParkingWrite, kind: Kind, metadata: Metadata) -> dict[str, Any]:
    """The merge patch of a write on a workload that was read with this metadata."""
    stamp = write.stamp
    # A wish to wake counts once: one from before the parking must not undo it.
    annotations: dict[str, str | None] = {STAMP: None if stamp is None else written_stamp(stamp), WAKE: None}
    is_labelled = stamp is not None and stamp.phase in LABELLED
    patch: dict[str, Any] = {
        "metadata": {
            "uid": metadata.uid,
            "resourceVersion": metadata.resource_version,
            "annotations": annotations,
            "labels": {PARKED: PARKED_VALUE if is_labelled else None},
        }
    }
    if write.action in {ParkingAction.PARK, ParkingAction.WAKE} and stamp is not None:
        runs = write.action is ParkingAction.WAKE
        match way_of(kind):
            case WayToPark.EVICTION:
                raise AssertionError("a server of JupyterHub is evicted, and woken by its hub alone")
            case WayToPark.REPLICAS:
                patch["spec"] = {"replicas": _replicas(stamp) if runs else 0}
            case WayToPark.KUBEFLOW:
                annotations[KUBEFLOW_STOPPED] = None if runs else time_text(stamp.since_us)
            case WayToPark.KSERVE:
                annotations[KSERVE_STOP] = None if runs else PARKED_VALUE
    return patch


def _replicas(stamp: ParkingStamp) -> int:
    return REPLICAS_DEFAULT if stamp.replicas is None else stamp.replicas
