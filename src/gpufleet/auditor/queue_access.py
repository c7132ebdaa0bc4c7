"""Which queue a pod's work waits in, and which namespaces may use a queue, as docs/queues.md says it.

A queue that names no namespaces admits those of the nearest queue above it that does. With none, it is open
as long as no queue of the cluster names any, and closed after that.
"""

from collections.abc import Iterator, Mapping

from gpufleet.auditor import pods
from gpufleet.auditor.reading import mapping, rows, section, texts
from gpufleet.auditor.record import Document

QUEUE = "gpufleet.io/queue"
QUEUE_KEYS = (
    QUEUE,
    "kueue.x-k8s.io/queue-name",
    "kai.scheduler/queue",
    "scheduling.volcano.sh/queue-name",
    "volcano.sh/queue-name",
)
DEFAULT = "default"
Queues = Mapping[str, Document]


def spec_of(queue: Document) -> Document:
    """The spec, empty where it is none."""
    return section(queue, "spec")


def path(queues: Queues, name: str) -> Iterator[tuple[str, Document]]:
    """A queue and those above it; a circle ends where it began."""
    passed: set[str] = set()
    while name in queues and name not in passed:
        passed.add(name)
        spec = spec_of(queues[name])
        yield name, spec
        name = str(spec.get("parent") or "")


def names_namespaces(spec: Document) -> bool:
    """Whether a queue itself says which namespaces may use it."""
    selector = spec.get("namespaceSelector")
    return bool(texts(spec, "namespaces") or rows(spec, "localQueues") or isinstance(selector, dict))


def lets_in(queues: Queues, name: str, space: str, space_labels: Mapping[str, str]) -> bool:
    """Whether work of a namespace may use a queue."""
    for _, spec in path(queues, name):
        if names_namespaces(spec):
            listed = space in texts(spec, "namespaces")
            local = any(one.get("namespace") == space for one in rows(spec, "localQueues"))
            selector = spec.get("namespaceSelector")
            return (
                listed
                or local
                or (selector is not None and selects(selector, with_name(space, space_labels)))
            )
    return not any(names_namespaces(spec_of(queue)) for queue in queues.values())


def with_name(space: str, space_labels: Mapping[str, str]) -> dict[str, str]:
    """A namespace's labels with the one that the API server adds."""
    return {**space_labels, "kubernetes.io/metadata.name": space}


def selects(selector: Document, found: Mapping[str, str]) -> bool:
    """Whether a label selector selects these labels; an empty one selects all."""
    if any(found.get(key) != value for key, value in mapping(selector, "matchLabels").items()):
        return False
    return all(_holds(one, found) for one in rows(selector, "matchExpressions"))


def _holds(expression: Document, found: Mapping[str, str]) -> bool:
    key, operator = expression.get("key", ""), expression.get("operator")
    values = texts(expression, "values")
    match operator:
        case "In":
            return found.get(key) in values
        case "NotIn":
            return found.get(key) not in values
        case "Exists":
            return key in found
        case "DoesNotExist":
            return key not in found
    return False


def queue_of(pod: Document, queues: Queues, space: Document | None) -> str:
    """Where a pod's work waits by its own words and those of its namespace and of the queues."""
    own = pods.labels(pod)
    name = pods.namespace(pod)
    for key in QUEUE_KEYS:
        said = own.get(key, pods.note(pod, key))
        if said is not None:
            return _local(queues, name, said)
    space_labels = pods.labels(space) if space is not None else {}
    if QUEUE in space_labels:
        return _local(queues, name, space_labels[QUEUE])
    for queue, value in sorted(queues.items()):
        if name in texts(spec_of(value), "namespaces"):
            return queue
    for queue, value in sorted(queues.items()):
        selector = spec_of(value).get("namespaceSelector")
        if isinstance(selector, dict) and selects(selector, with_name(name, space_labels)):
            return queue
    return DEFAULT


def _local(queues: Queues, space: str, said: str) -> str:
    """The queue that lists this name for the namespace, or the one of the name."""
    for queue, value in sorted(queues.items()):
        for one in rows(spec_of(value), "localQueues"):
            if one.get("namespace") == space and one.get("name") == said:
                return queue
    return said
