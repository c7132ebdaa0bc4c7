"""ProvisioningRequests of ours: what conditions say, how pauses grow, what a template takes over of a pod."""

import msgspec
import pytest

from gpufleet.kube.codec.provisioning_requests import (
    Stage,
    owner_of,
    read_request,
    request_name,
    template_body,
)
from gpufleet.kube.codec.queue_provisioning import ProvisioningTerms
from gpufleet.kube.objects.provisioning_requests import ProvisioningRequest
from gpufleet.model.identifiers import GangName
from tests.kube.wire_objects import decoded

OURS = {"gpufleet.io/provisioned-gang": "gang/default/train", "gpufleet.io/provisioning-attempt": "2"}


def request(*conditions: tuple[str, str], annotations: dict[str, str] | None = None) -> ProvisioningRequest:
    """A request as it is stored."""
    said = [
        {"type": one, "status": status, "lastTransitionTime": "1970-01-01T00:00:02Z"}
        for one, status in conditions
    ]
    metadata = {
        "name": "r",
        "namespace": "default",
        "annotations": OURS if annotations is None else annotations,
    }
    body = {"metadata": metadata, "status": {"conditions": said}}
    found: ProvisioningRequest = decoded(body, ProvisioningRequest)
    return found


@pytest.mark.parametrize(
    ("conditions", "stage"),
    [
        ((), Stage.PENDING),
        ((("Accepted", "True"),), Stage.ACCEPTED),
        ((("Accepted", "True"), ("Provisioned", "False")), Stage.ACCEPTED),
        ((("Provisioned", "True"), ("Accepted", "True")), Stage.PROVISIONED),
        ((("Provisioned", "True"), ("BookingExpired", "True")), Stage.BOOKING_EXPIRED),
        ((("Provisioned", "True"), ("CapacityRevoked", "True")), Stage.CAPACITY_REVOKED),
        ((("Accepted", "True"), ("Failed", "True")), Stage.FAILED),
    ],
)
def test_the_last_condition_that_is_true_says_how_far_it_is(
    conditions: tuple[tuple[str, str], ...], stage: Stage
) -> None:
    found = read_request(request(*conditions))
    assert found is not None
    assert (found.stage, found.attempt, found.since_us) == (stage, 2, 2_000_000 if conditions else 0)


@pytest.mark.parametrize("attempt", ["", "0", "-1", "x", "99999"])
def test_a_request_of_others_is_none_of_ours(attempt: str) -> None:
    assert read_request(request(annotations={})) is None
    assert read_request(request(annotations={**OURS, "gpufleet.io/provisioning-attempt": attempt})) is None


def test_pauses_double_up_to_the_longest() -> None:
    """Kueue's: min(60 * 2^(n-1), 1800)."""
    terms = ProvisioningTerms("c")
    assert [terms.pause_s(attempt) for attempt in range(1, 8)] == [60, 120, 240, 480, 960, 1800, 1800]


def test_names_are_those_of_objects_and_differ_by_gang_member_and_attempt() -> None:
    owner, other = owner_of("a", "u1"), owner_of("a", "u2")
    gang = GangName("podgroups.scheduling.k8s.io/default/My_Train." + "x" * 200)
    names = {
        request_name(gang, owner, 1),
        request_name(gang, owner, 2),
        request_name(gang, other, 1),
        request_name(GangName("gang/default/t"), owner, 1),
        request_name(GangName("gang/default/..."), owner, 1),
    }
    assert len(names) == 5
    assert all(len(name) <= 63 and name.replace("-", "").isalnum() and name == name.lower() for name in names)
    assert request_name(gang, owner, 1).startswith("my-train-xxx")


def test_a_template_leaves_out_what_belongs_to_one_pod() -> None:
    mount = {"name": "kube-api-access-x1", "mountPath": "/var/run/secrets"}
    container = {"name": "c", "volumeMounts": [mount, {"name": "data", "mountPath": "/data"}]}
    spec = {
        "nodeName": "n",
        "hostname": "p-0",
        "schedulingGates": [{"name": "g"}],
        "priority": 7,
        "tolerations": [{"operator": "Exists"}],
        "volumes": [{"name": "kube-api-access-x1"}, {"name": "data", "emptyDir": {}}],
        "containers": [container],
    }
    pod = {"metadata": {"name": "p", "labels": {"a": "b"}, "annotations": {"x": "y"}}, "spec": spec}
    found = msgspec.json.decode(template_body("t", msgspec.json.encode(pod), [owner_of("p", "u")]))
    assert found["metadata"] == {
        "name": "t",
        "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}],
    }
    assert found["template"] == {
        "metadata": {"labels": {"a": "b"}},
        "spec": {
            "priority": 7,
            "tolerations": [{"operator": "Exists"}],
            "volumes": [{"name": "data", "emptyDir": {}}],
            "containers": [{"name": "c", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}],
        },
    }
