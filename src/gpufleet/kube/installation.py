"""Whether what gpufleet installs in a cluster is there and at work: what `gpufleet check` tells.

Every answer is a sentence. Nothing is changed: the one write that is tried is a dry run, of a pod that names
its own devices, and it must be refused.
"""

from collections.abc import AsyncIterator, Mapping

import msgspec

from gpufleet.kube import keys
from gpufleet.kube.answer import decode
from gpufleet.kube.client import Client
from gpufleet.kube.definition_skew import missing_fields, words
from gpufleet.kube.lease import LeaseObject
from gpufleet.kube.objects.node_devices import HEALTHY, NodeDevices
from gpufleet.kube.objects.structure import Structure
from gpufleet.kube.resources import DAEMON_SETS, LEASES, NODE_DEVICES, OWN_KINDS, PODS
from gpufleet.kube.status import Forbidden, NotFound
from gpufleet.model.model_errors import printable
from gpufleet.model.phrases import counted, verb

# The names under which the chart installs its parts.
SCHEDULER_LEASE = "gpufleet-scheduler"
AGENTS = "gpufleet-agent"
GUARD = "gpufleet-grant-guard"
RENEWED_WITHIN_S = 30.0
"""Long enough for another to take over from a leader that has just ended."""
POLL_EVERY_S = 0.5
"""Short beside the seconds between two renewals of a Lease."""

REPLICA = "::"
"""What stands between a card and the number of its replica, in names of devices."""


class InstallationFinding(msgspec.Struct, frozen=True):
    """One thing that was looked at; ``sentence`` says how it is, and what to do where it is not ``good``."""

    good: bool
    sentence: str


class DaemonSetStatus(Structure, frozen=True):
    """How many nodes shall have a pod, and how many have one that is ready and new."""

    desired_number_scheduled: int = 0
    number_ready: int = 0
    updated_number_scheduled: int = 0


class DaemonSet(Structure, frozen=True):
    """The part of a DaemonSet that is asked about."""

    status: DaemonSetStatus = DaemonSetStatus()


_LEASE = msgspec.json.Decoder(LeaseObject)
_DAEMON_SET = msgspec.json.Decoder(DaemonSet)
_NODE_DEVICES = msgspec.json.Decoder(NodeDevices)


async def findings(client: Client, namespace: str) -> AsyncIterator[InstallationFinding]:
    """Everything that is looked at, in the order in which it depends on one another.

    ``namespace`` is where gpufleet is installed. Raises KubeError where the server cannot be asked.
    """
    served = await client.serves(NODE_DEVICES)
    yield InstallationFinding(served, "NodeDevices are served" if served else _MISSING_DEFINITION)
    yield await _definitions(client)
    yield await _guard(client, namespace)
    yield await _leader(client, namespace)
    agents = await _agent_status(client, namespace)
    yield _agents(agents, namespace)
    if served:
        yield await reported(client, 0 if agents is None else agents.number_ready)


_MISSING_DEFINITION = "the kind NodeDevices is not served: install the chart with crds.install=true"


async def _definitions(client: Client) -> InstallationFinding:
    missing = await missing_fields(client, OWN_KINDS)
    if missing:
        return InstallationFinding(good=False, sentence=words(missing))
    return InstallationFinding(
        good=True, sentence="the cluster's definitions know every field of this release"
    )


async def _guard(client: Client, namespace: str) -> InstallationFinding:
    try:
        await client.create(PODS, _forged(), namespace=namespace, dry_run=True)
    except Forbidden as answer:
        if GUARD in answer.message:
            return InstallationFinding(good=True, sentence="a pod that names its own devices is refused")
        # Another policy refused it first, so this one was not asked.
        said = printable(answer.message, 200)
        return InstallationFinding(
            good=False, sentence=f"it is not known whether a pod may name its own devices: {said}"
        )
    return InstallationFinding(
        good=False,
        sentence=f"a pod may name its own devices: the admission policy {GUARD} is not in force",
    )


def _forged() -> Mapping[str, object]:
    """A pod that gives itself a device; it asks for nothing that any other policy would refuse."""
    forged = '{"v":1,"epoch":1,"containers":{"forged":[{"id":"forged"}]}}'
    secure = {
        "allowPrivilegeEscalation": False,
        "runAsNonRoot": True,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    container = {"name": "forged", "image": "none", "securityContext": secure}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "gpufleet-check", "annotations": {keys.GRANT: forged}},
        "spec": {"containers": [container], "automountServiceAccountToken": False},
    }


async def _leader(client: Client, namespace: str) -> InstallationFinding:
    """A leader renews its Lease every few seconds; only a change of the time counts: clocks may differ."""
    first = await _lease(client, namespace)
    if first is None or not first.spec.holder_identity:
        sentence = f"no scheduler leads: the Lease {SCHEDULER_LEASE} in {namespace} has no holder"
        return InstallationFinding(good=False, sentence=sentence)
    waited_s = 0.0
    while waited_s < RENEWED_WITHIN_S:
        await client.clock.sleep(POLL_EVERY_S)
        waited_s += POLL_EVERY_S
        now = await _lease(client, namespace)
        if now is not None and now.spec.holder_identity and now.spec.renew_time != first.spec.renew_time:
            holder = printable(now.spec.holder_identity, 100)
            return InstallationFinding(good=True, sentence=f"the scheduler {holder} leads")
    holder = printable(first.spec.holder_identity, 100)
    sentence = f"no scheduler leads: {holder} has not renewed its Lease for {RENEWED_WITHIN_S:.0f} s"
    return InstallationFinding(good=False, sentence=sentence)


async def _lease(client: Client, namespace: str) -> LeaseObject | None:
    try:
        return decode(await client.get(LEASES, SCHEDULER_LEASE, namespace=namespace), _LEASE)
    except NotFound:
        return None


async def _agent_status(client: Client, namespace: str) -> DaemonSetStatus | None:
    try:
        return decode(await client.get(DAEMON_SETS, AGENTS, namespace=namespace), _DAEMON_SET).status
    except NotFound:
        return None


def _agents(found: DaemonSetStatus | None, namespace: str) -> InstallationFinding:
    if found is None:
        sentence = f"there is no DaemonSet {AGENTS} in {namespace}: what nodes report comes from elsewhere"
        return InstallationFinding(good=True, sentence=sentence)
    wanted, ready = found.desired_number_scheduled, found.number_ready
    good = ready >= wanted and found.updated_number_scheduled >= wanted
    way_out = "" if good else f"; see kubectl get pods -n {namespace} -o wide"
    return InstallationFinding(
        good, f"{ready} of {counted(wanted, 'agent')} {verb(ready, 'are')} ready{way_out}"
    )


async def reported(client: Client, agents: int) -> InstallationFinding:
    """What is reported; an agent that is ready and does not report keeps work with GPUs from its node."""
    nodes, cards, sick = 0, 0, 0
    async for page in client.list_pages(NODE_DEVICES):
        for raw in page.items or ():
            # A card that is shared in turns is listed once for each turn.
            health = {_card(one.id): one.health for one in decode(raw, _NODE_DEVICES).spec.devices}
            nodes += 1
            cards += len(health)
            sick += sum(one != HEALTHY for one in health.values())
    out = f", {sick} of them out of service" if sick else ""
    report = "1 node reports" if nodes == 1 else f"{nodes} nodes report"
    sentence = f"{report} {cards} GPU{'' if cards == 1 else 's'}{out}"
    if nodes < agents:
        lack = f"of {agents} agents that are ready {agents - nodes} do not report"
        return InstallationFinding(
            good=False, sentence=f"{sentence}; {lack}: compare kubectl get nodedevices with the nodes"
        )
    return InstallationFinding(good=True, sentence=sentence)


def _card(device: str) -> str:
    return device.partition(REPLICA)[0]
