"""Gangs whose queue says so get their nodes by a ProvisioningRequest, and not by the reason of their pods.

    a gang that nodes would help, within quota -> PodTemplates -> ProvisioningRequest -> conditions

Cluster Autoscaler buys for all pods of a request or for none. What was written stands in the cluster alone: a
request names its gang and which attempt it is, and its name follows from these and from the gang's first
member. So a scheduler that begins anew after any write goes on where the last one ended. A gang starts where
there is room for it, whatever its request says; the request goes when it starts or is gone.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Sequence

import msgspec

from gpufleet.cluster.pods.gang_tracker import GangTracker
from gpufleet.cluster.pods.pod_entry import Entry
from gpufleet.cluster.queues.queue_tracker import QueueTracker
from gpufleet.cluster.waiting_reasons import ABOUT_NODES
from gpufleet.kube import keys
from gpufleet.kube.client import Client
from gpufleet.kube.codec.provisioning_requests import (
    OVER,
    OWNERS_MAX,
    POD_SETS_MAX,
    RequestState,
    owner_of,
    request_body,
    request_name,
    template_body,
    template_name,
)
from gpufleet.kube.codec.queue_provisioning import ProvisioningTerms
from gpufleet.kube.kube_errors import KubeError
from gpufleet.kube.objects.metadata import OwnerReference
from gpufleet.kube.resources import POD_TEMPLATES, PODS, PROVISIONING_REQUESTS, Kind
from gpufleet.kube.status import AlreadyExists, NotFound
from gpufleet.model.identifiers import GangName
from gpufleet.model.model_errors import printable
from gpufleet.model.shape import Shape
from gpufleet.scheduler.provisioning.attempts import MakeRequest, next_step
from gpufleet.scheduler.provisioning.known_requests import KnownRequests

LOG = logging.getLogger(__name__)
TURN_EVERY_S = 5.0
"""A failed request is made anew after minutes, and nodes take as long: there is no hurry."""

NOT_SERVED = "its queue asks for nodes by ProvisioningRequests, and the API server serves none"
ABOUT_TO_ASK = "a ProvisioningRequest is made"


class _Wanted(msgspec.Struct, frozen=True):
    """A gang that waits for nodes, and how its queue asks for them."""

    namespace: str
    terms: ProvisioningTerms


class GangRequests:
    """Makes the requests of gangs, and deletes them."""

    def __init__(
        self,
        client: Client,
        known: KnownRequests,
        gangs: GangTracker,
        queues: QueueTracker,
        now_us: Callable[[], int],
        *,
        may_write: Callable[[], bool],
    ) -> None:
        self._client = client
        self._known = known
        self._gangs = gangs
        self._queues = queues
        self._now_us = now_us
        self._may_write = may_write
        self._wanted: dict[GangName, _Wanted] = {}
        self._withdrawn: set[GangName] = set()
        self._problems: dict[GangName, str] = {}
        self._wake = asyncio.Event()

    def ask(self, entry: Entry) -> str:
        """Have nodes asked for that the gang of this member waits for; what there is to say of it.

        "" where its nodes are asked for in another way.
        """
        meaning = entry.meaning
        if meaning is None or meaning.gang is None:
            return ""
        queue = self._queues.known.get(meaning.queue)
        terms = None if queue is None else queue.provisioning
        said = entry.object.metadata.annotations
        # With such an annotation the pods belong to a request that stands already.
        if terms is None or keys.CONSUMES_REQUEST in said or keys.CONSUMES_REQUEST_BEFORE in said:
            return ""
        if not self._known.are_served:
            return f"{ABOUT_NODES}{NOT_SERVED}"
        gang = meaning.gang
        if gang not in self._wanted:
            self._withdrawn.discard(gang)
            self._wake.set()
        self._wanted[gang] = _Wanted(entry.name.namespace, terms)
        problem = self._problems.get(gang)
        if problem is not None:
            return f"{ABOUT_NODES}{problem}"
        step = next_step(self._known.newest(gang), terms, self._now_us())
        return ABOUT_NODES + (ABOUT_TO_ASK if isinstance(step, MakeRequest) else step.words)

    def pause(self, gang: GangName) -> None:
        """The gang waits for its turn and not for nodes: what was asked for stands, and no more is asked."""
        self._wanted.pop(gang, None)

    def withdraw(self, gang: GangName) -> None:
        """Nodes are not to be bought for the gang any more."""
        self._problems.pop(gang, None)
        if self._wanted.pop(gang, None) is not None:
            self._withdrawn.add(gang)
            self._wake.set()

    def consumed_by(self, entry: Entry) -> dict[str, str]:
        """The annotations by which a member that starts uses what was provided for its gang."""
        gang = None if entry.meaning is None else entry.meaning.gang
        last = None if gang is None else self._known.newest(gang)
        if last is None or last.stage in OVER or last.namespace != entry.name.namespace:
            return {}
        return {keys.CONSUMES_REQUEST: last.name, keys.REQUEST_CLASS: last.class_name}

    async def run(self) -> None:
        """Take turns until cancelled."""
        while True:
            try:
                async with asyncio.timeout(TURN_EVERY_S):
                    await self._wake.wait()
            except TimeoutError:
                pass
            self._wake.clear()
            if self._may_write():
                await self._turn()

    async def _turn(self) -> None:
        found = self._known.by_gang()
        for gang, requests in found.items():
            for one in requests:
                if gang in self._withdrawn or not self._known.is_waited_for(one):
                    await self._delete(one)
        self._withdrawn &= found.keys()
        for gang, wanted in list(self._wanted.items()):
            members = self._gangs.waiting(gang)
            if not members:
                self._wanted.pop(gang, None)
                self._problems.pop(gang, None)
                continue
            if any(one.intent is not None for one in members):
                # The gang is just being bound.
                continue
            last = self._known.newest(gang)
            step = next_step(last, wanted.terms, self._now_us())
            if isinstance(step, MakeRequest):
                await self._make(gang, step.attempt, wanted, members)
                continue
            for one in found.get(gang, ()):
                # What failed goes when the next attempt stands, whose number says how many there were.
                if last is not None and one.attempt < last.attempt:
                    await self._delete(one)

    async def _make(self, gang: GangName, attempt: int, wanted: _Wanted, members: Iterable[Entry]) -> None:
        by_shape: dict[Shape, list[Entry]] = {}
        ordered = sorted(members, key=lambda one: one.name.name)
        for one in ordered:
            if one.meaning is not None and one.name.namespace == wanted.namespace:
                by_shape.setdefault(one.meaning.shape, []).append(one)
        owners = [owner_of(one.name.name, one.name.uid) for one in ordered[:OWNERS_MAX]]
        groups = list(by_shape.values())
        if len(groups) > POD_SETS_MAX:
            most = f"a ProvisioningRequest has room for {POD_SETS_MAX} kinds of pods"
            self._problems[gang] = f"{most}, and the gang has {len(groups)}"
            return
        name = request_name(gang, owners[0], attempt)
        try:
            # The autoscaler refuses a request of which a template is missing, so these come first.
            for position, group in enumerate(groups):
                await self._make_template(template_name(name, position), group[0], owners)
            body = request_body(name, gang, attempt, [len(group) for group in groups], wanted.terms, owners)
            await self._create(PROVISIONING_REQUESTS, body, name, wanted.namespace)
        except KubeError as problem:
            words = f"its ProvisioningRequest cannot be written: {printable(str(problem), 200)}"
            if self._problems.get(gang) != words:
                LOG.warning("a ProvisioningRequest is not written", extra={"gang": gang, "problem": words})
            self._problems[gang] = words
            return
        self._problems.pop(gang, None)
        LOG.info("a ProvisioningRequest is written", extra={"gang": gang, "request": name})

    async def _make_template(self, name: str, member: Entry, owners: Sequence[OwnerReference]) -> None:
        namespace = member.name.namespace
        # What we keep of a pod is not all that it says, and the template has to say all of it.
        pod = await self._client.get(PODS, member.name.name, namespace=namespace)
        await self._create(POD_TEMPLATES, template_body(name, pod, owners), name, namespace)

    async def _create(self, kind: Kind, body: bytes, name: str, namespace: str) -> None:
        # An earlier turn, or leader, may have written the same.
        with contextlib.suppress(AlreadyExists):
            await self._client.create(kind, body, name=name, namespace=namespace)

    async def _delete(self, request: RequestState) -> None:
        """The request first: without its templates the autoscaler would call it failed."""
        try:
            await self._delete_one(PROVISIONING_REQUESTS, request.name, request.namespace)
            for position in range(POD_SETS_MAX):
                if not await self._delete_one(
                    POD_TEMPLATES, template_name(request.name, position), request.namespace
                ):
                    return
        except KubeError as problem:
            # The next turn tries again; what it does not get to goes with the gang's pods.
            extra = {"request": request.name, "problem": str(problem)}
            LOG.warning("a ProvisioningRequest is not deleted", extra=extra)

    async def _delete_one(self, kind: Kind, name: str, namespace: str) -> bool:
        try:
            await self._client.delete(kind, name, namespace=namespace)
        except NotFound:
            return False
        return True
