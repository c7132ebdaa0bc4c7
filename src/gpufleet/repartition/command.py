"""The plan of ``gpufleet mig plan`` for a snapshot, or for a cluster as it is now."""

import datetime as dt
from collections.abc import Iterable, Iterator

from gpufleet.cluster.progress import Say
from gpufleet.cluster.settings import Settings
from gpufleet.cluster.snapshots.command import gaps
from gpufleet.cluster.snapshots.sources import on_cluster, on_snapshot
from gpufleet.cluster.watching.picture import Picture
from gpufleet.kube import resources
from gpufleet.kube.connection import ClusterChoice
from gpufleet.kube.objects.pod import Pod
from gpufleet.mig.cards import MigCard
from gpufleet.mig.plan import MigPlan, plan
from gpufleet.mig.steps import MakeInstance, RemoveInstance, Step, SwitchMode, layout_after
from gpufleet.model.identifiers import DeviceId
from gpufleet.model.mig import Layout
from gpufleet.model.phrases import counted
from gpufleet.repartition.answer import (
    SCHEMA,
    LeftOut,
    PlannedCard,
    PlannedInstance,
    PlannedStep,
    RepartitionPlan,
    WithoutInstance,
)
from gpufleet.repartition.cards import cards_of
from gpufleet.repartition.waiting import wanted

QUEUES_NOT_ASKED = "queues and quotas are not asked: the scheduler may let other work go first"


def of_snapshot(lines: Iterable[bytes], where: str) -> RepartitionPlan:
    """The plan for a snapshot."""
    return on_snapshot(lines, where, plan_of)


def of_cluster(cluster: ClusterChoice, settings: Settings) -> RepartitionPlan:
    """The plan for a cluster as it is now."""
    return on_cluster(cluster, settings, plan_of)


def plan_of(picture: Picture, _settings: Settings, at: dt.datetime, say: Say) -> RepartitionPlan:
    """What would be cut in a picture of a cluster for the pods that wait there."""
    say("planning the cards")
    nodes = list(picture.all(resources.NODES))
    bound: dict[str, list[Pod]] = {}
    for pod in picture.all(resources.PODS):
        bound.setdefault(pod.spec.node_name, []).append(pod)
    cards: list[MigCard] = []
    left_out: list[LeftOut] = []
    notes = []
    for node in sorted(nodes, key=lambda one: one.metadata.name):
        report = picture.find(resources.NODE_DEVICES, node.metadata.name)
        more, others = cards_of(node, report, bound.get(node.metadata.name, []))
        cards += more
        left_out += others
    asked, problems = wanted(picture.all(resources.PODS), nodes)
    if missing := gaps(kind.plural for kind in picture.forbidden):
        notes.append(missing)
    if asked:
        notes.append(QUEUES_NOT_ASKED)
    if problems:
        notes.append(f"{counted(len(problems), 'waiting pod')} could not be read: {problems[0]}")
    when = at.astimezone(dt.UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    found = plan(cards, asked)
    return RepartitionPlan(
        SCHEMA,
        when,
        tuple(_changed(found, cards)),
        tuple(_instances(found)),
        tuple(WithoutInstance(one.asker, one.profiles, one.reason) for one in found.unplaced),
        tuple(left_out),
        tuple(notes),
    )


def _changed(found: MigPlan, cards: Iterable[MigCard]) -> Iterator[PlannedCard]:
    by_card: dict[DeviceId, list[Step]] = {}
    for step in found.steps:
        by_card.setdefault(step.card, []).append(step)
    for card in cards:
        steps = by_card.get(card.id, [])
        if steps:
            yield PlannedCard(
                card.node,
                card.id,
                _names(card.held),
                _names(card.layout),
                _names(layout_after(card.layout, steps)),
                tuple(map(_step, steps)),
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
