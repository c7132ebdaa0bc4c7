"""Which projects a round has to look at: those of which something changed, and those that were not at rest.

Each object of a project bears its label, so a change tells whose it is. With a thousand projects a round
costs what the changed ones cost. Projects that were at rest come first, so that a repair does not wait until
a thousand new projects are made; the others come in the order of their changes.
"""

from collections.abc import Iterator

from gpufleet.kube.mirror_changes import Appeared, Change, Changed, Unreadable, UnreadableGone, Vanished
from gpufleet.kube.objects import gpu_projects as wire
from gpufleet.operator.projects import project_keys as keys
from gpufleet.operator.projects.differences import ProjectObject


class PendingProjects:
    """Names of projects, until a round takes them."""

    def __init__(self) -> None:
        # A set that keeps its order.
        self._names: dict[str, None] = {}
        # Names that were put back, and whether they wait for a change alone.
        self._again: dict[str, bool] = {}
        self._rested: set[str] = set()

    def has_changes(self) -> bool:
        """Whether something changed that no round has taken yet."""
        return bool(self._names)

    def is_unfinished(self) -> bool:
        """Whether a project was put back that has to be looked at also without a change."""
        return not all(self._again.values())

    def on_project(self, change: Change[wire.GpuProject]) -> None:
        """A project was written, came or went."""
        if isinstance(change, Unreadable | UnreadableGone):
            self._names[change.name] = None
        if isinstance(change, Vanished):
            self._rested.discard(change.last.metadata.name)
        self._names.update((one.metadata.name, None) for one in _versions(change))

    def on_object(self, change: Change[ProjectObject]) -> None:
        """An object was written, came or went; one that goes from one project to another concerns both."""
        labels = (one.metadata.labels.get(keys.PROJECT, "") for one in _versions(change))
        self._names.update((name, None) for name in labels if name)

    def take(self, most: int) -> tuple[str, ...]:
        """What is to be looked at now, at most so many. What changes from now on is of a later round."""
        # Sorting keeps the order of equals.
        changed = sorted(self._names, key=lambda name: name not in self._rested)
        again = [name for name in self._again if name not in self._names]
        taken = (*changed, *again)[:most]
        for name in taken:
            self._names.pop(name, None)
            self._again.pop(name, None)
        return taken

    def put_back(self, name: str, *, is_at_rest: bool) -> None:
        """A project is looked at again, where it is at rest only in a round that comes for another reason."""
        self._rested.discard(name)
        self._again[name] = is_at_rest

    def rest(self, name: str) -> None:
        """A project is as it says: only a change concerns it again."""
        self._rested.add(name)


def _versions(
    change: Change[wire.GpuProject] | Change[ProjectObject],
) -> Iterator[wire.GpuProject | ProjectObject]:
    if isinstance(change, Changed):
        yield change.before
        yield change.after
    elif isinstance(change, Appeared):
        yield change.object
    elif isinstance(change, Vanished):
        yield change.last
