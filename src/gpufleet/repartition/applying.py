"""A plan is written on the Nodes, and the agents of these are waited for.

The plan is made of what was read before. So a wish that others wrote for one of its cards since then refuses
it; wishes for other cards of the node stay. Each write is tied to the version of the Node that was read. A
command that is killed leaves wishes that agents carry out: it takes nothing back.
"""

import asyncio
from collections.abc import AsyncIterator, Callable

import msgspec

from gpufleet.cluster.mig_layouts.node_writer import NODE_DECODER, write_layouts
from gpufleet.cluster.settings import Settings
from gpufleet.cluster.snapshots.sources import on_cluster
from gpufleet.kube import resources
from gpufleet.kube.answer import decode
from gpufleet.kube.client import Client
from gpufleet.kube.connection import ClusterChoice, connect
from gpufleet.kube.resources import NODES
from gpufleet.mig.wanted import (
    LAYOUTS_ANNOTATION,
    STATES_ANNOTATION,
    CardLayoutState,
    LayoutState,
    Wanted,
    layout_texts,
    read_place,
    read_states,
    read_wanted,
)
from gpufleet.model.identifiers import DeviceId
from gpufleet.model.model_errors import WorldError
from gpufleet.model.phrases import counted
from gpufleet.repartition.answer import PlannedCard, RepartitionPlan
from gpufleet.repartition.command import PlanQuestion

POLL_EVERY_S = 1.0
"""An agent takes some seconds for a card, and says three states of it."""

SILENT_AFTER_S = 15.0
"""An agent answers within a few seconds; a kubelet that it asks may take ten."""

Tell = Callable[[str], None]


class MadePlan(msgspec.Struct, frozen=True):
    """A plan, and the wishes that its nodes had when it was made, as they were written."""

    plan: RepartitionPlan
    wishes_before: dict[str, str]


class LayoutsNotReachedError(WorldError):
    """Cards that do not have their layout."""


def made_plan(cluster: ClusterChoice, settings: Settings, question: PlanQuestion) -> MadePlan:
    """The plan for a cluster as it is now, to be applied. Raises InputError."""
    answering = question.answering()
    plan, wishes = on_cluster(
        cluster,
        settings,
        lambda picture, known, at, say: (
            answering(picture, known, at, say),
            {
                one.metadata.name: one.metadata.annotations.get(LAYOUTS_ANNOTATION, "")
                for one in picture.all(resources.NODES)
            },
        ),
    )
    return MadePlan(plan, {card.node: wishes[card.node] for card in plan.cards})


def apply_plan(made: MadePlan, cluster: ClusterChoice, wait_s: int, tell: Tell) -> None:
    """Write the plan, and wait until its cards have their layouts; 0 s does not wait.

    Raises WorldError where others wrote meanwhile, and LayoutsNotReachedError.
    """
    asyncio.run(_apply(made, cluster, wait_s, tell))


async def _apply(made: MadePlan, cluster: ClusterChoice, wait_s: int, tell: Tell) -> None:
    async with connect(cluster) as (client, _, _):
        for node, before in made.wishes_before.items():
            await write_layouts(client, node, _wishes(made.plan, node), before)
            tell(f"{node}: the layouts are written")
        if wait_s:
            await Waiting(client, made.plan, tell).run(wait_s)


def _wishes(plan: RepartitionPlan, node: str) -> Wanted:
    return {
        DeviceId(one.card): None if one.wish is None else tuple(map(read_place, one.wish))
        for one in plan.cards
        if one.node == node
    }


class Waiting:
    """Tells how far the cards of a plan are, until all have their layout or cannot have it."""

    def __init__(self, client: Client, plan: RepartitionPlan, tell: Tell) -> None:
        self._client = client
        self._plan = plan
        self._tell = tell
        self._told: dict[str, str] = {}
        self._silent: set[str] = {one.node for one in plan.cards}

    async def run(self, wait_s: int) -> None:
        """Wait. Raises LayoutsNotReachedError with what is missing, and why."""
        clock = self._client.clock
        begun_s = clock.monotonic_s()
        while True:
            states = {one.card: found async for one, found in self._states()}
            waited_s = clock.monotonic_s() - begun_s
            if waited_s >= SILENT_AFTER_S:
                self._tell_of_silence()
            open_cards = [card for card, one in states.items() if one is None or one.state in _OPEN]
            if not open_cards or waited_s >= wait_s:
                break
            await clock.sleep(POLL_EVERY_S)
        self._judge(states, wait_s)

    def _judge(self, states: dict[str, CardLayoutState | None], wait_s: int) -> None:
        missing = []
        for card, one in states.items():
            if one is None:
                missing.append(f"{card}: no word of its agent after {wait_s} s ({NO_AGENT})")
            elif one.state is not LayoutState.SUCCESS:
                missing.append(f"{card}: {_words(one)}")
        if missing:
            raise LayoutsNotReachedError("; ".join(missing))
        self._tell(f"{counted(len(states), 'card')} as planned")

    async def _states(self) -> AsyncIterator[tuple[PlannedCard, CardLayoutState | None]]:
        for node in dict.fromkeys(one.node for one in self._plan.cards):
            seen = decode(await self._client.get(NODES, node), NODE_DECODER).metadata
            said = read_states(seen.annotations.get(STATES_ANNOTATION, ""))
            wanted = read_wanted(seen.annotations.get(LAYOUTS_ANNOTATION, ""))
            for card in self._plan.cards:
                if card.node == node:
                    if card.card not in wanted or layout_texts(wanted[DeviceId(card.card)]) != card.wish:
                        raise LayoutsNotReachedError(f"another layout of {card.card} was written meanwhile")
                    yield card, self._state(card, said.get(DeviceId(card.card)))

    def _state(self, card: PlannedCard, said: CardLayoutState | None) -> CardLayoutState | None:
        """The state of the card, once it is of the layout of the plan."""
        if said is None or said.layout != card.wish:
            return None
        self._silent.discard(card.node)
        words = _words(said)
        if self._told.get(card.card) != words:
            self._told[card.card] = words
            self._tell(f"{card.node} {card.card}: {words}")
        return said

    def _tell_of_silence(self) -> None:
        for node in sorted(self._silent):
            self._tell(f"{node}: no word of its agent yet ({NO_AGENT})")
        self._silent.clear()


_OPEN = {LayoutState.PENDING, LayoutState.WAITING}
NO_AGENT = "it changes layouts where it runs with --mig-layouts"


def _words(state: CardLayoutState) -> str:
    took = "" if state.took is None else f" {state.took.words}"
    return f"{state.state.value}{took}, {state.problem}" if state.problem else f"{state.state.value}{took}"
