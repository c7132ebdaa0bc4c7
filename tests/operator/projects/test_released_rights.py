"""Which bindings are emptied: those that no project gives, and none of a project that cannot be read."""

import json
from typing import Any

import msgspec
import pytest

from gpufleet.kube.codec.gpu_projects import read_gpu_project
from gpufleet.kube.objects.gpu_projects import GpuProject as WireProject
from gpufleet.kube.objects.metadata import Metadata
from gpufleet.kube.resources import CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS
from gpufleet.model.gpu_project import GpuProject
from gpufleet.operator.projects.differences import ProjectObject
from gpufleet.operator.projects.released_rights import given_rights, released
from tests.kube.codec.project_cases import ProjectCase, spec

ROLE = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "gpufleet-project-member"}
ANN = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ann"}
MEMBERS = ("vision", "gpufleet-project-members")
OWNERS = ("", "gpufleet-project:vision")


def project(**fields: Any) -> GpuProject:
    """Project vision with these fields."""
    written = json.dumps(ProjectCase("project", spec(**fields)).object())
    return read_gpu_project(msgspec.json.decode(written, type=WireProject))


def labelled(name: str, of: str, namespace: str = "") -> ProjectObject:
    """An object with the label of a project, which binds ann where it is a binding."""
    metadata = Metadata(name=name, namespace=namespace, labels={"gpufleet.io/project": of})
    return ProjectObject(metadata, role_ref=ROLE, subjects=(ANN,))


def emptied(
    projects: list[GpuProject], *, namespace_of: str = "vision", unknown: tuple[str, ...] = ()
) -> list[str]:
    """The names of the bindings that are emptied, of the members and the owners of vision."""
    bindings = {
        ROLE_BINDINGS: {MEMBERS: labelled(MEMBERS[1], "vision", "vision")},
        CLUSTER_ROLE_BINDINGS: {OWNERS: labelled(OWNERS[1], "vision")},
    }
    given = given_rights(projects, {("", "vision"): labelled("vision", namespace_of)})
    found = released(bindings, given, unknown)
    assert all(one.body["subjects"] == [] and one.body["roleRef"] == ROLE for one in found)
    return [one.name for one in found]


def test_what_the_project_gives_stands() -> None:
    assert emptied([project(members=[{"user": "ann", "role": "Owner"}])]) == []


def test_without_an_owner_nobody_writes_the_project() -> None:
    assert emptied([project()]) == [OWNERS[1]]


def test_a_namespace_that_is_named_no_more_gives_no_rights() -> None:
    assert MEMBERS[1] in emptied([project(namespaces=["other"])])


def test_a_namespace_that_belongs_to_another_project_by_now_gives_no_rights_of_this_one() -> None:
    assert MEMBERS[1] in emptied([project()], namespace_of="other")


def test_a_project_that_is_gone_gives_no_rights() -> None:
    assert emptied([]) == [MEMBERS[1], OWNERS[1]]


def test_of_a_project_that_cannot_be_read_everything_stands() -> None:
    assert emptied([], unknown=("vision",)) == []


@pytest.mark.parametrize("name", ["theirs", "gpufleet-project"])
def test_a_binding_of_another_name_is_not_the_operators(name: str) -> None:
    bindings = {
        ROLE_BINDINGS: {("vision", name): labelled(name, "vision", "vision")},
        CLUSTER_ROLE_BINDINGS: {("", name): labelled(name, "vision")},
    }
    assert released(bindings, frozenset(), ()) == []
