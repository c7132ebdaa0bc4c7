"""Cards with what their Node says: the layouts that are wanted, how far they are, and for which pods."""

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from gpufleet.cluster.mig_layouts.reported_cards import cards_of
from gpufleet.kube.codec.field_path import harmless
from gpufleet.kube.codec.times import microseconds, whole_time
from gpufleet.kube.objects.node import Node
from gpufleet.kube.objects.node_devices import NodeDevices
from gpufleet.kube.objects.pod import POD_SCHEDULED, Pod
from gpufleet.mig.demand import ManagedCard
from gpufleet.mig.mig_errors import MigPlanError
from gpufleet.mig.wanted import (
    DEMAND_ANNOTATION,
    LAYOUTS_ANNOTATION,
    STATES_ANNOTATION,
    CardLayoutState,
    Demand,
    DemandRecord,
    LayoutState,
    States,
    Wanted,
    layout_texts,
    read_demand,
    read_states,
    read_wanted,
)
from gpufleet.model.identifiers import DeviceId
from gpufleet.model.mig import Layout
from gpufleet.model.phrases import listed


class LayoutWords(msgspec.Struct, frozen=True):
    """What a Node says of the layouts of its cards."""

    is_followed: bool
    wanted: Wanted
    states: States
    demand: Demand

    def wish(self, card: DeviceId) -> Layout | msgspec.UnsetType | None:
        """The layout that is wanted of a card; unset where none is."""
        return self.wanted.get(card, msgspec.UNSET)

    def state(self, card: DeviceId) -> LayoutState | None:
        """How far the card is on the way to it; None where the agent has not said a word of it."""
        said, wish = self.states.get(card), self.wish(card)
        if said is None or isinstance(wish, msgspec.UnsetType) or said.layout != layout_texts(wish):
            return None
        return said.state


def words_of(node: Node) -> LayoutWords:
    """What a Node says. Raises MigPlanError where it cannot be read."""
    annotations = node.metadata.annotations
    return LayoutWords(
        STATES_ANNOTATION in annotations,
        read_wanted(annotations.get(LAYOUTS_ANNOTATION, "")),
        read_states(annotations.get(STATES_ANNOTATION, "")),
        read_demand(annotations.get(DEMAND_ANNOTATION, "")),
    )


def managed_cards(
    node: Node,
    report: NodeDevices | None,
    bound: list[Pod],
    unused_since: Mapping[DeviceId, dt.datetime],
) -> list[ManagedCard]:
    """The cards of a node that can be cut; none where its words cannot be read."""
    try:
        words = words_of(node)
    except MigPlanError:
        return []
    cards, _ = cards_of(node, report, bound)
    return [
        ManagedCard(
            one,
            words.is_followed,
            words.wish(one.id),
            words.state(one.id),
            words.demand.get(one.id),
            unused_since.get(one.id),
        )
        for one in cards
    ]


def cuts_for(pod: str, nodes: Iterable[Node]) -> Iterator[str]:
    """Sentences about cards that are cut for a pod, by its path."""
    for place, record, state, problem in _cuts(nodes):
        if pod not in record.pods:
            continue
        if state is LayoutState.FAILED:
            yield f"{place} could not be cut for it into {_words(record)}: {problem}"
        else:
            waits = f", {problem}" if state is LayoutState.WAITING else ""
            yield f"{place} is being cut for it into {_words(record)} since {whole_time(record.since)}{waits}"


def cut_times(pod: Pod, node: Node | None) -> Iterator[str]:
    """Sentences about cards of its node that were cut for a pod: how long each step took, from the pod on."""
    if node is None:
        return
    try:
        words = words_of(node)
    except MigPlanError:
        return
    for card, record in words.demand.items():
        said = words.states.get(card)
        if said is None or words.state(card) is not LayoutState.SUCCESS:
            continue
        steps = list(_steps(pod, record, said)) if pod.metadata.path in record.pods else []
        if steps:
            yield f"card {harmless(card)} was cut for it into {_words(record)}: {', '.join(steps)}"


def _steps(pod: Pod, record: DemandRecord, said: CardLayoutState) -> Iterator[str]:
    """The way from a pod to its instance, each step with the time since the one before."""
    made, placed = pod.metadata.creation_timestamp, pod.condition(POD_SCHEDULED)
    chosen_s = record.since.timestamp()
    if made is not None:
        yield f"chosen {_between(_seconds(made), chosen_s)} after the pod was made"
    if said.took is None:
        return
    yield f"begun {_between(chosen_s, said.took.began.timestamp())} later"
    yield f"cut {said.took.words}"
    if placed is not None and placed.status == "True" and placed.last_transition_time:
        placed_s = _seconds(placed.last_transition_time)
        yield f"the pod placed {_between(said.took.ended.timestamp(), placed_s)} later"


def _seconds(text: str) -> float:
    return microseconds(text) / 1e6


def _between(before_s: float, after_s: float) -> str:
    # Times of the API have whole seconds, so that a step may seem to end before it began.
    return f"{max(0.0, after_s - before_s):.0f} s"


def cuts_under_way(nodes: Iterable[Node]) -> Iterator[str]:
    """Sentences about cards that are being cut for pods, for answers that do not know what is to come."""
    for place, record, state, _ in _cuts(nodes):
        if record.pods and state is not LayoutState.FAILED:
            pods = listed(record.pods)
            what = f"{place} is being cut into {_words(record)} for {pods}"
            yield f"{what} since {whole_time(record.since)}: it does not count here yet"


def _cuts(nodes: Iterable[Node]) -> Iterator[tuple[str, DemandRecord, LayoutState | None, str]]:
    """Cards that lack the layout that was written for pods: which, of what, how far, and why."""
    for node in nodes:
        try:
            words = words_of(node)
        except MigPlanError:
            continue
        for card, record in words.demand.items():
            state, said = words.state(card), words.states.get(card)
            if words.wish(card) == record.layout and state is not LayoutState.SUCCESS:
                place = f"card {harmless(card)} of node {node.metadata.name}"
                yield place, record, state, "" if state is None or said is None else harmless(said.problem)


def _words(record: DemandRecord) -> str:
    places = [f"{harmless(one.profile)}@{one.start}" for one in record.layout or ()]
    return " ".join(places) or "no instance"
