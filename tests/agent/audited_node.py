"""A real node under the auditor: API objects as they are, what the kubelet lists, what containers printed.

    audit = NodeAudit(cluster)
    audit.look(); ... audit.look()
    assert audit.verdict(kubelet=held, told=told) == []

Only how the sources are asked is here; how they are judged is ``gpufleet.auditor``, which shares nothing
with the agent and the scheduler.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import PurePath

from gpufleet.agent.state.node_state import Held
from gpufleet.auditor import pods
from gpufleet.auditor.audit import Audit
from gpufleet.auditor.finding import Finding
from gpufleet.auditor.record import FLEET_QUEUES, NAMESPACES, NODE_DEVICES, NODES, PODS, Document, Write
from gpufleet.auditor.rules import Evidence, Given, Rules, Seen
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.localkube.node.configuration import NODE_NAME
from tests.agent.churn_judge import CONTAINER, ContainerRecord

# Reports before pods: what a report still says of a pod that is gone is no harm, a pod without its report is.
ASKED = {
    NAMESPACES: "/api/v1/namespaces",
    NODES: "/api/v1/nodes",
    FLEET_QUEUES: "/apis/gpufleet.io/v1alpha1/fleetqueues",
    NODE_DEVICES: "/apis/gpufleet.io/v1alpha1/nodedevices",
    PODS: "/api/v1/pods",
}


class NodeAudit:
    """The auditor's record of a cluster with a real node, look by look."""

    def __init__(self, cluster: LocalCluster, rules: Rules | None = None) -> None:
        self._cluster = cluster
        self._known: dict[tuple[str, str], Document] = {}
        self.audit = Audit(rules)

    def look(self, at_s: float = 0.0) -> None:
        """Take in what has changed since the last look; what is gone or over goes first.

        Between two looks a pod may have ended and another got its place: in which order, no list tells.
        """
        with self._cluster.api() as api:
            for kind, path in ASKED.items():
                status, body = api.request("GET", path)
                if status == 200:
                    self._take(kind, json.loads(body).get("items") or [], at_s)

    def _take(self, kind: str, items: Sequence[Document], at_s: float) -> None:
        found = {(kind, pods.name(one)): one for one in items}
        for key, before in list(self._known.items()):
            now = found.get(key)
            if key[0] == kind and (now is None or pods.uid(now) != pods.uid(before)):
                del self._known[key]
                self.audit.follow(Write(kind, None, before, at_s))
        for key, now in sorted(found.items(), key=lambda pair: _order(pair[1])):
            known = self._known.get(key)
            if known is None or known["metadata"]["resourceVersion"] != now["metadata"]["resourceVersion"]:
                self._known[key] = now
                self.audit.follow(Write(kind, now, known, at_s))

    def verdict(self, kubelet: Sequence[Held] | None, told: Mapping[str, ContainerRecord]) -> list[Finding]:
        """What is wrong, at rest; ``told`` are containers' words by the UIDs of their pods."""
        given = None if kubelet is None else tuple(_given(one) for one in kubelet)
        seen = tuple(self._seen(uid, one) for uid, one in sorted(told.items()))
        return [*self.audit.findings, *self.audit.at_rest(Evidence(given, seen))]

    def _seen(self, uid: str, told: ContainerRecord) -> Seen:
        """Device files by number are GPUs in the order in which the node reports them."""
        report = self.audit.world.reports[NODE_NAME]
        ids = {f"nvidia{number}": one["id"] for number, one in enumerate(report["spec"]["devices"])}
        devices = frozenset(ids[PurePath(file).name] for file in told.devices)
        return Seen(uid, CONTAINER, devices, told.begin_s, told.end_s)


def _order(value: Document) -> tuple[bool, str]:
    return not pods.is_over(value), value["metadata"]["creationTimestamp"]


def _given(held: Held) -> Given:
    name = f"{held.namespace}/{held.pod}"
    return Given(NODE_NAME, name, held.container, held.resource, frozenset(held.units))
