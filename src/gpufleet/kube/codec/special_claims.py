"""Claims of devices for pods that ask for them by number, as an extended resource (KEP-5004).

A DeviceClass says that its devices are a resource such as ``example.com/gpu``, and each class is one named
``deviceclass.resource.kubernetes.io/CLASS`` as well. A pod that asks for such a resource gets one claim for
all of its containers, which its scheduler makes, and its status says which request each container uses. Names
of requests and what init containers share are as Kubernetes' scheduler has it.
"""

import hashlib
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

import msgspec

from gpufleet.dra_allocation.claims import DeviceChoice, DeviceRequest, ResourceClaim
from gpufleet.kube.objects.pod import ALWAYS, Container, Pod
from gpufleet.kube.objects.resource_slices import DeviceClassObject
from gpufleet.model.identifiers import PodUid
from gpufleet.model.quantity import NANO_PER_UNIT, parse_quantity

IMPLICIT = "deviceclass.resource.kubernetes.io/"
"""Begins the resource by which the devices of any class can be asked for."""

NAME_LENGTH_MAX = 253
"""Of names of objects in the API (a DNS subdomain)."""

DIGEST_LENGTH = 10
"""Hexadecimal digits that tell the claims of pods of one name apart; a trillion of them."""


class SpecialRequest(NamedTuple):
    """A request of a special claim."""

    name: str
    class_name: str
    devices: int


class RequestUse(NamedTuple):
    """A container and its resource, and the request that has the devices for it."""

    container: str
    resource: str
    request: str


class SpecialClaim(NamedTuple):
    """The claim that a pod is to have. Its name follows from the pod, so that it is made once."""

    namespace: str
    name: str
    pod: PodUid
    requests: tuple[SpecialRequest, ...]
    uses: tuple[RequestUse, ...]

    @property
    def asks(self) -> ResourceClaim:
        """The claim as the API server has it once it is made."""
        return ResourceClaim(
            self.namespace,
            self.name,
            tuple(
                DeviceRequest(one.name, (DeviceChoice(one.class_name, count=one.devices),))
                for one in self.requests
            ),
        )


def classes_by_resource(classes: Iterable[DeviceClassObject]) -> dict[str, str]:
    """The class that serves each resource: of several the newest, then the first by name."""
    # The last one that is written down stays: so the newest comes last, and of equals the first name.
    by_name = sorted(classes, key=lambda one: one.metadata.name, reverse=True)
    in_order = sorted(by_name, key=lambda one: one.metadata.creation_timestamp or "")
    found = {f"{IMPLICIT}{one.metadata.name}": one.metadata.name for one in in_order}
    named = {one.spec.extended_resource_name: one.metadata.name for one in in_order}
    return found | {resource: name for resource, name in named.items() if resource}


def asked_amounts(container: Container) -> dict[str, str]:
    """What a container asks for: a resource with a limit alone is asked for as much."""
    return {**container.resources.limits, **container.resources.requests}


def special_claim(pod: Pod, class_by_resource: Mapping[str, str]) -> SpecialClaim | None:
    """The claim for what a pod asks of these resources; None where it asks for none."""
    requests: list[SpecialRequest] = []
    uses: list[RequestUse] = []
    for resource in sorted(class_by_resource):
        of_resource = _OfResource(pod, resource, class_by_resource[resource])
        requests += of_resource.requests()
        uses += of_resource.uses
    if not requests:
        return None
    name = _claim_name(pod.metadata.name, pod.metadata.uid)
    in_order = tuple(sorted(requests, key=lambda one: one.name))
    return SpecialClaim(pod.metadata.namespace, name, PodUid(pod.metadata.uid), in_order, tuple(uses))


def without_resources(pod: Pod, uses: Collection[tuple[str, str]]) -> Pod:
    """The pod without what claims give it: pairs of a container's name and a resource."""
    spec = msgspec.structs.replace(
        pod.spec,
        containers=tuple(_without(one, uses) for one in pod.spec.containers),
        init_containers=tuple(_without(one, uses) for one in pod.spec.init_containers),
    )
    return msgspec.structs.replace(pod, spec=spec)


def without_claimed_resources(pod: Pod) -> Pod:
    """The pod without what the special claim gives it that its status names."""
    status = pod.status.extended_resource_claim_status
    if status is None:
        return pod
    return without_resources(
        pod, {(one.container_name, one.resource_name) for one in status.request_mappings}
    )


class _OfResource:
    """What the containers of a pod ask of one resource."""

    def __init__(self, pod: Pod, resource: str, class_name: str) -> None:
        self._containers = (*pod.spec.init_containers, *pod.spec.containers)
        self._resource = resource
        self._class_name = class_name
        first = len(pod.spec.init_containers)
        self._is_short = [
            place < first and one.restart_policy != ALWAYS for place, one in enumerate(self._containers)
        ]
        self.uses: list[RequestUse] = []

    def requests(self) -> list[SpecialRequest]:
        """One for each container that lasts, and one for the most that an init container lacks beside them.

        An init container uses what containers after it will have: it has ended by then.
        """
        lasting: dict[int, SpecialRequest] = {}
        for place, container in enumerate(self._containers):
            if not self._is_short[place] and (count := self._count(container)):
                lasting[place] = self._request(place, count)
                self._use(container, lasting[place].name)
        largest: SpecialRequest | None = None
        own: list[tuple[Container, list[str], int, int]] = []
        for place, container in enumerate(self._containers):
            if self._is_short[place] and (count := self._count(container)):
                shared: list[str] = []
                for later in (one for at, one in lasting.items() if at > place):
                    if count <= 0:
                        break
                    shared.append(later.name)
                    count -= later.devices
                own.append((container, shared, count, place))
                if count > 0 and (largest is None or largest.devices < count):
                    largest = self._request(place, count)
        for container, shared, count, _ in own:
            for name in shared:
                self._use(container, name)
            if count > 0 and largest is not None:
                self._use(container, largest.name)
        return [*([] if largest is None else [largest]), *lasting.values()]

    def _count(self, container: Container) -> int:
        text = asked_amounts(container).get(self._resource)
        return 0 if text is None else parse_quantity(text, field=self._resource).nano // NANO_PER_UNIT

    def _request(self, place: int, count: int) -> SpecialRequest:
        number = sorted(asked_amounts(self._containers[place])).index(self._resource)
        return SpecialRequest(f"container-{place}-request-{number}", self._class_name, count)

    def _use(self, container: Container, request: str) -> None:
        self.uses.append(RequestUse(container.name, self._resource, request))


def _claim_name(pod: str, uid: str) -> str:
    end = f"-extended-resources-{hashlib.sha256(uid.encode()).hexdigest()[:DIGEST_LENGTH]}"
    return f"{pod[: NAME_LENGTH_MAX - len(end)].rstrip('-.')}{end}"


def _without(container: Container, uses: Collection[tuple[str, str]]) -> Container:
    gone = {resource for name, resource in uses if name == container.name}
    if not gone:
        return container
    of = container.resources
    resources = msgspec.structs.replace(
        of,
        requests={name: amount for name, amount in of.requests.items() if name not in gone},
        limits={name: amount for name, amount in of.limits.items() if name not in gone},
    )
    return msgspec.structs.replace(container, resources=resources)
