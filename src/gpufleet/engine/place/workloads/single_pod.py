"""A workload of one pod that belongs to no gang."""

from collections.abc import Iterable
from typing import NamedTuple

from gpufleet.engine.arrays.array_types import Int64Array
from gpufleet.engine.place.choose.placement import NO_NODES
from gpufleet.engine.place.choose.trial import Trial
from gpufleet.engine.place.workloads.workload import WorkloadName
from gpufleet.engine.queueing.gate import Gate
from gpufleet.engine.state.pods import PodTable
from gpufleet.model.pod import Pod


class SinglePod(NamedTuple):
    """The pod of a row; see ``Workload`` for what it answers. Made anew whenever it is asked for."""

    pods: PodTable
    row: int

    @property
    def name(self) -> WorkloadName:
        """The pod's uid."""
        return self.ranked.workload

    @property
    def title(self) -> str:
        """By the name of the pod."""
        return f"pod {self.ranked.name or self.ranked.uid}"

    @property
    def ranked(self) -> Pod:
        """The pod itself."""
        return self.pods.pod_at(self.row)

    @property
    def rows(self) -> list[int]:
        """The pod's own row alone."""
        return [self.row]

    @property
    def least(self) -> int:
        """The least number of pods with which the workload starts: one."""
        return 1

    @property
    def is_ready(self) -> bool:
        """A pod that waits is all that it needs."""
        return True

    @property
    def must_start(self) -> bool:
        """A pod that waits has not started."""
        return True

    @property
    def joins_others(self) -> bool:
        """A single pod joins no others."""
        return False

    @property
    def is_single(self) -> bool:
        """True, because the workload is one pod."""
        return True

    def asked(self, gate: Gate) -> Int64Array:
        """What the pod is charged at least, wherever it goes."""
        return gate.asked(self.row)

    def asked_and_protected(self, gate: Gate) -> tuple[Int64Array, Int64Array]:
        """All of it is protected work, or nothing."""
        asked = gate.asked(self.row)
        return asked, gate.protected_part(self.row, asked)

    def let_wait(self, rows: Iterable[int], trial: Trial) -> None:
        """A single pod that was released waits already."""

    def place(self, trial: Trial, nodes: Int64Array = NO_NODES, *, surplus: bool = False) -> list[int]:  # noqa: ARG002
        """Place the pod where its neighbours allow it."""
        return [self.row] if trial.place_row(self.row, nodes) else []
