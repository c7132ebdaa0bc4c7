"""The status of a GpuProject, put on top of the one that is there.

Equal in, equal out, so that nothing is written where nothing is new. ``operator.projects.keeping`` says what
is to be told.
"""

import datetime as dt

import msgspec

from gpufleet.kube.codec.policy_status import PolicyCondition, conditions_on_top
from gpufleet.kube.objects.gpu_projects import READY, GpuProjectStatus


def project_status(
    before: GpuProjectStatus,
    reason: str,
    message: str,
    generation: int,
    now: dt.datetime,
    *,
    is_ready: bool,
) -> GpuProjectStatus:
    """The status that is to stand there."""
    told = PolicyCondition(READY, is_ready, reason, message)
    return GpuProjectStatus(generation, conditions_on_top(before.conditions, [told], generation, now))


def project_status_patch(status: GpuProjectStatus) -> dict[str, object]:
    """The merge patch that makes the status so."""
    return {"status": msgspec.to_builtins(status)}
