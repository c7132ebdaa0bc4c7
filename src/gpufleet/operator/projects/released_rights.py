"""Rights that no project gives any more: pure functions over what is known.

A namespace that a project names no more, or that now belongs to another one, keeps what is in it, and its
bindings are left without subjects. So it is with all bindings of a project that ends or is gone. They are
emptied, not deleted: the operator has no right to delete anything.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping

from gpufleet.kube.replica import Key
from gpufleet.kube.resources import CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS, Kind
from gpufleet.model.gpu_project import GpuProject, ProjectRole
from gpufleet.operator.projects import project_keys as keys
from gpufleet.operator.projects.differences import ProjectObject
from gpufleet.operator.projects.wanted_objects import BINDINGS, WantedObject, without_subjects

NAMES = frozenset((keys.OWNERS, keys.MEMBERS, keys.VIEWERS))
"""Bindings of other names may bear the label of a project, and are not the operator's."""

GivenRights = frozenset[tuple[Kind, str, str]]
Objects = Mapping[Kind, Mapping[Key, ProjectObject]]


def given_rights(projects: Iterable[GpuProject], namespaces: Mapping[Key, ProjectObject]) -> GivenRights:
    """The bindings that projects give: in namespaces that are theirs, and over themselves."""
    return frozenset(_given(projects, namespaces))


def _given(
    projects: Iterable[GpuProject], namespaces: Mapping[Key, ProjectObject]
) -> Iterator[tuple[Kind, str, str]]:
    for project in projects:
        for namespace in project.namespaces:
            found = namespaces.get(("", namespace))
            if found is not None and found.metadata.labels.get(keys.PROJECT) == project.name:
                yield from ((ROLE_BINDINGS, namespace, name) for name in NAMES)
        if any(one.role is ProjectRole.OWNER for one in project.members):
            yield CLUSTER_ROLE_BINDINGS, "", f"{keys.PROJECT_ROLE_PREFIX}{project.name}"


def released(objects: Objects, given: GivenRights, unknown: Collection[str]) -> list[WantedObject]:
    """The bindings that are to be emptied. Those of projects that cannot be read stay as they are."""
    return [
        without_subjects(project, kind, namespace, name, found.role_ref)
        for kind in BINDINGS
        for (namespace, name), found in objects[kind].items()
        if found.subjects and _is_ours(kind, name)
        if (kind, namespace, name) not in given
        if (project := found.metadata.labels.get(keys.PROJECT, "")) not in unknown
    ]


def _is_ours(kind: Kind, name: str) -> bool:
    if kind == CLUSTER_ROLE_BINDINGS:
        return name.startswith(keys.PROJECT_ROLE_PREFIX)
    return name in NAMES
