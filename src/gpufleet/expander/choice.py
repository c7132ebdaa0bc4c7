"""The rule by which one option is chosen, or none.

An option is useful where the engine starts offered pods with it that do not start without it. The cheapest
useful one is chosen: its price, or where one has no known price its GPUs, for each GPU that then works. Where
no option alone is useful, a gang may need several groups: of a smallest set of options that starts something,
one is chosen, and the next question brings the others. Where nothing starts, options for pods of other
schedulers are left to the autoscaler, and all others are vetoed.
"""

import enum
from collections.abc import Callable, Collection, Mapping, Sequence
from fractions import Fraction

import msgspec

from gpufleet.expander.protocol.question import Option
from gpufleet.expander.template_nodes import gpus_of
from gpufleet.kube.objects.node import Node
from gpufleet.model.identifiers import PodUid
from gpufleet.model.pod import Pod
from gpufleet.model.quantity import parse_quantity
from gpufleet.model.resource_names import CPU
from gpufleet.plan.instance_types import Catalogue
from gpufleet.plan.node_prices import price_micro

Started = Mapping[PodUid, int | None]
Judge = Callable[[Collection[int]], Started]
"""The pods that start with these options alone, each with the option that its node is of."""


class Outcome(enum.Enum):
    """What came of a question."""

    CHOSEN = "chosen"
    LEFT = "left"
    VETOED = "vetoed"


class Choice(msgspec.Struct, frozen=True):
    """The options that are answered, and the pods for which the chosen one is bought."""

    outcome: Outcome
    options: tuple[int, ...] = ()
    pods: frozenset[PodUid] = frozenset()


class Choosing:
    """One question: its options, what waits, and the engine's word on both."""

    def __init__(
        self,
        options: Sequence[Option],
        pods: Mapping[PodUid, Pod],
        judge: Judge,
        catalogue: Catalogue,
        scheduler_name: str,
    ) -> None:
        self._options = options
        self._pods = pods
        self._judge = judge
        self._scheduler_name = scheduler_name
        self._prices = [price_micro(one.node, catalogue) for one in options]

    def choice(self) -> Choice:
        """One option, the options of others, or none."""
        everyone = range(len(self._options))
        ours = [at for at in everyone if any(pod.uid in self._pods for pod in self._options[at].pods)]
        useful = {at: started for at in ours if (started := self._helped([at]))}
        if useful:
            best = min(useful, key=lambda at: self._rank(at, useful[at], useful))
            return Choice(Outcome.CHOSEN, (best,), frozenset(useful[best]))
        together = self._smallest_set(ours)
        if together:
            best, started = together
            pods = frozenset(uid for uid, at in started.items() if at == best)
            return Choice(Outcome.CHOSEN, (best,), pods)
        others = tuple(at for at in everyone if self._has_others(self._options[at]))
        return Choice(Outcome.LEFT, others) if others else Choice(Outcome.VETOED)

    def _helped(self, chosen: Collection[int]) -> Started:
        """What starts; nothing where none of it was offered: then the nodes are for other pods."""
        offered = {pod.uid for at in chosen for pod in self._options[at].pods}
        started = self._judge(chosen)
        return started if any(uid in offered for uid in started) else {}

    def _smallest_set(self, ours: Sequence[int]) -> tuple[int, Started] | None:
        """The first of options that start something together and of which none can be left out."""
        if len(ours) < 2 or not (started := self._helped(ours)):
            return None
        kept = list(ours)
        # The dearest is tried first: it is left out where the others do without it.
        for at in sorted(ours, key=self._cost_alone, reverse=True):
            fewer = [one for one in kept if one != at]
            if fewer and (without := self._helped(fewer)):
                kept, started = fewer, without
        return kept[0], started

    def _cost_alone(self, at: int) -> tuple[int, int]:
        return self._prices[at] or 0, self._options[at].node_count

    def _rank(self, at: int, started: Started, useful: Collection[int]) -> tuple[Fraction, int, str]:
        option = self._options[at]
        gpus = sum(self._pods[uid].shape.gpu.total_milli for uid in started)
        work = gpus or sum(self._pods[uid].shape.resources.cpu_milli for uid in started)
        prices = [self._prices[one] for one in useful]
        each = self._prices[at] if None not in prices else _size_milli(option.node, by_gpus=gpus > 0)
        return Fraction(option.node_count * (each or 0), max(1, work)), option.node_count, option.group

    def _has_others(self, option: Option) -> bool:
        return any(pod.scheduler_name != self._scheduler_name for pod in option.pods)


def _size_milli(node: Node, *, by_gpus: bool) -> int:
    if by_gpus:
        return sum(parse_quantity(amount).milli_value() for _, amount in gpus_of(node))
    return parse_quantity(node.status.allocatable.get(CPU, "0")).milli_value()
