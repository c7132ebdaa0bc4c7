"""Which namespaces may use an imported queue: what Namespaces and selectors of other systems say.

A FleetQueue that names no namespace is open as long as no queue names any. So whatever another system keeps
out must be written down, and what the objects at hand do not tell stays closed and is reported.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from gpufleet.kube.codec.selectors import label_selector
from gpufleet.kube.keys import NAMESPACE_NAME
from gpufleet.kube.objects.selectors import LabelSelector as Written
from gpufleet.migration.field_notes import FieldNotes
from gpufleet.migration.queues import Draft
from gpufleet.migration.sources import Source
from gpufleet.model.labels import LabelSelector
from gpufleet.model.model_errors import InputError

"""A label that every Namespace has, with its name."""
GIVE_NAMESPACES = "give the Namespaces too (kubectl get namespaces -o yaml)"


class Namespaces:
    """The Namespaces among the objects."""

    def __init__(self, sources: Iterable[Source]) -> None:
        self.by_name = {one.name: one for one in sources if (one.group, one.kind) == ("", "Namespace")}

    def selected(self, name: str, selector: LabelSelector) -> bool | None:
        """True if the selector selects the namespace; None where its labels are not known."""
        known = self.by_name.get(name)
        if known is None and any(one.key != NAMESPACE_NAME for one in selector.requirements):
            return None
        labels = {} if known is None else known.mapping("metadata", "labels")
        texts = {str(key): str(value) for key, value in labels.items()}
        return selector.accepts({**texts, NAMESPACE_NAME: name})

    def map_by(self, part: str, keys: tuple[str, ...], drafts: dict[str, Draft], notes: FieldNotes) -> None:
        """Namespaces that name their queue in one of these labels or annotations may use it, and wait there.

        The systems themselves keep no other namespace out; once one queue names its own, all do.
        """
        for source in self.by_name.values():
            said = source.mapping("metadata", part)
            key = next((one for one in keys if one in said), None)
            if key is None:
                continue
            field, name = f"metadata.{part}[{key}]", str(said[key])
            if name not in drafts:
                notes.lost(source, field, f"there is no Queue {name} among these objects")
                continue
            drafts[name].namespaces.append(source.name)
            reason = "its work waits there; other namespaces may not name that queue from now on"
            notes.approximated(source, field, "spec.namespaces", reason)


def tell_of_closed(drafts: Iterable[Draft], notes: FieldNotes, sources: dict[str, Source]) -> None:
    """Report the queues that no namespace may use because other queues name theirs."""
    every = {draft.name: draft for draft in drafts}
    if not any(names_some(draft) for draft in every.values()):
        return
    parents = {draft.parent for draft in every.values()}
    for name, draft in every.items():
        if name in parents or name not in sources or limits_namespaces(draft, every):
            continue
        reason = "no namespace is known to use it, so it is closed: add namespaces, or namespaceSelector: {}"
        notes.approximated(sources[name], "metadata.name", "spec.namespaces", reason)


def names_some(draft: Draft) -> bool:
    """True if the queue names namespaces, in any way."""
    return bool(draft.namespaces or draft.local_queues) or draft.namespace_selector is not None


def limits_namespaces(draft: Draft, every: dict[str, Draft]) -> bool:
    """True if the queue, or one above it, names namespaces."""
    # Objects of another system may name each other as parents.
    seen: set[str] = set()
    at: Draft | None = draft
    while at is not None and at.name not in seen:
        if names_some(at):
            return True
        seen.add(at.name)
        at = None if at.parent is None else every.get(at.parent)
    return False


def read_selector(source: Source, path: tuple[str, ...]) -> tuple[dict[str, Any], LabelSelector] | None:
    """The selector at a path, as it is written and as it is meant; None where there is none."""
    written = source.get(*path)
    if written is None:
        return None
    field = ".".join(path)
    try:
        meant = label_selector(msgspec.convert(written, Written), field)
    except msgspec.ValidationError as problem:
        raise source.error(str(problem), field, written, "a label selector") from None
    except InputError as problem:
        raise source.error(problem.problem, problem.field or field, problem.value, problem.expected) from None
    return written, meant or LabelSelector()
