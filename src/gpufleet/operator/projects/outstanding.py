"""Which projects a round has to look at: those of which something changed, and those that were not at rest.

Each object of a project bears its label, so a change tells whose it is. With a thousand projects a round
costs what the changed ones cost.
"""

from collections.abc import Iterator

from gpufleet.kube.mirror_changes import Appeared, Change, Changed, Unreadable, UnreadableGone, Vanished
from gpufleet.kube.objects import gpu_projects as wire
from gpufleet.operator.projects import project_keys as keys
from gpufleet.operator.projects.differences import ProjectObject


class Outstanding:
    """Names of projects, until a round takes them."""

    def __init__(self) -> None:
        self._names: set[str] = set()

    def heard_of_project(self, change: Change[wire.GpuProject]) -> None:
        """A project was written, came or went."""
        if isinstance(change, Unreadable | UnreadableGone):
            self._names.add(change.name)
        self._names.update(one.metadata.name for one in _versions(change))

    def heard_of_object(self, change: Change[ProjectObject]) -> None:
        """An object was written, came or went; one that goes from one project to another concerns both."""
        labels = (one.metadata.labels.get(keys.PROJECT, "") for one in _versions(change))
        self._names.update(filter(None, labels))

    def take(self) -> frozenset[str]:
        """What is to be looked at now. What changes from now on is of the next round."""
        taken = frozenset(self._names)
        self._names.clear()
        return taken

    def put_back(self, name: str) -> None:
        """A project is looked at in the next round too."""
        self._names.add(name)


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
