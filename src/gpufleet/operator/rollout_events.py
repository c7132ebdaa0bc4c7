"""The Events of a rollout: on a node at each of its phases, on a policy at each state of its rollout.

They are for people who look at an object; nothing reads them, so that one that cannot be written is left out.
"""

import datetime as dt

from gpufleet.kube.client import Client
from gpufleet.kube.codec.times import whole_time
from gpufleet.kube.kube_errors import KubeError
from gpufleet.kube.objects.metadata import Metadata
from gpufleet.kube.resources import EVENTS, FLEET_POLICIES, NODES, Kind
from gpufleet.operator.events import OF_THE_CLUSTER, event_of
from gpufleet.operator.node_facts import NodeFacts
from gpufleet.operator.rollout.stamp import Progress, RolloutPhase, RolloutState, Stamp
from gpufleet.operator.rollout.windows import EPOCH

ACTION = "RollingOut"
WARNED_PHASES = frozenset({RolloutPhase.STUCK, RolloutPhase.ROLLED_BACK, RolloutPhase.FAILED})
WARNED_STATES = frozenset({RolloutState.ROLLING_BACK, RolloutState.STOPPED})
PHASES = {
    RolloutPhase.CORDONED: "no new work comes, since its driver or toolkit changes",
    RolloutPhase.WAITING: "its work is waited for",
    RolloutPhase.ASKING: "its work is asked to write a checkpoint",
    RolloutPhase.EVICTING: "its work is told to leave",
    RolloutPhase.STUCK: "something keeps its work from leaving",
    RolloutPhase.CHANGING: "its driver or toolkit changes",
    RolloutPhase.VALIDATING: "a pod checks its driver and runtime",
    RolloutPhase.RETURNED: "it is back in service with the new image",
    RolloutPhase.ROLLED_BACK: "it is back in service with the image of before",
    RolloutPhase.FAILED: "it is left as it is",
}
STATES = {
    RolloutState.CANARY: "the first nodes are under way",
    RolloutState.SOAKING: "the first nodes are watched",
    RolloutState.ROLLING: "the other nodes follow",
    RolloutState.ROLLING_BACK: "the first nodes get the image of before",
    RolloutState.STOPPED: "no further node begins",
    RolloutState.DONE: "every node that can be changed is",
}


def node_sentence(before: Stamp | None, stamp: Stamp) -> str:
    """What a node came to, or "" where nothing that matters is new."""
    same = before is not None and before.phase is stamp.phase
    if same and (stamp.phase not in WARNED_PHASES or before is None or before.reason == stamp.reason):
        return ""
    until = whole_time(EPOCH + dt.timedelta(microseconds=stamp.deadline_us))
    deadline = f", at the latest until {until}" if stamp.is_under_way else ""
    reason = f": {stamp.reason}" if stamp.reason else ""
    return f"{PHASES[stamp.phase]} ({stamp.target or 'no toolkit'}){deadline}{reason}"


def progress_sentence(progress: Progress) -> str:
    """What the rollout of a policy came to."""
    reason = f": {progress.reason}" if progress.reason else ""
    return f"{STATES[progress.state]} ({progress.target}){reason}"


class RolloutEvents:
    """Writes the Events of rollouts."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def of_node(self, facts: NodeFacts, stamp: Stamp | None) -> None:
        """The stamp of a node was written."""
        note = "" if stamp is None else node_sentence(facts.stamp, stamp)
        if stamp is not None and note:
            regarding = Metadata(name=facts.name, uid=facts.uid)
            warns = stamp.phase in WARNED_PHASES
            await self._write(NODES, regarding, f"Rollout{stamp.phase.value}", note, warns=warns)

    async def of_policy(self, policy: Metadata, before: Progress | None, progress: Progress) -> None:
        """The progress of a rollout was written."""
        if before is None or (before.state, before.target) != (progress.state, progress.target):
            reason, warns = f"Rollout{progress.state.value}", progress.state in WARNED_STATES
            await self._write(FLEET_POLICIES, policy, reason, progress_sentence(progress), warns=warns)

    async def _write(self, kind: Kind, regarding: Metadata, reason: str, note: str, *, warns: bool) -> None:
        event = event_of(kind, regarding, reason, note, self._client.clock.now(), action=ACTION, warns=warns)
        try:
            await self._client.create(EVENTS, event, namespace=OF_THE_CLUSTER)
        except KubeError:
            return
