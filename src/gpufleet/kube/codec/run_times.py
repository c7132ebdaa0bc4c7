"""How long a pod says that it runs at most.

``gpufleet.io/run-time`` is a promise and is not enforced; with ``spec.activeDeadlineSeconds`` the kubelet
ends the pod then. Where both are said, the shorter counts.
"""

from gpufleet.kube import keys
from gpufleet.kube.codec.durations import MAXIMUM_US, read_duration
from gpufleet.kube.objects.pod import Pod as WirePod
from gpufleet.model.model_errors import InputError

SECOND_US = 1_000_000
"""A pod's deadline counts seconds; all times inside the program are microseconds."""


def read_run_time_us(pod: WirePod) -> int | None:
    """Microseconds, None where the pod says nothing. Raises InputError for what is no length of time."""
    written = pod.metadata.annotations.get(keys.RUN_TIME)
    field = f"metadata.annotations[{keys.RUN_TIME}]"
    said = [] if written is None else [read_duration(written, field)]
    if said and not said[0]:
        raise InputError("no time at all", field=field, value=written, expected="more than 0s")
    deadline_s = pod.spec.active_deadline_seconds
    if deadline_s is not None and deadline_s > 0:
        said.append(min(deadline_s * SECOND_US, MAXIMUM_US))
    return min(said, default=None)
