"""A node without what its agent is about to cut: a pod that came there would be refused, or hold up the cut.

A cut that failed takes nothing away, and neither does one on a node whose agent cuts no cards.
"""

from collections import Counter
from collections.abc import Iterator

import msgspec

from gpufleet.cluster.mig_layouts.managed_cards import LayoutWords, words_of
from gpufleet.kube.objects import node as wire
from gpufleet.kube.objects.node_devices import NodeDevices
from gpufleet.mig.mig_errors import MigPlanError
from gpufleet.mig.wanted import LAYOUTS_ANNOTATION, LayoutState
from gpufleet.model.device import Serves
from gpufleet.model.device_id import device_name
from gpufleet.model.identifiers import DeviceId
from gpufleet.model.mig import MigInstance
from gpufleet.model.node import Node
from gpufleet.model.resource_names import mig_resource

Place = tuple[DeviceId, MigInstance]


def with_cuts_to_come(node: Node, written: wire.Node, report: NodeDevices) -> Node:
    """A node without whole cards that are to be cut, and without unused instances that are to go."""
    if LAYOUTS_ANNOTATION not in written.metadata.annotations:
        return node
    try:
        words = words_of(written)
    except MigPlanError:
        return node
    if not words.is_followed:
        return node
    cards = {card for card in words.wanted if words.state(card) is not LayoutState.FAILED}
    cut = {card for card in cards if words.wanted[card] is not None}
    shown = tuple(
        msgspec.structs.replace(device, serves=Serves.NOTHING) if device.id in cut else device
        for device in node.devices
    )
    gone = Counter(mig_resource(place.profile) for _, place in _to_go(words, cards, report))
    return without_instances(msgspec.structs.replace(node, devices=shown), gone)


def without_instances(node: Node, hidden: Counter[str]) -> Node:
    """A node that counts so many less of each resource, and none where it counts fewer."""
    if not hidden:
        return node
    # The report and the kubelet's count are not of one moment, so more may be hidden than is counted.
    other = tuple((name, max(0, amount - hidden[name])) for name, amount in node.allocatable.other)
    return msgspec.structs.replace(node, allocatable=msgspec.structs.replace(node.allocatable, other=other))


def _to_go(words: LayoutWords, cards: set[DeviceId], report: NodeDevices) -> Iterator[Place]:
    """The instances that the layouts of these cards lack and that nothing holds.

    One that is held counts until its holder ends: the pod that holds it is charged for it.
    """
    held = set(_held(report))
    for device in report.spec.devices:
        card = DeviceId(device.id)
        if card in cards:
            wanted = words.wanted[card] or ()
            for one in device.mig_instances:
                place = MigInstance(one.start, one.profile)
                if place not in wanted and (card, place) not in held:
                    yield card, place


def _held(report: NodeDevices) -> Iterator[Place]:
    for one in report.spec.holders:
        name = device_name(DeviceId(one.device))
        if one.mig_profile is not None and one.mig_start is not None:
            yield name.card, MigInstance(one.mig_start, one.mig_profile)
        elif name.place is not None:
            yield name.card, MigInstance(name.place.start, name.place.profile)
