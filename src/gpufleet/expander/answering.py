"""A question to its answer: what the cluster is now, what the engine says of it, and what is still coming."""

import time
from collections.abc import Sequence

import msgspec

from gpufleet.expander.choice import Choice, Choosing, Outcome
from gpufleet.expander.coming_nodes import ComingNodes
from gpufleet.expander.decisions import Decision, decisions
from gpufleet.expander.judgement import Judgement, Seen
from gpufleet.expander.protocol.question import Option
from gpufleet.kube.objects.pod import Pod
from gpufleet.plan.instance_types import Catalogue


class Answered(msgspec.Struct, frozen=True):
    """What came of a question; ``coming_nodes`` counted as there.

    ``coming`` is what is on its way once the answer is sent, and ``decisions`` what is then written of pods.
    """

    choice: Choice
    coming_nodes: int
    took_s: float
    coming: tuple[ComingNodes, ...]
    decisions: tuple[tuple[Pod, Decision], ...]


class Answering:
    """Answers one question after the other, and remembers what was chosen until it has joined.

    Only what was sent is remembered: an answer that comes too late chooses nothing.

    What is remembered ends with the process: then a gang that needs several groups gets its next one when the
    nodes of the first have joined.
    """

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._coming: tuple[ComingNodes, ...] = ()

    def answer(self, seen: Seen, options: Sequence[Option], ends_at_s: float) -> Answered:
        """The choice among these options. Raises WorldError where there is no time for one."""
        began_s = time.monotonic()
        judgement = Judgement(seen, options, self._coming, ends_at_s)
        choice = Choosing(options, judgement, self._catalogue, seen.settings.scheduler_name).choice()
        coming = judgement.coming
        if choice.outcome is Outcome.CHOSEN:
            (chosen,) = (options[at] for at in choice.options)
            coming += (ComingNodes(chosen.group, chosen.node, chosen.node_count, choice.pods, seen.at),)
        decided = decisions(choice, options, judgement, seen.at)
        return Answered(choice, judgement.coming_nodes, time.monotonic() - began_s, coming, decided)

    def sent(self, answered: Answered) -> None:
        """The autoscaler gets this answer."""
        self._coming = answered.coming
