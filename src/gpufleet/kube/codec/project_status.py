"""The status of a GpuProject, put on top of the one that is there.

Equal in, equal out, so that nothing is written where nothing is new. What the status says comes from
``operator.projects.project_controller``.
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
    namespaces: tuple[str, ...],
    now: dt.datetime,
    *,
    is_ready: bool,
) -> GpuProjectStatus:
    """The status that is to stand there."""
    told = PolicyCondition(READY, is_ready, reason, message)
    conditions = conditions_on_top(before.conditions, [told], generation, now)
    return GpuProjectStatus(generation, namespaces, conditions)


def project_status_patch(status: GpuProjectStatus, resource_version: str) -> dict[str, object]:
    """The merge patch that makes the status so, of the version that was read and no other."""
    # An empty list is written too: a merge patch keeps what it does not name.
    written = {**msgspec.to_builtins(status), "namespaces": list(status.namespaces)}
    return {"metadata": {"resourceVersion": resource_version}, "status": written}
