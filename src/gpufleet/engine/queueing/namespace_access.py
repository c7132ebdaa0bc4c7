"""Which namespaces may use which queue.

A queue says which namespaces it admits; one that says nothing admits those of the nearest queue above it that
does. Where none does, the queue is open as long as no queue of the cluster names any namespace, and closed
after that: otherwise to name a queue would be enough to have what its team is owed. Work that runs is charged
on whatever a queue says; ``gate`` asks for work that waits.
"""

from collections.abc import Mapping

from gpufleet.engine.instruction import QueueBar, WhyBarred
from gpufleet.engine.queueing.tree import QueueTree
from gpufleet.model.identifiers import QueueName
from gpufleet.model.queue import AdmittedNamespaces

TOLD_MAX = 5
"""How many namespaces a refusal names."""

NO_LABELS: Mapping[str, str] = {}


class NamespaceAccess:
    """Answers for a tree of queues, with the labels of namespaces."""

    def __init__(self, tree: QueueTree) -> None:
        self.tree = tree
        self._labels: dict[str, dict[str, str]] = {}
        self._refusals: dict[tuple[int, str], QueueBar | None] = {}
        self._as_of = -1

    def set_namespace(self, name: str, labels: dict[str, str]) -> None:
        """A namespace has these labels now, none if it is gone."""
        before = self._labels.get(name, NO_LABELS)
        if before == labels:
            return
        if labels:
            self._labels[name] = labels
        else:
            del self._labels[name]
        stated = (queue.admitted for queue in self.tree.described.values() if queue.admitted is not None)
        selectors = (admitted.selector for admitted in stated if admitted.selector is not None)
        # Settling the tree asks every queue, and no other label can change what is admitted.
        if any(one.accepts(before) != one.accepts(labels) for one in selectors):
            self.tree.is_stale = True

    def refusal(self, row: int, namespace: str) -> QueueBar | None:
        """Why work of a namespace may not use the queue of a row; None if it may.

        Work without a namespace, such as that of a trace, may use every queue; in a cluster there is none.
        """
        if not namespace or not self.tree.has_admitted_namespaces or not self.tree.is_described(row):
            return None
        if self._as_of != self.tree.changes:
            self._refusals.clear()
            self._as_of = self.tree.changes
        key = (row, namespace)
        if key not in self._refusals:
            self._refusals[key] = self._refusal(row, namespace)
        return self._refusals[key]

    def _refusal(self, row: int, namespace: str) -> QueueBar | None:
        name, admitting, admitted = self.tree.name_at(row), None, None
        # The nearest queue that names namespaces decides for all below it.
        for above in self.tree.path(row):
            admitting, admitted = self.tree.name_at(above), self.tree.queue_at(above).admitted
            if admitted is not None:
                break
        if admitted is not None and self._admits(admitted, namespace):
            return None
        words = _words(name, admitting, admitted)
        return QueueBar(name, WhyBarred.NOT_ADMITTED, namespace, words)

    def _admits(self, admitted: AdmittedNamespaces, namespace: str) -> bool:
        if namespace in admitted.namespaces:
            return True
        return admitted.selector is not None and admitted.selector.accepts(
            self._labels.get(namespace, NO_LABELS)
        )


def _words(name: QueueName, admitting: QueueName | None, admitted: AdmittedNamespaces | None) -> str:
    """The namespaces that a queue admits, in words."""
    if admitted is None:
        return "neither it nor a queue above it names namespaces, and other queues do"
    subject = "it admits" if admitting == name else f"queue {admitting}, above it, admits"
    parts = []
    if admitted.namespaces:
        told, more = admitted.namespaces[:TOLD_MAX], len(admitted.namespaces) - TOLD_MAX
        rest = f" and {more} more" if more > 0 else ""
        parts.append(f"namespace{'' if len(admitted.namespaces) == 1 else 's'} {', '.join(told)}{rest}")
    if admitted.selector is not None:
        labels = ", ".join(map(str, admitted.selector.requirements))
        parts.append(f"namespaces with labels {labels}")
    return f"{subject} {' and '.join(parts)}"
