"""What the engine makes of distrust: a node that is left alone is refused to all pods until its time is over.

``node_trust`` counts and decides; here the decision becomes a reason of the node
(``node_reasons.rejects_pods``) and an instruction, so that the shell writes it where the next leader finds
it.
"""

from gpufleet.engine import event
from gpufleet.engine.instruction import AnyInstruction, NodeDistrusted, NodeTrusted
from gpufleet.engine.lifecycle.engine_state import EngineState
from gpufleet.engine.lifecycle.node_trust import NodeTrust
from gpufleet.engine.lifecycle.nominations import Nominations
from gpufleet.model.identifiers import NodeName


class DistrustedNodes:
    """Keeps the nodes of the fleet marked as ``NodeTrust`` has them."""

    def __init__(self, state: EngineState, nominations: Nominations) -> None:
        self.state = state
        self.nominations = nominations
        self.trust = NodeTrust()
        self.unreported: list[AnyInstruction] = []

    def rejected(self, happened: event.KubeletRejected, at_us: int) -> None:
        """A kubelet turned a pod away."""
        if self.trust.reject(happened.node, at_us):
            self._distrust(happened.node)

    def offered(self, happened: event.DevicesOffered, at_us: int) -> None:
        """A node's kubelet was told of its devices."""
        if self.trust.offered(happened.node, happened.since, at_us):
            self._trust(happened.node)

    def recall(self, happened: event.NodeDistrustRecalled, at_us: int) -> None:
        """A node was left alone before a restart; what is over by now ends with the next ``settle``."""
        self.trust.recall(happened.node, happened.until_us, happened.next_pause_us, at_us)
        if self.trust.is_distrusted(happened.node, at_us):
            self._mark(happened.node, distrusted=True)

    def node_removed(self, name: NodeName) -> None:
        """A node is gone."""
        self.trust.forget(name)
        self.state.fleet.mark_distrusted(name, distrusted=False)

    def settle(self, at_us: int) -> None:
        """Trust the nodes again that have been left alone for long enough."""
        for name in self.trust.regained(at_us):
            self._trust(name)

    def next_due_us(self) -> int | None:
        """When the next node is trusted again."""
        return self.trust.next_regained_us()

    def take_instructions(self) -> list[AnyInstruction]:
        """What is to be said of nodes since the last call."""
        told, self.unreported = self.unreported, []
        return told

    def _distrust(self, name: NodeName) -> None:
        self._mark(name, distrusted=True)
        pause_us = self.trust.next_pause_us(name)
        self.unreported.append(NodeDistrusted(name, self.trust.until_us(name), pause_us))

    def _trust(self, name: NodeName) -> None:
        self._mark(name, distrusted=False)
        self.unreported.append(NodeTrusted(name, self.trust.next_pause_us(name)))

    def _mark(self, name: NodeName, *, distrusted: bool) -> None:
        is_news = self.state.fleet.mark_distrusted(name, distrusted=distrusted)
        row = self.state.fleet.row_by_name.get(name)
        if is_news and row is not None:
            self.nominations.cancel_on(row)
            self.state.judge_node_anew(row)
