"""What a project is made of, and when an object of it has to be written."""

import json
from typing import Any

import msgspec
import pytest

from gpufleet.kube.codec.gpu_projects import read_gpu_project
from gpufleet.kube.objects.gpu_projects import GpuProject
from gpufleet.operator.projects.differences import ProjectObject, differs
from gpufleet.operator.projects.wanted_objects import WantedObject, wanted_objects
from tests.kube.codec.project_cases import ProjectCase, spec


def objects(**fields: Any) -> dict[str, WantedObject]:
    """The objects of namespace vision by their kinds and names."""
    written = json.dumps(ProjectCase("project", spec(**fields)).object())
    project = read_gpu_project(msgspec.json.decode(written, type=GpuProject))
    found = wanted_objects(project, "vision")
    own = {"gpufleet-project", "vision"}
    return {one.kind.name if one.name in own else one.name: one for one in found}


def as_served(wanted: WantedObject) -> ProjectObject:
    """The object as the server sends it back."""
    return msgspec.json.decode(msgspec.json.encode(wanted.body), type=ProjectObject)


def test_rights_come_after_all_limits() -> None:
    assert list(objects()) == [
        "Namespace",
        "ResourceQuota",
        "gpufleet-project-critical",
        "LimitRange",
        "NetworkPolicy",
        "gpufleet-project-viewers",
        "gpufleet-project-members",
        "gpufleet-project-owners",
    ]


@pytest.mark.parametrize(
    ("quota", "exposed"),
    [
        ({}, {"services.loadbalancers": "0", "services.nodeports": "0"}),
        ({"services.nodeports": 2}, {"services.loadbalancers": "0", "services.nodeports": "2"}),
        ({"services.loadbalancers": 2}, {"services.loadbalancers": "2"}),
    ],
)
def test_no_service_is_reached_from_outside_unless_the_quota_says_how_many(
    quota: dict[str, Any], exposed: dict[str, str]
) -> None:
    """Kubernetes counts the ports that a load balancer has on nodes as node ports, too."""
    assert objects(namespaceQuota=quota)["ResourceQuota"].body["spec"]["hard"] == exposed


@pytest.mark.parametrize(("listed", "written"), [(None, None), ([], ""), (["a/b", "*"], "a/b,*")])
def test_the_taints_that_pods_may_tolerate_stand_on_the_namespace(
    listed: list[str] | None, written: str | None
) -> None:
    fields = {} if listed is None else {"toleratedTaints": listed}
    annotations = objects(**fields)["Namespace"].body["metadata"]["annotations"]
    assert annotations.get("gpufleet.io/tolerated-taints") == written


def test_limits_have_no_maximum() -> None:
    (limit,) = objects(containerDefaults={"memory": "1Gi"})["LimitRange"].body["spec"]["limits"]
    memory = {"memory": "1Gi"}
    assert limit == {"type": "Container", "default": memory, "defaultRequest": memory}


def test_the_address_of_credentials_is_left_out_of_networks_that_hold_it() -> None:
    egress = objects(network={"egress": ["0.0.0.0/0", "10.0.0.0/8"]})["NetworkPolicy"].body["spec"]["egress"]
    assert egress[-1] == {
        "to": [
            {"ipBlock": {"cidr": "0.0.0.0/0", "except": ["169.254.169.254/32"]}},
            {"ipBlock": {"cidr": "10.0.0.0/8"}},
        ]
    }


def test_without_members_the_bindings_bind_nobody() -> None:
    assert objects()["gpufleet-project-members"].body["subjects"] == []


def test_what_is_as_it_must_be_is_not_written() -> None:
    for wanted in objects(namespaceQuota={"pods": 3}).values():
        assert not differs(wanted, as_served(wanted))


def test_an_amount_in_another_spelling_is_the_same_amount() -> None:
    wanted = objects(namespaceQuota={"requests.storage": "1024Mi"})["ResourceQuota"]
    written = wanted.body["spec"]["hard"]
    hard = {**written, "requests.storage": "1Gi", "pods": "9"}
    served = msgspec.structs.replace(as_served(wanted), spec={"hard": hard})
    assert not differs(wanted, served)


@pytest.mark.parametrize("key", ["gpufleet.io/team", "pod-security.kubernetes.io/enforce"])
def test_a_label_that_was_changed_is_written_anew(key: str) -> None:
    wanted = objects()["Namespace"]
    served = as_served(wanted)
    served.metadata.labels[key] = "other"
    assert differs(wanted, served)


def test_what_is_wanted_no_more_is_a_difference() -> None:
    before = as_served(objects(namespaceQuota={"pods": 3})["ResourceQuota"])
    assert differs(objects()["ResourceQuota"], before)
