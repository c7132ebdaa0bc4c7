"""What a drain is planned from: the nodes and the work on them, as values. ``planner`` answers it."""

from collections.abc import Collection, Iterable
from typing import Protocol

import msgspec

from gpufleet.model.identifiers import NodeName, PodUid

# GPUs are counted in thousandths, as shares are, and time in microseconds, as by the engine.
MILLI_PER_GPU = 1000
US_PER_S = 1_000_000


class PodThere(msgspec.Struct, frozen=True):
    """A pod that runs on a node and holds so many thousandths of GPUs; ``path`` is namespace/name."""

    uid: PodUid
    path: str
    node: NodeName
    gpu_milli: int


class RunningWork(msgspec.Struct, frozen=True):
    """A gang, or a pod of none, as it runs: it moves whole or not at all.

    ``ends_at_us`` is when all of it will have ended, None where that is not known. ``saved_at_us`` is since
    when its work is lost with it: its last checkpoint or its start, None where neither is known.
    ``saves_on_request``: it writes a checkpoint when it is asked. ``stays`` says why it cannot be moved, ""
    where it can; such work is waited for, or a person ends it. ``is_placed_by_others``: another scheduler
    finds its next place, and no place is sought here. ``is_ending``: it was told to end, and is waited for
    however long that takes, since it may hold its GPUs until it is gone.
    """

    name: str
    pods: tuple[PodThere, ...]
    ends_at_us: int | None = None
    saved_at_us: int | None = None
    saves_on_request: bool = False
    stays: str = ""
    is_placed_by_others: bool = False
    is_ending: bool = False

    @property
    def nodes(self) -> frozenset[NodeName]:
        """Where it runs."""
        return frozenset(pod.node for pod in self.pods)

    @property
    def gpu_milli(self) -> int:
        """All that it holds, in thousandths of a GPU."""
        return sum(pod.gpu_milli for pod in self.pods)

    def lost_milli_us(self, at_us: int) -> int:
        """The work that ends with it then, in thousandths of a GPU times microseconds; 0 where unknown."""
        since_us = at_us if self.saved_at_us is None else min(at_us, self.saved_at_us)
        return 0 if self.saves_on_request else self.gpu_milli * (at_us - since_us)


class DrainNode(msgspec.Struct, frozen=True):
    """A node that is to be emptied, and how much it has, in thousandths of a GPU.

    ``until_us`` is the deadline of a node that is closed already, None where the rules say how long it is.
    """

    name: NodeName
    gpu_milli: int
    until_us: int | None = None


class DrainRules(msgspec.Struct, frozen=True):
    """How nodes are drained.

    At most ``nodes_at_once`` are closed at the same time. Ends that come within ``deadline_s`` of the moment
    at which a node is closed are waited for. An empty node is away for ``away_s`` (a change of its driver, a
    reboot) and takes work again then; None: it is not known when it comes back. Work that moves does nothing
    for ``restart_s``, so that no move is for nothing; that decides the order, and is no part of the losses.
    """

    nodes_at_once: int = 1
    deadline_s: int = 3600
    away_s: int | None = None
    restart_s: int = 300


class DrainQuestion(msgspec.Struct, frozen=True):
    """Which nodes are to be drained, and all work that runs in the cluster, at one moment.

    ``later`` are nodes that are not planned yet and will be drained too: work goes there only where nothing
    else is free.
    """

    now_us: int
    nodes: tuple[DrainNode, ...]
    work: tuple[RunningWork, ...]
    rules: DrainRules = DrainRules()
    later: frozenset[NodeName] = frozenset()


class Places(Protocol):
    """A fleet on which places for running work are found; each answer counts on those before it."""

    def leave(self, uids: Iterable[PodUid]) -> None:
        """Let pods end: their room is free."""
        ...

    def has_room(self, uids: Iterable[PodUid], closed: Collection[NodeName]) -> bool:
        """True if ``place`` would find places for these pods; nothing changes."""
        ...

    def place(
        self, uids: Iterable[PodUid], closed: Collection[NodeName], avoided: Collection[NodeName]
    ) -> dict[PodUid, NodeName] | None:
        """Take these pods off their nodes and place all of them on nodes that are not ``closed``.

        Nodes that are ``avoided`` get those that fit nowhere else. None, and nothing changes, where one of
        them fits nowhere.
        """
        ...
