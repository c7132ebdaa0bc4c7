"""The public price list of AWS for EC2 in one region: instance types on demand, shared tenancy, Linux."""

from collections.abc import Iterator
from fractions import Fraction

import msgspec

from gpufleet.ledger.node_versions import ON_DEMAND
from gpufleet.ledger.price_files.catalogues import US_DOLLAR
from gpufleet.ledger.price_files.offers import Imported, Offer, micro, number, prices_of
from gpufleet.model.model_errors import InputError

CHOSEN = {
    "tenancy": "Shared",
    "operatingSystem": "Linux",
    "preInstalledSw": "NA",
    "capacitystatus": "Used",
}
"""The products of which a node of a cluster is one; others are licences, hosts and reservations."""

MARKET_OPTION, ON_DEMAND_MARKET = "marketoption", "OnDemand"
"""Capacity blocks have the attributes of instances on demand but this one, and cost nothing by the hour."""

HOURS = "Hrs"
"""The unit of a price for an hour."""


class _Product(msgspec.Struct, frozen=True):
    attributes: dict[str, str] = {}


class _Dimension(msgspec.Struct, frozen=True, rename="camel"):
    unit: str = ""
    price_per_unit: dict[str, str] = {}


class _Term(msgspec.Struct, frozen=True, rename="camel"):
    price_dimensions: dict[str, _Dimension] = {}


class _Terms(msgspec.Struct, frozen=True):
    on_demand: dict[str, dict[str, _Term]] = msgspec.field(name="OnDemand", default_factory=dict)


class _PriceList(msgspec.Struct, frozen=True):
    products: dict[str, _Product]
    terms: _Terms


_DECODER = msgspec.json.Decoder(_PriceList)


def read_aws_price_list(text: bytes, name: str) -> Imported:
    """The prices of a price list. Raises InputError, naming the product."""
    try:
        found = _DECODER.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        expected = "a price list of AWS for EC2"
        raise InputError(f"no price list ({error})", where=name, expected=expected) from error
    return prices_of(_offers(found, name), US_DOLLAR, "aws")


def _offers(found: _PriceList, name: str) -> Iterator[Offer]:
    for sku, product in sorted(found.products.items()):
        attributes = product.attributes
        if any(attributes.get(key) != value for key, value in CHOSEN.items()):
            continue
        # Lists of earlier years do not have it.
        if attributes.get(MARKET_OPTION, ON_DEMAND_MARKET) != ON_DEMAND_MARKET:
            continue
        where = f"{name}, product {sku}"
        for amount in _hourly(found.terms.on_demand.get(sku, {})):
            yield Offer(
                attributes.get("instanceType", ""),
                attributes.get("regionCode", ""),
                "",
                ON_DEMAND,
                number(attributes.get("vcpu", ""), field="vcpu", where=where),
                _gibibytes(attributes.get("memory", ""), where),
                number(attributes.get("gpu", "0"), field="gpu", where=where),
                micro(amount, field="pricePerUnit.USD", where=where),
            )


def _hourly(terms: dict[str, _Term]) -> Iterator[str]:
    for term in terms.values():
        for dimension in term.price_dimensions.values():
            amount = dimension.price_per_unit.get(US_DOLLAR)
            if dimension.unit == HOURS and amount is not None:
                yield amount


def _gibibytes(text: str, where: str) -> Fraction:
    return number(text.removesuffix(" GiB").replace(",", ""), field="memory", where=where)
