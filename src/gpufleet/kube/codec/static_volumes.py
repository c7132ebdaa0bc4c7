"""Volumes that exist: where one can be used, and which could serve a claim.

The rules are those of the volume controller and kube-scheduler: size, mode, class, attributes class,
access modes and selector must fit, and of those that fit the smallest is best. A volume that is
reserved for the claim by name goes before all others.
"""

import itertools

from gpufleet.kube import resources
from gpufleet.kube.codec import selectors
from gpufleet.kube.codec.field_path import of_object
from gpufleet.kube.codec.lookup import Lookup
from gpufleet.kube.kube_errors import ObjectError
from gpufleet.kube.meanings.node_labels import OLD_REGION, OLD_ZONE, REGION, ZONE
from gpufleet.kube.objects.storage import (
    AVAILABLE,
    FILESYSTEM,
    STORAGE,
    PersistentVolume,
    PersistentVolumeClaim,
)
from gpufleet.model.labels import LabelSelector, NodeAffinity, NodeTerm, Operator, Requirement
from gpufleet.model.quantity import ZERO, Quantity, parse_quantity
from gpufleet.model.volumes import VolumeCandidate

# Volumes of old carry their zone as a label; several zones stand there joined by "__".
ZONE_SEPARATOR = "__"
TODAYS_NAMES = {OLD_ZONE: ZONE, OLD_REGION: REGION, ZONE: ZONE, REGION: REGION}
"""Labels of a volume that name a zone or region, old names among them, with the name that nodes carry now."""


def volume_reach(volume: PersistentVolume) -> NodeAffinity:
    """Where the volume says that it can be used."""
    affinity = volume.spec.node_affinity
    with of_object("volume", volume.metadata.name):
        required = None if affinity is None else affinity.required
        return NodeAffinity(selectors.node_terms(required, "spec.nodeAffinity.required"))


def zone_reach(volume: PersistentVolume) -> NodeAffinity:
    """Where the volume's zone labels let it be used: there, and on nodes that know of no zones."""
    labels = {key: value for key, value in volume.metadata.labels.items() if key in TODAYS_NAMES}
    if not labels:
        return NodeAffinity()
    with of_object("volume", volume.metadata.name):
        choices = [_ways(key, value) for key, value in sorted(labels.items())]
        placeless = tuple(Requirement(key, Operator.DOES_NOT_EXIST) for key in TODAYS_NAMES)
        terms = [NodeTerm(selectors.distinct(itertools.chain(*way))) for way in itertools.product(*choices)]
        return NodeAffinity((*terms, NodeTerm(selectors.distinct(placeless))))


def candidates(claim: PersistentVolumeClaim, lookup: Lookup) -> tuple[VolumeCandidate, ...]:
    """The free volumes that could serve the claim, the best first."""
    size = requested_size(claim)
    selector = selectors.label_selector(claim.spec.selector, "spec.selector")
    reserved: list[PersistentVolume] = []
    free: list[tuple[Quantity, str, PersistentVolume]] = []
    for volume in lookup.all(resources.PERSISTENT_VOLUMES):
        if not _fits(volume, claim):
            continue
        capacity = _capacity(volume)
        if capacity is None or capacity < size:
            continue
        if volume.spec.claim_ref is not None:
            reserved.append(volume)
        elif _may_be_taken(volume, claim, selector):
            free.append((capacity, volume.metadata.name, volume))
    # A volume that names this claim goes before all that are free, however large it is.
    if reserved:
        best = reserved
    else:
        best = [volume for _, _, volume in sorted(free, key=lambda one: (one[0].nano, one[1]))]
    return tuple(_candidate(volume) for volume in best)


def requested_size(claim: PersistentVolumeClaim) -> Quantity:
    """How much storage the claim asks for."""
    text = claim.spec.resources.requests.get(STORAGE)
    return ZERO if text is None else parse_quantity(text, field=f"spec.resources.requests[{STORAGE}]")


def _candidate(volume: PersistentVolume) -> VolumeCandidate:
    return VolumeCandidate(volume.metadata.name, volume_reach(volume))


def _fits(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """True if the volume is of the claim's kind and reserved for no other claim."""
    reference = volume.spec.claim_ref
    if reference is not None:
        mine = (reference.namespace, reference.name) == (claim.metadata.namespace, claim.metadata.name)
        # A reference without a uid keeps the volume for any claim of this name.
        if not mine or reference.uid not in {"", claim.metadata.uid}:
            return False
    same_mode = (volume.spec.volume_mode or FILESYSTEM) == (claim.spec.volume_mode or FILESYSTEM)
    attributes = (
        claim.spec.volume_attributes_class_name or "",
        volume.spec.volume_attributes_class_name or "",
    )
    same_class = volume.storage_class == claim.storage_class
    stays = volume.metadata.deletion_timestamp is None
    return same_mode and same_class and stays and attributes[0] == attributes[1]


def _may_be_taken(
    volume: PersistentVolume, claim: PersistentVolumeClaim, selector: LabelSelector | None
) -> bool:
    modes = set(volume.spec.access_modes)
    selected = selector is None or selector.accepts(volume.metadata.labels)
    return volume.status.phase == AVAILABLE and selected and modes.issuperset(claim.spec.access_modes)


def _capacity(volume: PersistentVolume) -> Quantity | None:
    """None where it cannot be read: such a volume serves no claim, and spoils none of the other volumes."""
    try:
        return parse_quantity(volume.spec.capacity.get(STORAGE, "0"))
    except ValueError:
        return None


def _ways(key: str, value: str) -> tuple[tuple[Requirement, ...], ...]:
    """How a node's labels may satisfy one zone label: by that name, or by today's in its place."""
    values = tuple(part.strip() for part in value.split(ZONE_SEPARATOR))
    if not all(values):
        raise ObjectError("an empty zone", field=f"metadata.labels[{key}]", value=value, expected="a zone")
    named = (Requirement(key, Operator.IN, values),)
    today = TODAYS_NAMES[key]
    if today == key:
        return (named,)
    instead = (Requirement(key, Operator.DOES_NOT_EXIST), Requirement(today, Operator.IN, values))
    return (named, instead)
