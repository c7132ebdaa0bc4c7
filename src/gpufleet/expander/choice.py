"""The rule by which one option is chosen, or none.

An option is useful where the engine starts pods with it, like those that are offered, that do not start
without it. The cheapest useful one is chosen: its price, or where one has no known price its GPUs, for each
GPU that then works. Where no option alone is useful, a gang may need several groups: of a smallest set of
options that starts something, one is chosen, and the next question brings the others. Where nothing starts,
options for pods of other schedulers, and for requests and buffers, are left to the autoscaler, and all others
are vetoed.

The autoscaler says how many nodes an option has, for all pods that it is asked for. Where nodes of the choice
would stay empty though all options grew, offered work that starts on none of them is postponed: nothing is
bought now, the autoscaler is asked for it no more, and its next options are of the work that starts.
"""

import enum
import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from fractions import Fraction

import msgspec

from gpufleet.expander.judgement import Judgement, Start
from gpufleet.expander.protocol.question import Option
from gpufleet.expander.template_nodes import gpus_of
from gpufleet.kube.objects.node import Node
from gpufleet.model.identifiers import PodUid
from gpufleet.model.quantity import parse_quantity
from gpufleet.model.resource_names import CPU
from gpufleet.plan.instance_types import Catalogue
from gpufleet.plan.node_prices import price_micro

Started = Mapping[PodUid, Start]
Judge = Callable[[Collection[int]], Started]
"""The pods that start with these options alone."""


class Outcome(enum.Enum):
    """What came of a question."""

    CHOSEN = "chosen"
    LEFT = "left"
    VETOED = "vetoed"
    POSTPONED = "postponed"


class Choice(msgspec.Struct, frozen=True):
    """The options that are answered, the pods for which the chosen one is bought, and those postponed.

    ``is_brief``: only until the next question, which then shows for what nodes were given up.
    """

    outcome: Outcome
    options: tuple[int, ...] = ()
    pods: frozenset[PodUid] = frozenset()
    postponed: frozenset[PodUid] = frozenset()
    is_brief: bool = False


class Choosing:
    """One question: its options, what waits, and the engine's word on both."""

    def __init__(
        self, options: Sequence[Option], judgement: Judgement, catalogue: Catalogue, scheduler_name: str
    ) -> None:
        self._options = options
        self._pods = judgement.pods
        self._kinds = judgement.kinds
        self._judgement = judgement
        self._judge = functools.cache(judgement.started)
        self._scheduler_name = scheduler_name
        self._prices = [price_micro(one.node, catalogue) for one in options]

    def choice(self) -> Choice:
        """One option, the options of others, or none."""
        everyone = range(len(self._options))
        ours = [at for at in everyone if self._like_offered([at])]
        others = tuple(at for at in everyone if self._has_others(self._options[at]))
        if self._judgement.is_unclear and (hiding := self._beside(ours)):
            return Choice(Outcome.POSTPONED, others, postponed=hiding, is_brief=True)
        useful = {at: started for at in ours if (started := self._helped([at]))}
        if useful:
            best = min(useful, key=lambda at: self._rank(at, useful[at], useful))
            found: tuple[int, Started] | None = (best, useful[best])
        else:
            found = self._smallest_set(ours)
        if found is None:
            outcome = Outcome.LEFT if others else Outcome.VETOED
            return Choice(outcome, others, postponed=self._never_started(ours))
        best, started = found
        if not self._is_filled(best, started):
            everything = self._judge(frozenset(ours))
            if self._is_filled(best, everything):
                started = everything
            elif postponed := self._never_started(ours):
                return Choice(Outcome.POSTPONED, others, postponed=postponed)
        pods = frozenset(uid for uid, one in started.items() if one.option == best)
        return Choice(Outcome.CHOSEN, (best,), pods)

    def _never_started(self, ours: Sequence[int]) -> frozenset[PodUid]:
        """Of the work beside that for which nodes are on their way what starts with no option."""
        beside = self._beside(ours)
        return beside - self._judge(frozenset(ours)).keys() if beside else beside

    def _beside(self, ours: Sequence[int]) -> frozenset[PodUid]:
        """Pods like those offered, and the rest of their gangs, without nodes on their way for any of it.

        The autoscaler is asked for all of them: what waits for quota or members hides nothing.
        """
        like = self._like_offered(ours)
        gangs = {gang for uid in like if (gang := self._pods[uid].gang) is not None}
        concerned = {uid for uid, pod in self._pods.items() if uid in like or pod.gang in gangs}
        said = self._judgement
        expecting = {said.gangs[uid] for uid in said.expecting if uid in said.gangs}
        hidden = (concerned & said.shown) - said.expecting - said.postponed
        return frozenset(uid for uid in hidden if said.gangs.get(uid) not in expecting)

    def _is_filled(self, at: int, started: Started) -> bool:
        used = {one.node for one in started.values() if one.option == at}
        return len(used) == self._options[at].node_count

    def _like_offered(self, chosen: Collection[int]) -> set[PodUid]:
        """The pods that wait and are offered, or like such.

        Of pods that are alike the autoscaler offers any, and leaves out others for room that is on its way.
        """
        offered = {pod.uid for at in chosen for pod in self._options[at].pods}
        kinds = {self._kinds[uid] for uid in offered if uid in self._kinds}
        return {uid for uid in self._pods if uid in offered or self._kinds[uid] in kinds}

    def _helped(self, chosen: Collection[int]) -> Started:
        """What starts; nothing where none of it is like what was offered: the nodes are for other pods."""
        started = self._judge(frozenset(chosen))
        return started if self._like_offered(chosen) & started.keys() else {}

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
        """Whether the engine has no say: for a request the autoscaler itself buys all or nothing."""
        return any(pod.is_virtual or pod.scheduler_name != self._scheduler_name for pod in option.pods)


def _size_milli(node: Node, *, by_gpus: bool) -> int:
    if by_gpus:
        return sum(parse_quantity(amount).milli_value() for _, amount in gpus_of(node))
    return parse_quantity(node.status.allocatable.get(CPU, "0")).milli_value()
