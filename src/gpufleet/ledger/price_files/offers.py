"""What a provider asks for an instance, and how much of that is for its GPUs.

The GPUs' part is the price minus what the same CPUs and memory cost without GPUs: in the cheapest instance
without a GPU of the same region, as many times over as it takes. No ratio for all models is used, since GPUs
are a sixth of one node's price and nearly all of another's.
"""

from collections import defaultdict
from collections.abc import Iterable
from fractions import Fraction

import msgspec

from gpufleet.ledger.price_book import Price, PriceScope, PriceUnit
from gpufleet.model.model_errors import InputError
from gpufleet.model.money import MICRO_UNITS, rounded

Shape = tuple[Fraction, Fraction]
"""CPUs and GiB of memory."""


class Offer(msgspec.Struct, frozen=True):
    """An instance type at a place, with its price for an hour in micro-units."""

    instance_type: str
    region: str
    zone: str
    capacity_type: str
    cpus: Fraction
    memory_gib: Fraction
    gpus: Fraction
    amount_micro: int


class Imported(msgspec.Struct, frozen=True):
    """The prices of a file, and what could not be made a price."""

    prices: tuple[Price, ...]
    notes: tuple[str, ...] = ()


def prices_of(offers: Iterable[Offer], currency: str, source: str) -> Imported:
    """A price for each instance type with GPUs, good at any time.

    An amount of 0 is none: a catalogue writes it for what is not sold by the hour there.
    """
    hosts: dict[tuple[str, str], dict[Shape, int]] = defaultdict(dict)
    with_gpus: dict[tuple[str, PriceScope], Offer] = {}
    for offer in offers:
        if not offer.amount_micro:
            continue
        if offer.gpus:
            scope = PriceScope(
                instance_type=offer.instance_type,
                zone=offer.zone,
                capacity_type=offer.capacity_type,
                region=offer.region,
            )
            name = ":".join(
                (source, offer.instance_type, offer.region, offer.zone or "*", offer.capacity_type)
            )
            # A table may have several lines of one type at one place: the cheapest can be bought.
            known = with_gpus.get((name, scope))
            if known is None or offer.amount_micro < known.amount_micro:
                with_gpus[name, scope] = offer
        else:
            shapes = hosts[offer.region, offer.capacity_type]
            shape = offer.cpus, offer.memory_gib
            shapes[shape] = min(shapes.get(shape, offer.amount_micro), offer.amount_micro)
    prices, left_out = [], set()
    for (name, scope), offer in sorted(with_gpus.items(), key=lambda one: one[0]):
        host_micro = _host_micro(offer, hosts.get((offer.region, offer.capacity_type), {}))
        if host_micro is None:
            left_out.add((offer.region, offer.capacity_type))
            continue
        # The host is an estimate, which may be above the whole price.
        gpu_micro = max(0, offer.amount_micro - host_micro)
        prices.append(
            Price(
                name,
                scope,
                PriceUnit.NODE_HOUR,
                offer.amount_micro,
                currency,
                0,
                gpu_micro=gpu_micro,
                source=source,
            )
        )
    notes = tuple(
        f"{source}: region {region or 'any'} has no {capacity} instance without GPUs, so no price there can"
        " be divided between GPUs and host; those rows are left out"
        for region, capacity in sorted(left_out)
    )
    return Imported(tuple(prices), notes)


def micro(text: str, *, field: str, where: str) -> int:
    """An amount of a catalogue in micro-units, rounded to the nearest. Raises InputError."""
    amount = number(text, field=field, where=where)
    return rounded(amount.numerator * MICRO_UNITS, amount.denominator)


def number(text: str, *, field: str, where: str) -> Fraction:
    """A number that is 0 or more, as it is written. Raises InputError."""
    try:
        found = Fraction(text)
    except (ValueError, ZeroDivisionError):
        found = Fraction(-1)
    if found < 0 or len(text) > NUMBER_LENGTH_MAX or "/" in text:
        raise InputError("not an amount", where=where, field=field, value=text, expected=NUMBER)
    return found


NUMBER = "a number such as 2.5"
"""What is expected of an amount."""

NUMBER_LENGTH_MAX = 40
"""Catalogues write up to seventeen digits; a longer text is no price."""


def _host_micro(offer: Offer, shapes: dict[Shape, int]) -> int | None:
    """What the CPUs and the memory of an instance cost where they come without GPUs, at the least."""
    costs = []
    for (cpus, memory_gib), amount_micro in shapes.items():
        if cpus and memory_gib:
            times = max(offer.cpus / cpus, offer.memory_gib / memory_gib)
            costs.append(rounded(amount_micro * times.numerator, times.denominator))
    return min(costs, default=None)
