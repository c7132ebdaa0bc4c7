"""What a GpuProject means, and which field is named where it cannot be."""

import json

import msgspec
import pytest

from gpufleet.kube.codec.gpu_projects import MAXIMUM_NAMESPACES, read_gpu_project
from gpufleet.kube.kube_errors import ObjectError
from gpufleet.kube.objects.gpu_projects import GpuProject
from gpufleet.model.gpu_project import (
    MINUTE_US,
    ImageTerms,
    ImageTreatment,
    PodSecurity,
    ProjectIdleRule,
    ProjectMember,
    ProjectRole,
)
from tests.kube.codec.project_cases import PROJECT_CASES, ProjectCase, spec


def decoded(case: ProjectCase) -> GpuProject:
    return msgspec.json.decode(json.dumps(case.object()).encode(), type=GpuProject)


@pytest.mark.parametrize("case", PROJECT_CASES, ids=str)
def test_what_cannot_be_is_refused_by_its_field(case: ProjectCase) -> None:
    if case.unreadable:
        with pytest.raises(msgspec.ValidationError):
            decoded(case)
        return
    found = decoded(case)
    if not case.refused:
        read_gpu_project(found)
        return
    with pytest.raises(ObjectError) as refusal:
        read_gpu_project(found)
    assert refusal.value.field == case.refused
    assert refusal.value.where == "GpuProject vision"
    assert refusal.value.expected


def test_everything_that_it_may_say() -> None:
    (case,) = (one for one in PROJECT_CASES if one.what == "everything")
    found = read_gpu_project(decoded(case))
    assert (found.name, found.team, found.queue) == ("vision", "Vision", "vision")
    assert found.namespaces == ("vision", "vision-dev")
    assert found.members == (
        ProjectMember(ProjectRole.MEMBER, user="ann"),
        ProjectMember(ProjectRole.VIEWER, group="guests"),
    )
    assert dict(found.namespace_quota)["requests.nvidia.com/gpu"] == "8"
    assert found.pod_security is PodSecurity.BASELINE
    assert found.images == ImageTerms(ImageTreatment.DENY, ("registry.example.com/vision",))
    assert found.idle_rule == ProjectIdleRule(120 * MINUTE_US, 15 * MINUTE_US)
    assert found.tolerated_taints == ("*", "example.com/spot", "dedicated")


def test_its_team_is_its_name_where_it_names_none() -> None:
    assert read_gpu_project(decoded(ProjectCase("plain", spec()))).team == "vision"


def test_there_are_bounds() -> None:
    names = [f"a{number}" for number in range(MAXIMUM_NAMESPACES + 1)]
    with pytest.raises(ObjectError) as refusal:
        read_gpu_project(decoded(ProjectCase("too many", spec(namespaces=names))))
    assert refusal.value.field == "spec.namespaces"
