"""The claim for resources that a pod asks for by number, and which container uses which request of it.

The pods and what is expected of them are cases of kube-scheduler's own tests (kubernetes/kubernetes, plugin
DynamicResources, Test_createRequestsAndMappings).
"""

from typing import Any, NamedTuple

import msgspec
import pytest

from gpufleet.kube.codec.special_claims import (
    NAME_LENGTH_MAX,
    RequestUse,
    SpecialRequest,
    classes_by_resource,
    special_claim,
    without_claimed_resources,
)
from gpufleet.kube.objects.pod import Pod
from gpufleet.kube.objects.resource_slices import DeviceClassObject

Object = dict[str, Any]
GPU, OTHER, INIT = "example.com/gpu", "example.com/gpu1", "example.com/gpuinit"
CLASSES = {GPU: "class", OTHER: "class1", INIT: "class-init"}


def container(name: str, *, sidecar: bool = False, **amounts: int) -> Object:
    """A container; ``gpu``, ``other`` and ``init`` are its amounts."""
    names = {"gpu": GPU, "other": OTHER, "init": INIT}
    asked = {names[key]: str(amount) for key, amount in amounts.items()}
    return {
        "name": name,
        "resources": {"requests": asked, "limits": asked},
        **({"restartPolicy": "Always"} if sidecar else {}),
    }


def pod(main: list[Object], init: list[Object], name: str = "p", **status: Any) -> Pod:
    metadata = {"name": name, "namespace": "default", "uid": "some-uid"}
    written = {"metadata": metadata, "spec": {"containers": main, "initContainers": init}, "status": status}
    return msgspec.convert(written, Pod)


class Case(NamedTuple):
    """Containers, and the requests and uses that follow."""

    main: list[Object]
    init: list[Object]
    requests: list[tuple[str, str, int]]
    uses: list[tuple[str, str, str]]


ONE_MAIN = container("main", gpu=1)
CASES = {
    "two resources of one container": Case(
        [container("main", gpu=1, other=2)],
        [],
        [("container-0-request-0", "class", 1), ("container-0-request-1", "class1", 2)],
        [("main", GPU, "container-0-request-0"), ("main", OTHER, "container-0-request-1")],
    ),
    "two containers": Case(
        [container("main", gpu=1), container("more", other=2)],
        [],
        [("container-0-request-0", "class", 1), ("container-1-request-0", "class1", 2)],
        [("main", GPU, "container-0-request-0"), ("more", OTHER, "container-1-request-0")],
    ),
    "one init container": Case(
        [ONE_MAIN],
        [container("first", init=2)],
        [("container-0-request-0", "class-init", 2), ("container-1-request-0", "class", 1)],
        [("main", GPU, "container-1-request-0"), ("first", INIT, "container-0-request-0")],
    ),
    "two init containers share the larger request": Case(
        [ONE_MAIN],
        [container("first", init=1), container("second", init=2)],
        [("container-1-request-0", "class-init", 2), ("container-2-request-0", "class", 1)],
        [
            ("main", GPU, "container-2-request-0"),
            ("first", INIT, "container-1-request-0"),
            ("second", INIT, "container-1-request-0"),
        ],
    ),
    "an init container uses what a sidecar after it will have": Case(
        [ONE_MAIN],
        [
            container("first", init=1),
            container("sidecar", init=1, sidecar=True),
            container("last", init=2),
        ],
        [
            ("container-1-request-0", "class-init", 1),
            ("container-2-request-0", "class-init", 2),
            ("container-3-request-0", "class", 1),
        ],
        [
            ("main", GPU, "container-3-request-0"),
            ("sidecar", INIT, "container-1-request-0"),
            ("first", INIT, "container-1-request-0"),
            ("last", INIT, "container-2-request-0"),
        ],
    ),
    "an init container that needs more than those after it asks for the rest": Case(
        [container("main", gpu=2)],
        [container("first", gpu=3)],
        [("container-0-request-0", "class", 1), ("container-1-request-0", "class", 2)],
        [
            ("main", GPU, "container-1-request-0"),
            ("first", GPU, "container-1-request-0"),
            ("first", GPU, "container-0-request-0"),
        ],
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_requests_and_their_users_are_those_of_kubernetes_scheduler(case: Case) -> None:
    found = special_claim(pod(case.main, case.init), CLASSES)
    assert found is not None
    assert found.requests == tuple(SpecialRequest(*one) for one in case.requests)
    assert found.uses == tuple(RequestUse(*one) for one in case.uses)
    assert [(one.name, one.choices[0].count) for one in found.asks.requests] == [
        (name, count) for name, _, count in case.requests
    ]


def test_a_pod_that_asks_for_none_of_these_resources_gets_no_claim() -> None:
    assert special_claim(pod([container("main", gpu=0)], []), CLASSES) is None
    assert special_claim(pod([ONE_MAIN], []), {OTHER: "class1"}) is None


def test_the_name_of_the_claim_is_one_of_the_api_whatever_the_pods_name_is() -> None:
    long = "a" * 230 + "-." + "b" * 20
    names = [special_claim(pod([ONE_MAIN], [], name), CLASSES) for name in ("p", long)]
    short, cut = (one.name for one in names if one is not None)
    assert short.startswith("p-extended-resources-")
    assert len(cut) <= NAME_LENGTH_MAX
    assert "-." not in cut


def test_of_two_classes_for_one_resource_the_newest_serves_it_and_then_the_first_by_name() -> None:
    def described(name: str, day: int) -> DeviceClassObject:
        metadata = {"name": name, "creationTimestamp": f"2026-01-0{day}T00:00:00Z"}
        return msgspec.convert(
            {"metadata": metadata, "spec": {"extendedResourceName": GPU}}, DeviceClassObject
        )

    found = classes_by_resource([described("old", 1), described("b", 2), described("a", 2)])
    assert found[GPU] == "a"
    assert found["deviceclass.resource.kubernetes.io/old"] == "old"


def test_a_pod_with_its_claim_holds_nothing_by_number() -> None:
    use = {"containerName": "main", "resourceName": GPU, "requestName": "container-0-request-0"}
    status = {"resourceClaimName": "c", "requestMappings": [use]}
    of_claim = pod([container("main", gpu=1, other=2), ONE_MAIN | {"name": "more"}], [])
    held = without_claimed_resources(of_claim)
    assert held == of_claim
    named = msgspec.convert({"extendedResourceClaimStatus": status}, type(of_claim.status))
    bare = without_claimed_resources(msgspec.structs.replace(of_claim, status=named))
    assert [dict(one.resources.limits) for one in bare.spec.containers] == [{OTHER: "2"}, {GPU: "1"}]
    assert [dict(one.resources.requests) for one in bare.spec.containers] == [{OTHER: "2"}, {GPU: "1"}]
