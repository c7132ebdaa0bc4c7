"""For how long a pod may run, by its own word: our annotation, or Kueue's label in seconds.

Of both the shorter one counts. A pod that runs longer is evicted by the scheduler
(``engine.preempt.overtime``), unlike with ``activeDeadlineSeconds``, after which the kubelet ends a pod by
itself.
"""

from gpufleet.kube import keys
from gpufleet.kube.codec.counts import read_count
from gpufleet.kube.codec.durations import read_duration
from gpufleet.kube.objects.pod import Pod as WirePod
from gpufleet.model.model_errors import InputError

SECOND_US = 1_000_000
"""Kueue's label counts seconds; all times inside the program are microseconds."""

MOST_S = 2**31 - 1
"""The longest limit is Kueue's: 68 years."""


def read_run_time_max_us(pod: WirePod) -> int | None:
    """Microseconds, None where the pod says nothing. Raises InputError for what is no length of time."""
    ours = pod.metadata.annotations.get(keys.RUN_TIME_MAX)
    kueues = pod.metadata.labels.get(keys.KUEUE_RUN_TIME_MAX)
    said = []
    if ours is not None:
        field = f"metadata.annotations[{keys.RUN_TIME_MAX}]"
        said.append(read_duration(ours, field))
        if not said[0]:
            raise InputError("no time at all", field=field, value=ours, expected="more than 0s")
    if kueues is not None:
        seconds = read_count(kueues, f"metadata.labels[{keys.KUEUE_RUN_TIME_MAX}]", MOST_S)
        said.append(seconds * SECOND_US)
    return min(said, default=None)
