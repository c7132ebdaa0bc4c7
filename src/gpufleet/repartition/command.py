"""The plan of ``gpufleet mig plan`` for a snapshot, or for a cluster as it is now."""

import datetime as dt
from collections.abc import Callable, Iterable, Iterator
from functools import partial

import msgspec

from gpufleet.cluster.mig_layouts.reported_cards import LeftOut, cards_of
from gpufleet.cluster.mig_layouts.waiting_pods import wanted
from gpufleet.cluster.progress import Say
from gpufleet.cluster.settings import Settings
from gpufleet.cluster.snapshots.command import gaps
from gpufleet.cluster.snapshots.sources import on_cluster, on_snapshot
from gpufleet.cluster.watching.picture import Picture
from gpufleet.devices.mig_parted import EntryText, MigConfigs, wanted_layout
from gpufleet.devices.pci_devices import pci_devices
from gpufleet.kube import resources
from gpufleet.kube.codec.times import whole_time
from gpufleet.kube.connection import ClusterChoice
from gpufleet.kube.objects.node import Node
from gpufleet.kube.objects.pod import Pod
from gpufleet.mig.cards import MigCard
from gpufleet.mig.counted import counted_layout
from gpufleet.mig.mig_errors import MigPlanError
from gpufleet.mig.plan import MigPlan, plan
from gpufleet.mig.steps import MakeInstance, RemoveInstance, Step, SwitchMode, layout_after, steps_to
from gpufleet.model import gpu_model
from gpufleet.model.device_id import device_name
from gpufleet.model.fleet_policy import MIG_LAYOUT_LABEL, MIG_STATE_LABEL
from gpufleet.model.identifiers import DeviceId
from gpufleet.model.mig import Layout
from gpufleet.model.model_errors import InputError
from gpufleet.model.phrases import counted
from gpufleet.repartition.answer import (
    SCHEMA,
    PlannedCard,
    PlannedInstance,
    PlannedStep,
    RepartitionPlan,
    WithoutInstance,
)
from gpufleet.repartition.given_layouts import GivenLayout, layout_on

QUEUES_NOT_ASKED = "queues and quotas are not asked: the scheduler may let other work go first"


Answering = Callable[[Picture, Settings, dt.datetime, Say], RepartitionPlan]


class WantedConfig(msgspec.Struct, frozen=True):
    """A config of a file: what all cards shall be, whatever waits.

    Without a name each node has the config that its label nvidia.com/mig.config names.
    """

    configs: MigConfigs
    name: str = ""


class PlanQuestion(msgspec.Struct, frozen=True):
    """What is planned: a config, or layouts that are given, or what pods wait for where there is neither.

    ``nodes`` are all where it is empty.
    """

    config: WantedConfig | None = None
    given: tuple[GivenLayout, ...] = ()
    nodes: tuple[str, ...] = ()

    def answering(self) -> Answering:
        """The function of a picture that answers it. Raises InputError for an unknown config."""
        if self.config is not None:
            if self.config.name:
                # A wrong name is told before the cluster is read.
                self.config.configs.named(self.config.name)
            return partial(plan_of_config, self.config, nodes=self.nodes)
        if self.given:
            return partial(plan_of_given, self.given, nodes=self.nodes)
        return partial(plan_of, nodes=self.nodes)


class _Fleet(msgspec.Struct, frozen=True):
    """The cards of a cluster, those that are left out, and nodes by name."""

    nodes: tuple[Node, ...]
    cards: tuple[MigCard, ...]
    left_out: tuple[LeftOut, ...]


def of_snapshot(lines: Iterable[bytes], where: str, question: PlanQuestion) -> RepartitionPlan:
    """The plan for a snapshot. Raises InputError."""
    return on_snapshot(lines, where, question.answering())


def of_cluster(cluster: ClusterChoice, settings: Settings, question: PlanQuestion) -> RepartitionPlan:
    """The plan for a cluster as it is now. Raises InputError."""
    return on_cluster(cluster, settings, question.answering())


def plan_of_given(
    given: tuple[GivenLayout, ...],
    picture: Picture,
    _settings: Settings,
    at: dt.datetime,
    say: Say,
    *,
    nodes: tuple[str, ...] = (),
) -> RepartitionPlan:
    """What would be cut so that cards are as given. Raises InputError where one cannot be."""
    say("planning the cards")
    fleet = _fleet(picture, nodes)
    cards = {one.id: one for one in fleet.cards}
    left_out = {one.card: one.reason for one in fleet.left_out}
    steps: list[Step] = []
    for one in given:
        card = cards.get(one.card)
        if card is None:
            reason = left_out.get(one.card, "no report of a node has such a card that can be cut")
            raise MigPlanError(reason, field="CARD=LAYOUT", value=one.card)
        steps += steps_to(card, layout_on(card, one))
    missing = gaps(kind.plural for kind in picture.forbidden)
    changed = tuple(_changed(steps, fleet.cards))
    notes = (missing,) if missing else ()
    return RepartitionPlan(SCHEMA, _moment(at), changed, (), (), (), notes, "the layouts that are given")


def plan_of_config(
    config: WantedConfig,
    picture: Picture,
    _settings: Settings,
    at: dt.datetime,
    say: Say,
    *,
    nodes: tuple[str, ...] = (),
) -> RepartitionPlan:
    """What would be cut so that the cards are as a config says. Raises InputError for its name."""
    say("planning the cards")
    fleet = _fleet(picture, nodes)
    left_out = list(fleet.left_out)
    steps: list[Step] = []
    numbers = _numbers(picture)
    entries_by_node, states = _entries(config, fleet, left_out)
    for card in fleet.cards:
        entries = entries_by_node.get(card.node)
        if entries is None:
            continue
        number, model = numbers[card.node, card.id]
        wanted_here = wanted_layout(entries, number, pci_devices(model))
        try:
            if wanted_here is not None:
                counts = wanted_here.counts
                steps += steps_to(card, None if counts is None else counted_layout(card, counts))
            elif not pci_devices(model) and any(one.device_filter for one in entries):
                left_out.append(LeftOut(card.node, card.id, f"the PCI id of {model} is not known here"))
        except InputError as error:
            left_out.append(LeftOut(card.node, card.id, str(error)))
    cards = tuple(_changed(steps, fleet.cards))
    missing = gaps(kind.plural for kind in picture.forbidden)
    notes = (*((missing,) if missing else ()), *states)
    name = config.name or f"the labels {MIG_LAYOUT_LABEL}"
    return RepartitionPlan(SCHEMA, _moment(at), cards, (), (), tuple(left_out), notes, name)


def _entries(
    config: WantedConfig, fleet: _Fleet, left_out: list[LeftOut]
) -> tuple[dict[str, tuple[EntryText, ...]], list[str]]:
    """The config of each node with cards, and its state by label; nodes of a wrong name are left out."""
    found, states = {}, []
    with_cards = {card.node for card in fleet.cards}
    for node in fleet.nodes:
        name, labels = node.metadata.name, node.metadata.labels
        wanted_name = config.name or labels.get(MIG_LAYOUT_LABEL, "")
        if name not in with_cards or not wanted_name:
            continue
        try:
            found[name] = config.configs.named(wanted_name)
        except InputError as error:
            left_out.append(LeftOut(name, "", str(error)))
        if not config.name and (state := labels.get(MIG_STATE_LABEL)):
            states.append(f"the config {wanted_name} of {name} is said to be: {state}")
    return found, states


def _numbers(picture: Picture) -> dict[tuple[str, DeviceId], tuple[int, str]]:
    """The number of each card on its node, as its report lists them, and its model."""
    found = {}
    # A card that is cut has several devices and counts once, where the first of them is listed.
    for report in picture.all(resources.NODE_DEVICES):
        models = {device_name(DeviceId(one.id)).card: one.model for one in report.spec.devices}
        for number, (card, name) in enumerate(models.items()):
            known = gpu_model.find(name)
            found[report.metadata.name, card] = number, name if known is None else str(known.name)
    return found


def plan_of(
    picture: Picture, _settings: Settings, at: dt.datetime, say: Say, *, nodes: tuple[str, ...] = ()
) -> RepartitionPlan:
    """What would be cut in a picture of a cluster for the pods that wait there."""
    say("planning the cards")
    fleet = _fleet(picture, nodes)
    notes = []
    asked, problems = wanted(picture.all(resources.PODS), fleet.nodes)
    if missing := gaps(kind.plural for kind in picture.forbidden):
        notes.append(missing)
    if asked:
        notes.append(QUEUES_NOT_ASKED)
    if problems:
        notes.append(f"{counted(len(problems), 'waiting pod')} could not be read: {problems[0]}")
    found = plan(fleet.cards, asked)
    return RepartitionPlan(
        SCHEMA,
        _moment(at),
        tuple(_changed(found.steps, fleet.cards)),
        tuple(_instances(found)),
        tuple(WithoutInstance(one.asker, one.profiles, one.reason) for one in found.unplaced),
        fleet.left_out,
        tuple(notes),
    )


def _fleet(picture: Picture, only: tuple[str, ...]) -> _Fleet:
    """The cards of these nodes, of all where none is named. Raises InputError for an unknown node."""
    nodes = sorted(picture.all(resources.NODES), key=lambda one: one.metadata.name)
    for name in only:
        if all(name != one.metadata.name for one in nodes):
            raise MigPlanError("there is no such node", field="--node", value=name)
    nodes = [one for one in nodes if not only or one.metadata.name in only]
    bound: dict[str, list[Pod]] = {}
    for pod in picture.all(resources.PODS):
        bound.setdefault(pod.spec.node_name, []).append(pod)
    cards: list[MigCard] = []
    left_out: list[LeftOut] = []
    for node in nodes:
        name = node.metadata.name
        more, others = cards_of(node, picture.find(resources.NODE_DEVICES, name), bound.get(name, []))
        cards += more
        left_out += others
    return _Fleet(tuple(nodes), tuple(cards), tuple(left_out))


def _moment(at: dt.datetime) -> str:
    return whole_time(at.astimezone(dt.UTC))


def _changed(steps: Iterable[Step], cards: Iterable[MigCard]) -> Iterator[PlannedCard]:
    by_card: dict[DeviceId, list[Step]] = {}
    for step in steps:
        by_card.setdefault(step.card, []).append(step)
    for card in cards:
        found = by_card.get(card.id, [])
        if found:
            yield PlannedCard(
                card.node,
                card.id,
                _names(card.held),
                _names(card.layout),
                _names(layout_after(card.layout, found)),
                tuple(map(_step, found)),
            )


def _step(step: Step) -> PlannedStep:
    match step:
        case SwitchMode(_, enabled, reset):
            mode = "enable-mig" if enabled else "disable-mig"
            return PlannedStep(f"{mode}-with-reset" if reset else mode)
        case RemoveInstance(_, instance):
            return PlannedStep("remove", instance.profile, instance.start)
        case MakeInstance(_, instance):
            return PlannedStep("make", instance.profile, instance.start)


def _names(layout: Layout) -> tuple[str, ...]:
    return tuple(f"{one.profile}@{one.start}" for one in layout)


def _instances(found: MigPlan) -> Iterator[PlannedInstance]:
    for one in found.placements:
        place = one.instance
        yield PlannedInstance(one.asker, one.node, one.card, place.profile, place.start, one.exists)
