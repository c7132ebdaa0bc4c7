"""What a daemon that empties nodes asks for, and the answer: values on their way to a process.

``planning`` answers in a process of its own, ``planning_process`` starts that and waits for it. Neither the
engine nor a picture of the cluster is needed to read this module.
"""

from typing import Protocol

import msgspec

from gpufleet.drain.plan import DrainPlan


class Start(msgspec.Struct, frozen=True):
    """So many of these nodes may begin to be emptied; ends within ``deadline_s`` would be waited for."""

    most: int
    nodes: tuple[str, ...]
    deadline_s: int


class PlanningQuestion(msgspec.Struct, frozen=True):
    """``closed`` nodes are being emptied, each until its deadline in microseconds since 1970.

    ``starts`` may begin, by a name of the asker. ``later`` are all nodes that will be emptied after those
    that are closed. An empty node is away for ``away_s``.
    """

    closed: dict[str, int] = {}
    starts: dict[str, Start] = {}
    later: tuple[str, ...] = ()
    away_s: int = 0


class PlanningAnswer(msgspec.Struct, frozen=True):
    """The plan for the closed nodes, None where none is closed, and the nodes that are best emptied next.

    ``problem`` says why no place is kept for work that moves, or why there is no answer; "" for nothing.
    """

    plan: DrainPlan | None = None
    starts: dict[str, tuple[str, ...]] = {}
    problem: str = ""


class Planner(Protocol):
    """Answers questions about drains."""

    async def ask(self, question: PlanningQuestion) -> PlanningAnswer:
        """The answer. Raises WorldError where there is none."""
        ...
