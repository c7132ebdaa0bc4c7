"""A place that is kept for a waiting pod of no FleetQueue, as a condition of that pod.

A nomination of a gang is written in parts, one into each pod that has a place: the place of the pod, and some
of the pods that all of them wait for. ``digest`` is the same in all parts of one nomination.
``cluster.pods.nominated_pods`` makes the parts and joins them.
"""

import re
from typing import NamedTuple

from gpufleet.kube.codec.lasting_conditions import Said
from gpufleet.kube.objects.pod import NOMINATED, Pod
from gpufleet.model.identifiers import NodeName, PodUid
from gpufleet.model.visible import visible_text

LENGTH_MAX = 32_768
"""As long as the message of a condition may be in most kinds of the API; room for 800 pods to wait for."""

NONE = "-"
_KEPT = re.compile(
    r"node (\S{1,253}) is kept for it, with devices (\S+), until (\S+) ended "
    r"\(nomination (\d{1,18}), part (\d{1,6}) of (\d{1,6}) of ([0-9a-f]{32})\)"
)


class NominationPart(NamedTuple):
    """What is written into the condition of one pod.

    ``number`` orders nominations; ``place`` says which of how many ``places`` it is.
    """

    node: NodeName
    devices: tuple[str, ...]
    waits_for: tuple[PodUid, ...]
    number: int
    place: int
    places: int
    digest: str


def write_nomination(part: NominationPart | None) -> Said:
    """The condition of a waiting pod; None: no place is kept for it any more."""
    if part is None:
        return Said("False", "NotNominated", "no place is kept for it")
    devices, uids = ",".join(part.devices) or NONE, ",".join(part.waits_for) or NONE
    place = f"node {part.node} is kept for it, with devices {devices}, until {uids} ended"
    which = f"nomination {part.number}, part {part.place} of {part.places} of {part.digest}"
    return Said("True", "Nominated", f"{place} ({which})")


def read_nomination(pod: Pod) -> NominationPart | None:
    """What a waiting pod's condition says; None where there is none, or of what is not of its form."""
    said = pod.condition(NOMINATED)
    return None if said is None or said.status != "True" else _read(said.message)


def can_be_written(part: NominationPart) -> bool:
    """True for a part that is read back as it was written: neither too long nor of strange names."""
    return _read(visible_text(write_nomination(part).message)) == part


def _read(message: str) -> NominationPart | None:
    found = _KEPT.fullmatch(message) if len(message) <= LENGTH_MAX else None
    if found is None:
        return None
    node, devices, uids, number, place, places, digest = found.groups()
    return NominationPart(
        NodeName(node),
        () if devices == NONE else tuple(devices.split(",")),
        () if uids == NONE else tuple(map(PodUid, uids.split(","))),
        int(number),
        int(place),
        int(places),
        digest,
    )
