"""In which queue a pod's work waits, from the labels and annotations of several projects."""

from collections.abc import Mapping

import msgspec

from gpufleet.kube import keys
from gpufleet.kube.meanings.queue_names import named_queue
from gpufleet.model.identifiers import DEFAULT_QUEUE, QueueName
from gpufleet.model.label_syntax import is_subdomain
from gpufleet.model.model_errors import InputError


class NamespaceQueues(msgspec.Struct, frozen=True):
    """What the queues themselves say of a namespace.

    ``mapped`` is where its work waits that names no queue; ``local`` are names of queues that hold in
    this namespace alone, as those of Kueue's LocalQueues do.
    """

    mapped: QueueName | None = None
    local: Mapping[str, QueueName] = {}


NO_QUEUES = NamespaceQueues()
"""A namespace without any queue: shared, because the value cannot change."""


def read_queue(
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    namespace_labels: Mapping[str, str],
    queues: NamespaceQueues = NO_QUEUES,
) -> QueueName:
    """The first queue that is named: by the pod (our key, Kueue's, KAI's, Volcano's), then by our
    label on its namespace, then by a queue that claims the namespace; otherwise the default queue.
    """
    said = named_queue(labels, annotations)
    if said is not None:
        key, name = said
        return _checked(name, f"metadata.labels[{key}]", queues)
    of_namespace = namespace_labels.get(keys.QUEUE)
    if of_namespace is not None:
        return _checked(of_namespace, f"labels[{keys.QUEUE}] of the namespace", queues)
    return queues.mapped or DEFAULT_QUEUE


def _checked(name: str, field: str, queues: NamespaceQueues) -> QueueName:
    if not is_subdomain(name):
        raise InputError("not a queue's name", field=field, value=name, expected="a DNS name")
    return queues.local.get(name) or QueueName(name)
