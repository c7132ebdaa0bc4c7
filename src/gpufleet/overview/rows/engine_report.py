"""What the engine says of work that waits, as values: one process asks it, another shows the answer.

The queues are those of ``gpufleet queues``, and causes those of ``gpufleet explain``.
"""

import msgspec

from gpufleet.explain.queue_answer import QueuesAnswer, WaitingRow


class GangReport(msgspec.Struct, frozen=True, omit_defaults=True):
    """A gang as the engine has it. ``pods`` are the names of its members that have not ended.

    ``created`` is RFC 3339. ``problem`` says why the engine was not told of it.
    """

    namespace: str
    name: str
    queue: str = ""
    members_min: int = 0
    members_arrived: int = 0
    members_placed: int = 0
    gpus_milli: int = 0
    created: str = ""
    problem: str = ""
    cause: str = ""
    pods: tuple[str, ...] = ()


class EngineReport(msgspec.Struct, frozen=True, omit_defaults=True):
    """The answer, and how long it took.

    ``held`` says by uid of pods that no place is sought for why, ``causes`` of those that wait where no queue
    is described. ``leader`` says why nothing starts, "" if a scheduler leads. ``by_engine`` is False where
    rights were lacking.
    """

    queues: QueuesAnswer
    gangs: tuple[GangReport, ...] = ()
    causes: dict[str, str] = {}
    held: dict[str, str] = {}
    leader: str = ""
    notes: tuple[str, ...] = ()
    by_engine: bool = True
    took_s: float = 0.0

    def waiting(self) -> dict[tuple[str, str, str], tuple[str, WaitingRow]]:
        """The work that waits with its queue, by kind ("pod" or "gang"), namespace and name."""
        return {
            (row.kind, row.namespace, row.name): (queue.name, row)
            for queue in self.queues.queues
            for row in queue.waiting or ()
        }
