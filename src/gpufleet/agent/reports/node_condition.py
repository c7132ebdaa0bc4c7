"""Says on the Node itself how its GPUs are: a condition for machines, an annotation for people.

``kubectl describe node`` shows both. The condition gpufleet.io/GPUHealthy is True, False, or Unknown where
the health is unknown; the annotation lists each GPU that is out of service with its reason, and whatever
keeps the agent from knowing more, and goes away when there is nothing to say. Which GPU may get work is a
matter of NodeDevices; this is written only when it differs from what the Node says.
"""

import asyncio
import logging
from datetime import UTC, datetime

import msgspec

from gpufleet.agent.gpus.gpu_monitor import LOOKING
from gpufleet.agent.state.node_state import Gpu, NodeGpus
from gpufleet.agent.state.topic import Topic
from gpufleet.devices.health import Verdict
from gpufleet.kube.backoff import ONE_TRY, Backoff, RetryLimits
from gpufleet.kube.client import Client, PatchType
from gpufleet.kube.kube_errors import KubeError
from gpufleet.kube.objects.metadata import Metadata
from gpufleet.kube.objects.node import GPU_HEALTHY
from gpufleet.kube.objects.structure import Structure
from gpufleet.kube.resources import NODES
from gpufleet.model.phrases import counted

LOG = logging.getLogger(__name__)
TYPE = GPU_HEALTHY
ANNOTATION = "gpufleet.io/gpu-problems"
# `kubectl describe` shows it on one line; the annotation has all of it.
MESSAGE_LIMIT = 1000
CHECK_EVERY_S = 300.0
"""How often to see whether the Node still says so; a Node that is made anew has lost it."""

# Between tries to write, ever longer while the API server is away.
PAUSES = RetryLimits(first_s=0.5, longest_s=30.0)


class Condition(Structure, frozen=True):
    """A condition of a Node."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None
    last_heartbeat_time: str | None = None


class NodeStatus(Structure, frozen=True):
    """Of a Node's status, what concerns us."""

    conditions: tuple[Condition, ...] = ()


class Node(Structure, frozen=True):
    """A Node, as far as we read it."""

    metadata: Metadata
    status: NodeStatus = NodeStatus()


_DECODER = msgspec.json.Decoder(Node)


class NodeCondition:
    """Keeps condition and annotation of one Node up to date."""

    def __init__(self, client: Client, node: str, gpus: Topic[NodeGpus]) -> None:
        self.problem = ""
        """Why they cannot be written; empty while they can."""
        self._client = client
        self._node = node
        self._gpus = gpus

    async def run(self) -> None:
        """Follow the GPUs until cancelled."""
        backoff = Backoff(PAUSES, self._client.jitter)
        while True:
            told = self._gpus.value
            try:
                await self._tell(told)
            except KubeError as error:
                if not self.problem:
                    LOG.warning("the node's condition cannot be written", extra={"problem": str(error)})
                self.problem = f"the condition of the node {self._node} cannot be written: {error}"
                await self._client.clock.sleep(backoff.next_s())
                continue
            self.problem = ""
            backoff.reset()
            await self._until_other(told)

    async def _until_other(self, told: NodeGpus) -> None:
        try:
            async with asyncio.timeout(CHECK_EVERY_S):
                async for value in self._gpus.follow():
                    if value is not told:
                        return
        except TimeoutError:
            return

    async def _tell(self, gpus: NodeGpus) -> None:
        """Write what differs from what the Node says."""
        wanted = condition(gpus)
        if wanted is None:
            return
        node = _DECODER.decode(await self._client.get(NODES, self._node, retry_limits=ONE_TRY))
        before = next((one for one in node.status.conditions if one.type == TYPE), None)
        if before is None or _said(before) != _said(wanted):
            await self._write_condition(wanted, before)
        note = annotation(gpus)
        if node.metadata.annotations.get(ANNOTATION, "") != note:
            body = {"metadata": {"annotations": {ANNOTATION: note or None}}}
            await self._client.patch(NODES, self._node, body, retry_limits=ONE_TRY)

    async def _write_condition(self, wanted: Condition, before: Condition | None) -> None:
        now = self._client.clock.now().astimezone(UTC)
        # The API's conditions keep this time while the status stays, whatever the message says.
        since = before.last_transition_time if before and before.status == wanted.status else None
        told = msgspec.structs.replace(
            wanted, last_heartbeat_time=_text(now), last_transition_time=since or _text(now)
        )
        body = {"status": {"conditions": [msgspec.to_builtins(told)]}}
        await self._client.patch(
            NODES,
            self._node,
            body,
            patch_type=PatchType.STRATEGIC,
            subresource="status",
            retry_limits=ONE_TRY,
        )
        extra = {"status": wanted.status, "reason": wanted.reason, "told": wanted.message}
        LOG.info("the node's condition changed", extra=extra)


def condition(gpus: NodeGpus) -> Condition | None:
    """What the Node shall say; None while nothing is known yet."""
    if gpus.problems == (LOOKING,):
        return None
    sick = [gpu for gpu in gpus.gpus if gpu.health is Verdict.UNHEALTHY]
    cut = [gpu for gpu in gpus.gpus if gpu.sick_instances]
    dark = [gpu for gpu in gpus.gpus if gpu.health is Verdict.UNKNOWN]
    message = _cut("; ".join(_sentences(gpus)))
    # The worst comes first: a node has one condition.
    if sick:
        return Condition(TYPE, "False", "GPUsOutOfService", _counted(sick, gpus, "out of service", message))
    if cut:
        return Condition(TYPE, "False", "InstancesOutOfService", message)
    if dark:
        return Condition(TYPE, "Unknown", "GPUsUnknown", _counted(dark, gpus, "unknown", message))
    if gpus.gpus:
        many = f"all {len(gpus.gpus)} GPUs are" if len(gpus.gpus) > 1 else "the GPU is"
        return Condition(
            TYPE, "True", "AllHealthy", "; ".join((f"{many} healthy", *filter(None, (message,))))
        )
    # Without GPUs a problem is the reason: mostly the driver is missing.
    if gpus.problems:
        return Condition(TYPE, "Unknown", "NoDriver", message)
    return Condition(TYPE, "Unknown", "NoGPUs", "no GPU was found on this node")


def annotation(gpus: NodeGpus) -> str:
    """Each GPU that is not healthy, and each problem, one a line; empty if there is none."""
    return "\n".join(_sentences(gpus))


def _sentences(gpus: NodeGpus) -> list[str]:
    found = [f"{_named(gpu)}: {gpu.reason}" for gpu in gpus.gpus if gpu.health is not Verdict.HEALTHY]
    for gpu in gpus.gpus:
        found += [f"{uuid} of {_named(gpu)}: {why}" for uuid, why in gpu.sick_instances.items()]
    return [*found, *gpus.problems]


def _named(gpu: Gpu) -> str:
    return f"{gpu.uuid} (index {gpu.facts.index})"


def _counted(those: list[Gpu], gpus: NodeGpus, what: str, message: str) -> str:
    verb = "is" if len(those) == 1 else "are"
    return _cut(f"{len(those)} of {counted(len(gpus.gpus), 'GPU')} {verb} {what}: {message}")


def _cut(text: str) -> str:
    return text if len(text) <= MESSAGE_LIMIT else text[: MESSAGE_LIMIT - 3] + "..."


def _said(one: Condition) -> tuple[str, str, str]:
    return one.status, one.reason, one.message


def _text(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
