"""Which parts of which cards the devices of a grant are, by what the node reports of its cards.

The ledger counts cards. A grant names devices, which may be replicas of a card or of an instance, instances,
or shares of any of these; ``held_parts`` has the arithmetic. A part of a card of which nothing is known
counts as the card, since less would be a guess.
"""

from collections.abc import Iterable
from fractions import Fraction

import msgspec

from gpufleet.ledger.held_parts import WHOLE, instance, replica, share
from gpufleet.ledger.versions import DeviceState, DevicesVersion
from gpufleet.model.device_id import device_name, hardware_of
from gpufleet.model.gpu_model import find
from gpufleet.model.grant import GrantedDevice
from gpufleet.model.identifiers import DeviceId
from gpufleet.model.mig_boards import BOARDS
from gpufleet.model.model_errors import InputError


class CardPart(msgspec.Struct, frozen=True, order=True):
    """A part of a card that a pod holds."""

    card: DeviceId
    part: Fraction


def card_of(device: DeviceId) -> DeviceId:
    """The card that a device is, or is a part of."""
    return device_name(device).card


def card_parts(
    granted: Iterable[GrantedDevice], reports: Iterable[DevicesVersion], at_us: int
) -> tuple[CardPart, ...]:
    """The parts that a grant made at that moment gives, by the newest report of that time.

    Where the first report came later than the grant, that one counts.
    """
    by_time = sorted(reports, key=lambda one: (one.at_us, one.uid, one.number))
    before = [one for one in by_time if one.at_us <= at_us]
    report = before[-1] if before else next(iter(by_time), None)
    known = () if report is None else report.devices
    return tuple(sorted(CardPart(card_of(one.device), _part(one, known)) for one in granted))


def _part(granted: GrantedDevice, known: tuple[DeviceState, ...]) -> Fraction:
    whole = _undivided(granted.device, known)
    if granted.undivided:
        return whole
    state = next((one for one in known if one.id == granted.device), None)
    usable = None if state is None else state.usable_mib
    return whole * share(granted.gpu_milli, granted.memory_mib, usable)


def _undivided(device: DeviceId, known: tuple[DeviceState, ...]) -> Fraction:
    """All of a device, as a part of its card."""
    name = device_name(device)
    part = WHOLE
    if name.place is not None:
        part = _instance(name.card, name.place.profile, known)
    if name.replica is None:
        return part
    beside = [one for one in known if hardware_of(one.id) == hardware_of(device)]
    return part * replica(len(beside)) if beside else part


def _instance(card: DeviceId, profile: str, known: tuple[DeviceState, ...]) -> Fraction:
    product = next((one.model for one in known if card_of(one.id) == card), "")
    part = instance_part(product, profile)
    return WHOLE if part is None else part


def instance_part(product: str, profile: str) -> Fraction | None:
    """The part of a card of that product that an instance is; None where the tables have no such instance."""
    model = find(product)
    board = None if model is None else BOARDS.get(model.name)
    if board is None:
        return None
    try:
        return instance(board, profile)
    except InputError:
        # A driver of another branch calls its profiles otherwise.
        return None
