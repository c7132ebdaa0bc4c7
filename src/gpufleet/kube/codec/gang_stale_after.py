"""How long a gang that ran may go on with fewer members than it needs.

Our annotation and KAI's stand on each of its pods, KAI's PodGroup has a field for it. A length of time, or
less than nothing ("-1", "-1s") for any time. ``engine.lifecycle.violations`` keeps to it.
"""

from gpufleet.kube import keys
from gpufleet.kube.codec.durations import read_duration
from gpufleet.kube.objects.pod import Pod
from gpufleet.model.bound_terms import NEVER_STALE
from gpufleet.model.model_errors import InputError

NEVER = frozenset({"-1", "-1s"})
"""Lengths of time that mean: a gang that ran may stay short of members for ever."""

# Ours goes before KAI's.
KEYS = (keys.GANG_STALE_AFTER, keys.KAI_STALE_AFTER)


def read_stale_after(text: str, field: str) -> int:
    """Microseconds, or NEVER_STALE. Raises InputError for what is neither."""
    return NEVER_STALE if text in NEVER else read_duration(text, field)


def stale_after_of(pod: Pod) -> int | None:
    """What the pod itself says; None for nothing. Raises InputError where it says two things."""
    annotations = pod.metadata.annotations
    said = {
        key: read_stale_after(annotations[key], f"metadata.annotations[{key}]")
        for key in KEYS
        if key in annotations
    }
    if len(set(said.values())) > 1:
        raise InputError(
            "two lengths of time", field=" and ".join(said), expected="the same in both, or one of them"
        )
    return next(iter(said.values()), None)
