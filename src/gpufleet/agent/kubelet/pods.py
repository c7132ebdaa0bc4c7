"""The pods of this node and their grants, as the API server knows them.

A mirror of the pods that carry this node's name, read into the little that the agent needs of them: a
node may have hundreds, and the rest of a pod is not needed here. The topic may lag behind the
kubelet, which has a watch of its own; ``ask`` reads the pods from the API server itself.
"""

import asyncio
import logging
from collections.abc import Collection, Iterator

import msgspec

from gpufleet.agent.state.node_state import GRACE_S, NodePod, NodePods
from gpufleet.agent.state.topic import Topic
from gpufleet.kube import keys
from gpufleet.kube.backoff import ONE_TRY
from gpufleet.kube.client import Client
from gpufleet.kube.codec.grant import read_grant
from gpufleet.kube.kube_errors import ObjectError
from gpufleet.kube.listing import Selection
from gpufleet.kube.mirror import PACE, Mirror, Pace
from gpufleet.kube.mirror_changes import (
    Appeared,
    Change,
    Changed,
    Listed,
    Unreadable,
    UnreadableGone,
    Vanished,
)
from gpufleet.kube.objects.pod import FAILED, SUCCEEDED
from gpufleet.kube.objects.structure import Structure
from gpufleet.kube.replica import Bad, Replica
from gpufleet.kube.resources import PODS
from gpufleet.model.model_errors import InputError, printable
from gpufleet.model.quantity import parse_quantity
from gpufleet.model.resource_names import is_extended

LOG = logging.getLogger(__name__)
# A call of the kubelet waits for it.
ASK_LIMIT_S = 5.0
ENDED_MOST = 1000
"""Far more than end between two looks at them."""

ALWAYS = "Always"
"""The restart policy of an init container that goes on beside the others, and lends nothing."""


class _Amounts(Structure, frozen=True):
    limits: dict[str, str] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        """The kubelet gives devices by limits; of an extended resource they are the requests too."""
        kept = {name: text for name, text in self.limits.items() if is_extended(name)}
        msgspec.structs.force_setattr(self, "limits", kept)


class _Variable(Structure, frozen=True):
    name: str = ""
    value: str = ""
    value_from: dict[str, msgspec.Raw] | None = None

    @property
    def names_devices(self) -> bool:
        """Whether it names devices to NVIDIA's runtime, as far as its value shows."""
        hides = self.value_from is None and self.value in keys.HIDING_VALUES
        return self.name == keys.VISIBLE_DEVICES and not hides


class _Container(Structure, frozen=True):
    name: str
    resources: _Amounts = _Amounts()
    env: tuple[_Variable, ...] = ()
    env_from: tuple[dict[str, msgspec.Raw], ...] = ()
    restart_policy: str = ""

    def __post_init__(self) -> None:
        """Of variables only what names devices is kept, and that there are others from elsewhere."""
        kept = tuple(_Variable(keys.VISIBLE_DEVICES, "all") for one in self.env if one.names_devices)[:1]
        # What a container says itself goes before what it takes from elsewhere.
        says = any(one.name == keys.VISIBLE_DEVICES for one in self.env)
        msgspec.structs.force_setattr(self, "env", kept)
        msgspec.structs.force_setattr(self, "env_from", ({},) if self.env_from and not says else ())


class _Spec(Structure, frozen=True):
    init_containers: tuple[_Container, ...] = ()
    containers: tuple[_Container, ...] = ()
    termination_grace_period_seconds: float = GRACE_S

    @property
    def all_containers(self) -> tuple[_Container, ...]:
        """Init containers first, in their order."""
        return (*self.init_containers, *self.containers)


class _State(Structure, frozen=True):
    running: dict[str, msgspec.Raw] | None = None
    terminated: dict[str, msgspec.Raw] | None = None

    def __post_init__(self) -> None:
        """Only which of them it is matters; what a runtime says of it is not kept."""
        for name in ("running", "terminated"):
            if getattr(self, name):
                msgspec.structs.force_setattr(self, name, {})


class _ContainerStatus(Structure, frozen=True):
    name: str = ""
    state: _State = _State()
    last_state: _State = _State()
    container_id: str = msgspec.field(default="", name="containerID")

    @property
    def started(self) -> bool:
        """Whether the runtime ever made it."""
        ended = self.state.terminated is not None or self.last_state.terminated is not None
        return ended or self.state.running is not None or bool(self.container_id)


class _Status(Structure, frozen=True):
    phase: str = ""
    init_container_statuses: tuple[_ContainerStatus, ...] = ()
    container_statuses: tuple[_ContainerStatus, ...] = ()

    @property
    def containers(self) -> tuple[_ContainerStatus, ...]:
        """The statuses of all containers, those of init containers first."""
        return (*self.init_container_statuses, *self.container_statuses)


class _Metadata(Structure, frozen=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: float = 0.0
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    annotations: dict[str, str] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        kept = {keys.GRANT: self.annotations[keys.GRANT]} if keys.GRANT in self.annotations else {}
        msgspec.structs.force_setattr(self, "annotations", kept)


class _Pod(Structure, frozen=True):
    metadata: _Metadata
    spec: _Spec = _Spec()
    status: _Status = _Status()


_DECODER = msgspec.json.Decoder(_Pod)


class Pods:
    """Keeps the topic of this node's pods while ``run`` runs; failures of the world are tried again."""

    def __init__(self, client: Client, node: str, topic: Topic[NodePods], pace: Pace = PACE) -> None:
        self._client = client
        self._topic = topic
        self._selection = Selection(fields=f"spec.nodeName={node}")
        self._mirror = Mirror(
            client, PODS, _DECODER, self._take, namespace="", selection=self._selection, pace=pace
        )
        self._known: NodePods = {}
        self._news = asyncio.Event()
        self._ended: dict[str, None] = {}

    @property
    def ended(self) -> Collection[str]:
        """The UIDs of pods that were finished when they went."""
        return self._ended.keys()

    @property
    def listed(self) -> bool:
        """Whether all pods of the node are in the topic; before that nothing follows from a pod's absence."""
        return self._mirror.health().listed

    @property
    def problem(self) -> str:
        """Why the topic may be out of date; empty while it follows the server."""
        problem = self._mirror.health().problem
        return problem and f"the pods of this node are not followed: {problem}"

    async def run(self) -> None:
        """Follow until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._mirror.run())
            group.create_task(self._publish())

    async def ask(self) -> NodePods:
        """The pods of this node as the server has them now. Raises KubeError, and TimeoutError."""
        found: NodePods = {}
        reader: Replica[_Pod] = Replica(_DECODER, lambda _: None)
        async with asyncio.timeout(ASK_LIMIT_S):
            async for page in self._client.list_pages(PODS, selection=self._selection, retry_limits=ONE_TRY):
                for raw in page.items or ():
                    read = reader.read(raw)
                    pod = self._bad(read) if isinstance(read, Bad) else self._read(read)
                    found[pod.uid] = pod
        return found

    async def _publish(self) -> None:
        """A whole list comes as one value; so do changes that come at once."""
        await self._mirror.wait_listed()
        while True:
            self._topic.publish(dict(self._known))
            await self._news.wait()
            self._news.clear()

    def _take(self, change: Change[_Pod]) -> None:
        match change:
            case Appeared(pod) | Changed(_, pod):
                self._known[pod.metadata.uid] = self._read(pod)
            case Vanished(pod):
                self._gone(pod.metadata.uid)
            case Unreadable():
                # Its last readable version stays: what it was granted is not given away.
                if change.uid not in self._known:
                    self._known[change.uid] = self._unreadable(
                        change.uid, change.namespace, change.name, change.problem
                    )
            case UnreadableGone():
                self._gone(change.uid)
            case Listed():
                pass
        self._news.set()

    def _gone(self, uid: str) -> None:
        before = self._known.pop(uid, None)
        if before is not None and before.finished:
            self._ended[uid] = None
            while len(self._ended) > ENDED_MOST:
                del self._ended[next(iter(self._ended))]

    def _read(self, pod: _Pod) -> NodePod:
        metadata = pod.metadata
        before = self._known.get(metadata.uid)
        found = NodePod(
            metadata.uid,
            metadata.namespace,
            metadata.name,
            requests=dict(_requests(pod.spec)),
            finished=pod.status.phase in {SUCCEEDED, FAILED},
            deleting=metadata.deletion_timestamp is not None,
            labels=metadata.labels,
            named_devices=frozenset(one.name for one in pod.spec.all_containers if one.env),
            imported_variables=frozenset(one.name for one in pod.spec.all_containers if one.env_from),
            started=frozenset(one.name for one in pod.status.containers if one.started),
            running=frozenset(one.name for one in pod.status.containers if one.state.running is not None),
            lenders=frozenset(one.name for one in pod.spec.init_containers if one.restart_policy != ALWAYS),
            grace_s=max(pod.spec.termination_grace_period_seconds, metadata.deletion_grace_period_seconds),
            first_seen_s=self._since(metadata.uid),
        )
        text = metadata.annotations.get(keys.GRANT)
        if text is None:
            return found
        try:
            return msgspec.structs.replace(found, grant=read_grant(text))
        except ObjectError as problem:
            # Told once: each change of the pod is read again.
            if before is None or before.grant_problem != str(problem):
                LOG.warning("a grant cannot be read", extra={"pod": found.title, "problem": str(problem)})
            return msgspec.structs.replace(found, grant_problem=str(problem))

    def _bad(self, bad: Bad) -> NodePod:
        return self._unreadable(bad.metadata.uid, bad.metadata.namespace, bad.metadata.name, bad.problem)

    def _unreadable(self, uid: str, namespace: str, name: str, problem: str) -> NodePod:
        sentence = f"the pod cannot be read: {printable(problem, 300)}"
        return NodePod(uid, namespace, name, grant_problem=sentence, first_seen_s=self._since(uid))

    def _since(self, uid: str) -> float:
        before = self._known.get(uid)
        return self._client.clock.monotonic_s() if before is None else before.first_seen_s


def _requests(spec: _Spec) -> Iterator[tuple[str, dict[str, int]]]:
    for container in spec.all_containers:
        counts = {name: _count(text) for name, text in container.resources.limits.items()}
        wanted = {name: count for name, count in counts.items() if count}
        if wanted:
            yield container.name, wanted


def _count(text: str) -> int:
    """Whole units; the server lets nothing else through, so what cannot be read asks for nothing."""
    try:
        return parse_quantity(text).value()
    except InputError:
        return 0
