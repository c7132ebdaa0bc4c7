"""GPU-hours that stand idle on nodes whose work a rollout waits for, with and without others beside it.

Four nodes of the openb trace get all tasks of the trace whose end it knows, in its own time: about as much as
they can do. Every task says how long it runs. One node at a time is closed, for an hour at most: what ends by
then is waited for, and all else is evicted when the node is closed. A node is away for ``AWAY_S`` when it is
empty. Both ways are the same but for the moment that closed nodes tell to the scheduler
(``Node.draining_until_us``). What is idle is looked at once a minute.
"""

from collections.abc import Iterable, Sequence

import msgspec

from bench.figures import Figure, figure
from bench.operate.drain_loss import AWAY_S, OPENB, US_PER_S, Play, Reading
from gpufleet.engine.event import Event, NodeSet, PodAdded
from gpufleet.model.identifiers import NodeName, PodUid
from gpufleet.model.node import Node
from gpufleet.model.pod import Pod
from gpufleet.operator.rollout.node_step import BACKFILL_MARGIN_S
from gpufleet.replay.saturate import pod_of
from gpufleet.replay.trace import Trace, read_trace

NODES, GPUS, ROLLOUTS = 4, 8, 3
DEADLINE_S, STEP_S = 3600, 60
MILLI_S_PER_GPU_HOUR = 1000 * 3600
NOTES = (
    f"drain, beside: {ROLLOUTS} rollouts over {NODES} nodes, one at a time; waits for ends within an hour",
)


class Beside(Play):
    """The trace on few nodes, and a rollout that waits for ends."""

    def __init__(self, trace: Trace, *, is_filled: bool) -> None:
        super().__init__(trace, Reading.ENDS)
        self.is_filled = is_filled
        self.idle_milli_s = 0
        self.late = 0

    def pod(self, uid: PodUid) -> Pod:
        """A task as a pod that says how long it runs."""
        task = self.tasks[uid]
        left_us = None if task.duration_us is None else max(1, task.duration_us - self.done_us[uid])
        return msgspec.structs.replace(pod_of(task), uid=uid, name=task.name, run_time_us=left_us)

    def due(self, uids: Sequence[PodUid]) -> Iterable[Event]:
        """As the trace says, and each arrival says how long it runs."""
        for event in super().due(uids):
            yield PodAdded(self.pod(event.pod.uid)) if isinstance(event, PodAdded) else event

    def rollout(self) -> None:
        """All nodes, one after the other."""
        for name in sorted(self.nodes):
            self.change(name)

    def change(self, name: NodeName) -> None:
        """Close a node, wait for what ends there, and open it again when it was away."""
        until_us = self.player.at_us + DEADLINE_S * US_PER_S
        fill_us = until_us - BACKFILL_MARGIN_S * US_PER_S if self.is_filled else None
        self.player.happen([NodeSet(self.closed(name, fill_us))])
        gone = [uid for uid in self.on(name) if (self.end_us(uid) or until_us + 1) > until_us]
        self.player.happen([event for uid in gone for event in self.end_and_make_anew(uid)])
        while (held := self.on(name)) and self.player.at_us <= until_us:
            used_milli = sum(self.running[uid].task.shape.gpu.total_milli for uid in held)
            self.player.wait_until(self.player.at_us + STEP_S * US_PER_S)
            self.idle_milli_s += STEP_S * (1000 * len(self.nodes[name].devices) - used_milli)
        # What was there at the beginning has ended: no other work is left than what came beside it.
        self.late += len(held)
        self.player.happen([NodeSet(self.closed(name, None))])
        self.player.wait_until(self.player.at_us + AWAY_S * US_PER_S)
        self.player.happen([NodeSet(self.nodes[name])])

    def closed(self, name: NodeName, until_us: int | None) -> Node:
        """A node that takes nothing but what has ended by then, or nothing at all."""
        return msgspec.structs.replace(self.nodes[name], unschedulable=True, draining_until_us=until_us)

    def on(self, name: NodeName) -> list[PodUid]:
        """The tasks on a node."""
        return [uid for uid, one in self.running.items() if one.node == name]


def figures() -> list[Figure]:
    """Both ways, and the share of idle GPU-hours that is left."""
    whole = read_trace(OPENB / "openb_node_list_gpu_node.csv", OPENB / "openb_pod_list_default.csv")
    nodes = tuple(one for one in whole.nodes if len(one.devices) == GPUS)[:NODES]
    tasks = tuple(one for one in whole.tasks if one.duration_us is not None)
    found = []
    for is_filled in (False, True):
        play = Beside(msgspec.structs.replace(whole, nodes=nodes, tasks=tasks), is_filled=is_filled)
        for _ in range(ROLLOUTS):
            play.rollout()
        found.append(play)
    filled = found[-1]
    hours = [one.idle_milli_s / MILLI_S_PER_GPU_HOUR for one in found]
    lengths_us = [one.player.at_us - one.begin_us for one in found]
    return [
        figure("drain, beside: idle on closed nodes without others", hours[0], "GPU-hours", "lower"),
        figure("drain, beside: idle on closed nodes with others", hours[1], "GPU-hours", "lower"),
        figure("drain, beside: length with others", lengths_us[1] / lengths_us[0], "x", "lower", 1.0),
        figure("drain, beside: others that had not ended in time", filled.late, "pods", "lower", 0),
    ]
