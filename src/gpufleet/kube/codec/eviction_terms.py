"""Whether a pod may have others evicted, whether it may be evicted itself, and when it last saved its work.

Whether a pod may be evicted is said by its PriorityClass and not by the pod: otherwise one word in a pod
would protect it from every eviction. That a pod may be ended at any time is its own word: such a pod gives a
right away.
"""

import logging

from gpufleet.kube import keys
from gpufleet.kube.codec.field_path import of_object
from gpufleet.kube.codec.times import microseconds
from gpufleet.kube.objects.disruption import PriorityClass
from gpufleet.kube.objects.pod import Pod, PodSpec
from gpufleet.model.model_errors import InputError

LOG = logging.getLogger(__name__)
NEVER = "Never"
"""The preemptionPolicy of a pod that may not have others evicted."""


def preempts(spec: PodSpec) -> bool:
    """False for a pod with preemptionPolicy Never; the API server copies that from its PriorityClass."""
    return spec.preemption_policy != NEVER


def is_preemptible(found: PriorityClass) -> bool:
    """False for a class that protects its pods from eviction in favour of other pods.

    Raises ObjectError for any word but "true" and "false".
    """
    written = found.metadata.labels.get(keys.PREEMPTIBLE, "true")
    if written not in {"true", "false"}:
        with of_object("PriorityClass", found.metadata.name):
            field = f"metadata.labels[{keys.PREEMPTIBLE}]"
            raise InputError("not a choice", field=field, value=written, expected="true or false")
    return written == "true"


def is_interruptible(pod: Pod) -> bool:
    """True for a pod that says that it may be ended at any time without loss.

    Raises InputError for any word but "true" and "false".
    """
    written = pod.metadata.annotations.get(keys.INTERRUPTIBLE, "false")
    if written not in {"true", "false"}:
        field = f"metadata.annotations[{keys.INTERRUPTIBLE}]"
        raise InputError("not a choice", field=field, value=written, expected="true or false")
    return written == "true"


def checkpointed_at_us(pod: Pod) -> int | None:
    """When a pod saved its work last, None where it does not say so, or not in words that can be read."""
    written = pod.metadata.annotations.get(keys.CHECKPOINTED_AT)
    if written is None:
        return None
    try:
        return microseconds(written)
    except InputError as problem:
        story = {"pod": pod.metadata.path, "problem": str(problem)}
        LOG.warning("when a pod saved its work cannot be read; it counts from its start", extra=story)
        return None
