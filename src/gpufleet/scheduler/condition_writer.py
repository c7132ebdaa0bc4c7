"""Writing what was decided for a while into conditions of nodes and pods, for the next leader and for people.

Only the newest word of each condition is kept. A write that fails is tried again until it arrives, its object
is gone, or there is something newer to say: the decision holds meanwhile, and only a new leader would not
know of it.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping

import msgspec

from gpufleet.kube import resources
from gpufleet.kube.client import Client, PatchType
from gpufleet.kube.codec.lasting_conditions import (
    BindPause,
    Distrust,
    RefusedVolume,
    Said,
    ShortGang,
    write_bind_pause,
    write_distrust,
    write_refused_eviction,
    write_refused_volumes,
    write_short_gang,
)
from gpufleet.kube.codec.lookup import Lookup
from gpufleet.kube.codec.times import whole_time
from gpufleet.kube.kube_errors import KubeError
from gpufleet.kube.objects.node import PLACES_KEPT, PODS_REJECTED
from gpufleet.kube.objects.pod import BIND_REFUSED, EVICTION_REFUSED, GANG_SHORT, VOLUME_REFUSED
from gpufleet.kube.resources import Kind
from gpufleet.kube.status import Conflict, NotFound
from gpufleet.model.identifiers import NodeName
from gpufleet.model.pod_name import PodName
from gpufleet.model.visible import visible_text

PAUSE_S = 2.0
"""Between two tries while the server does not take a write."""


class Target(msgspec.Struct, frozen=True):
    """A condition of one object."""

    kind: Kind
    namespace: str
    name: str
    uid: str
    type: str


class ConditionWriter:
    """Keeps what is to be written and writes it. ``may_write`` is false once another may lead."""

    def __init__(self, client: Client, cluster: Lookup, *, may_write: Callable[[], bool]) -> None:
        self.client = client
        self.cluster = cluster
        self.may_write = may_write
        # The newest word for each condition: what was to be said before is no longer true.
        self._writes: OrderedDict[Target, Said] = OrderedDict()
        self._under_way: Mapping[Target, Said] = {}
        self._wake = asyncio.Event()
        self.places_written: Callable[[NodeName, Said | None], None] = lambda _node, _said: None
        """Is told what a node's condition says of kept places by now; None: the node is gone."""

    def node(self, name: NodeName, distrust: Distrust) -> None:
        """A node is left alone, or is trusted again."""
        found = self.cluster.find(resources.NODES, name)
        if found is not None:
            target = Target(resources.NODES, "", name, found.metadata.uid, PODS_REJECTED)
            self._put(target, write_distrust(distrust))

    def places(self, name: NodeName, said: Said) -> bool:
        """For which moved pods a node keeps places; False where there is no such node."""
        found = self.cluster.find(resources.NODES, name)
        if found is None:
            return False
        self._put(Target(resources.NODES, "", name, found.metadata.uid, PLACES_KEPT), said)
        return True

    def pod(self, pod: PodName, refused: tuple[RefusedVolume, ...]) -> None:
        """Nodes are left out for a pod's claims, or none any more."""
        self._put(_of_pod(pod, VOLUME_REFUSED), write_refused_volumes(refused))

    def eviction(self, pod: PodName, cause: str, until_us: int) -> None:
        """The eviction of a pod was refused, and is not asked for again before a whole second."""
        self._put(_of_pod(pod, EVICTION_REFUSED), write_refused_eviction(cause, until_us))

    def bind(self, pod: PodName, pause: BindPause) -> None:
        """Bindings of a pod were refused, and it pauses."""
        self._put(_of_pod(pod, BIND_REFUSED), write_bind_pause(pause))

    def gang(self, member: PodName, short: ShortGang | None) -> None:
        """What the gang of a running member went through that is short of members; None: it is whole."""
        self._put(_of_pod(member, GANG_SHORT), write_short_gang(short))

    def outstanding(self) -> Mapping[Target, Said]:
        """What the server was not told yet, as far as is known."""
        return {**self._under_way, **self._writes}

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            if not self._writes:
                # Nothing can be put in between the question and the wait: the loop has no turn there.
                self._wake.clear()
                await self._wake.wait()
            target, said = self._writes.popitem(last=False)
            # What is being written counts as outstanding too: whether it arrives is known with the answer
            # only.
            self._under_way = {target: said}
            try:
                if await self._write(target, said):
                    self._tell_places(target, said)
            except (NotFound, Conflict):
                # Gone, or its name is another object's by now.
                self._tell_places(target, None)
            except KubeError:
                # Only if nothing newer is to be said by now.
                self._writes.setdefault(target, said)
                await self.client.clock.sleep(PAUSE_S)
            finally:
                self._under_way = {}

    def _tell_places(self, target: Target, said: Said | None) -> None:
        if target.type == PLACES_KEPT:
            self.places_written(NodeName(target.name), said)

    def _put(self, target: Target, said: Said) -> None:
        self._writes[target] = said
        self._wake.set()

    def _status(self, target: Target) -> str:
        """The status that the condition has as far as is known, "" while there is none."""
        found = self.cluster.find(target.kind, target.name, target.namespace)
        conditions = () if found is None else found.status.conditions
        return next((one.status for one in conditions if one.type == target.type), "")

    async def _write(self, target: Target, said: Said) -> bool:
        """Write once; False where that may not be done any more."""
        if not self.may_write():
            return False
        condition = {
            "type": target.type,
            "status": said.status,
            "reason": said.reason,
            "message": visible_text(said.message),
        }
        if self._status(target) != said.status:
            # The time moves with the status alone, as Kubernetes means it.
            condition["lastTransitionTime"] = whole_time(self.client.clock.now())
        # The uid makes the server refuse the patch where the name is another object's by now.
        body = {"metadata": {"uid": target.uid}, "status": {"conditions": [condition]}}
        await self.client.patch(
            target.kind,
            target.name,
            msgspec.json.encode(body),
            namespace=target.namespace,
            patch_type=PatchType.STRATEGIC,
            subresource="status",
        )
        return True


def _of_pod(pod: PodName, kind: str) -> Target:
    return Target(resources.PODS, pod.namespace, pod.name, pod.uid, kind)
