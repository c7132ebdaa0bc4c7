"""Which resources are served by claims while classes and nodes come and go."""

from collections.abc import Iterable
from typing import Any

import msgspec

from gpufleet.cluster.claims.extended_resources import ExtendedResources
from gpufleet.kube import resources
from gpufleet.kube.objects.node import Node
from gpufleet.kube.objects.pod import Pod
from gpufleet.kube.objects.resource_slices import DeviceClassObject
from gpufleet.kube.resources import Kind

A, B = "example.com/a", "example.com/b"


class Objects:
    """What is there, by kind and name; ``heard`` takes an object in, None for one that went."""

    def __init__(self) -> None:
        self.there: dict[tuple[Kind, str], Any] = {}
        self.served = ExtendedResources(self)

    def find(self, kind: Kind, name: str, namespace: str = "") -> Any | None:
        """An object; neither nodes nor classes have a namespace."""
        assert not namespace
        return self.there.get((kind, name))

    def all(self, kind: Kind) -> Iterable[Any]:
        """All of a kind."""
        return [one for (of, _), one in self.there.items() if of == kind]

    def heard(self, kind: Kind, name: str, found: Any | None) -> None:
        """An object came, changed or went."""
        self.there.pop((kind, name), None)
        if found is not None:
            self.there[kind, name] = found
        self.served.hear(kind, name)


def device_class(name: str, resource: str, **metadata: Any) -> DeviceClassObject:
    body = {"metadata": {"name": name, **metadata}, "spec": {"extendedResourceName": resource}}
    return msgspec.convert(body, DeviceClassObject)


def node(name: str, **allocatable: str) -> Node:
    amounts = {f"example.com/{resource}": amount for resource, amount in allocatable.items()}
    return msgspec.convert({"metadata": {"name": name}, "status": {"allocatable": amounts}}, Node)


def pod(*asked: str, made_for: tuple[str, ...] = ()) -> Pod:
    amounts = dict.fromkeys(asked, "1")
    container = {"name": "main", "resources": {"requests": amounts, "limits": amounts}}
    uses = [{"containerName": "main", "resourceName": one, "requestName": "r"} for one in made_for]
    status = {"extendedResourceClaimStatus": {"resourceClaimName": "c", "requestMappings": uses}}
    body = {
        "metadata": {"name": "p", "namespace": "a", "uid": "u"},
        "spec": {"containers": [container]},
        "status": status if made_for else {},
    }
    return msgspec.convert(body, Pod)


def asked_for(objects: Objects, one: Pod) -> list[str]:
    """The classes of the requests of its claim."""
    claim = objects.served.claim_of(one)
    return [] if claim is None else [request.class_name for request in claim.requests]


def test_a_node_that_goes_while_a_class_changes_otherwise_counts_no_more() -> None:
    objects = Objects()
    objects.heard(resources.DEVICE_CLASSES, "a", device_class("a", A))
    objects.heard(resources.NODES, "n", node("n", a="4"))
    objects.served.renew()
    assert asked_for(objects, pod(A)) == []
    # A label of the class: it serves what it served.
    objects.heard(resources.DEVICE_CLASSES, "a", device_class("a", A, labels={"team": "x"}))
    objects.heard(resources.NODES, "n", None)
    assert objects.served.renew()
    assert asked_for(objects, pod(A)) == ["a"]


def test_a_claim_that_was_made_is_for_what_it_was_made_for() -> None:
    """The other resource has a class too, and nodes count it: it was never a part of the claim."""
    objects = Objects()
    objects.heard(resources.DEVICE_CLASSES, "a", device_class("a", A))
    objects.heard(resources.DEVICE_CLASSES, "b", device_class("b", B))
    objects.heard(resources.NODES, "n", node("n", b="4"))
    objects.served.renew()
    assert asked_for(objects, pod(A, B)) == ["a"]
    assert asked_for(objects, pod(A, B, made_for=(A,))) == ["a"]
