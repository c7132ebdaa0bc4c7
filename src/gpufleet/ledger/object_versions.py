"""From what an API server sends to observations of the interval log.

``version_of`` reads one version of an object, ``gone_of`` the last one of an object that was deleted,
``listed_of`` the fact that a list was all there was. Nothing here keeps anything: the same bytes give equal
observations for every reader, so that the log knows them again by kind, uid and version.
"""

from collections.abc import Callable, Iterable, Mapping

import msgspec

from gpufleet.kube import resources
from gpufleet.kube.kube_errors import ObjectError
from gpufleet.kube.objects.fleet_queues import FleetQueue, status_of
from gpufleet.kube.resources import Kind
from gpufleet.ledger.node_versions import devices_version, node_version
from gpufleet.ledger.pod_versions import pod_version
from gpufleet.ledger.stamped_objects import StampedCondition, StampedObject
from gpufleet.ledger.stamps import condition_moments, latest, metadata_moments
from gpufleet.ledger.versions import (
    Gone,
    KeptPlace,
    Listed,
    ObjectKind,
    ObjectVersion,
    QueueVersion,
)
from gpufleet.model.identifiers import DeviceId, NodeName, QueueName
from gpufleet.model.model_errors import InputError, printable

Raw = bytes | msgspec.Raw
"""An object as the server wrote it."""


class _Status(msgspec.Struct, frozen=True):
    conditions: tuple[StampedCondition, ...] = ()


class _Conditioned(msgspec.Struct, frozen=True):
    status: _Status = _Status()


_QUEUE = msgspec.json.Decoder(FleetQueue)
_CONDITIONED = msgspec.json.Decoder(_Conditioned)
_STAMPS = msgspec.json.Decoder(StampedObject)


def queue_version(raw: Raw) -> QueueVersion:
    """What this version of a FleetQueue says: the places that are kept for its work."""
    queue, metadata = _QUEUE.decode(raw), _STAMPS.decode(raw).metadata
    status = status_of(queue)
    reserved = () if status.reservation is None else status.reservation.places
    places = (*reserved, *(place for one in status.nominations for place in one.places))
    kept = {KeptPlace(NodeName(one.node), DeviceId(device)) for one in places for device in one.devices}
    turned = condition_moments(_CONDITIONED.decode(raw).status.conditions)
    return QueueVersion(
        metadata.uid,
        int(metadata.resource_version),
        latest(metadata_moments(metadata), turned),
        QueueName(metadata.name),
        tuple(sorted(kept)),
    )


READERS: Mapping[Kind, tuple[ObjectKind, Callable[[Raw], ObjectVersion]]] = {
    resources.PODS: (ObjectKind.POD, pod_version),
    resources.NODES: (ObjectKind.NODE, node_version),
    resources.NODE_DEVICES: (ObjectKind.DEVICES, devices_version),
    resources.FLEET_QUEUES: (ObjectKind.QUEUE, queue_version),
}
"""The kinds that the ledger follows, and what reads a version of each."""


def version_of(kind: Kind, raw: Raw) -> ObjectVersion:
    """What a version says. Raises InputError, naming the object, for one that cannot be read."""
    try:
        return READERS[kind][1](raw)
    except InputError:
        raise
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError) as error:
        problem = f"a {kind.name} that cannot be read: {printable(str(error))}"
        raise ObjectError(problem, where=_named(kind, raw), expected="an object of the API") from error


def gone_of(kind: Kind, raw: Raw, heard_us: int | None = None) -> tuple[ObjectVersion, Gone]:
    """The last version of an object, and its deletion.

    ``heard_us`` is when the deletion was heard of, by the clock of the server. The object's own stamps are
    all older than that, so that moment counts where it is known; the log takes the earlier of two readers'.
    """
    last = version_of(kind, raw)
    at_us = last.at_us if heard_us is None else max(last.at_us, heard_us)
    return last, Gone(READERS[kind][0], last.uid, last.number, at_us)


def listed_of(kind: Kind, number: int, at_us: int, uids: Iterable[str]) -> Listed:
    """All objects of a kind were these; of pods those that had not ended are enough."""
    return Listed(READERS[kind][0], number, at_us, frozenset(uids))


def _named(kind: Kind, raw: Raw) -> str:
    try:
        return f"{kind.name} {_STAMPS.decode(raw).metadata.path}"
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return kind.name
