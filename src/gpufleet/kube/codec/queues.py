"""In which queue a pod's work waits, from the labels and annotations of several projects."""

from collections.abc import Mapping

from gpufleet.kube import keys
from gpufleet.model.errors import InputError
from gpufleet.model.identifiers import DEFAULT_QUEUE, QueueName
from gpufleet.model.label_syntax import is_subdomain


def read_queue(
    labels: Mapping[str, str], annotations: Mapping[str, str], namespace_labels: Mapping[str, str]
) -> QueueName:
    """The first queue that is named: by the pod (our key, Kueue's, KAI's, Volcano's), then by our
    label on its namespace; otherwise the default queue.
    """
    for key in keys.QUEUE_KEYS:
        name = labels.get(key, annotations.get(key))
        if name is not None:
            return _checked(name, f"metadata.labels[{key}]")
    name = namespace_labels.get(keys.QUEUE)
    return DEFAULT_QUEUE if name is None else _checked(name, f"labels[{keys.QUEUE}] of the namespace")


def _checked(name: str, field: str) -> QueueName:
    if not is_subdomain(name):
        raise InputError("not a queue's name", field=field, value=name, expected="a DNS name")
    return QueueName(name)
