"""The dated prices of nodes and GPUs: each instant of a node has exactly one price, or is a gap.

Rows are only added. A change of price ends one row and begins another, so an hour that was accounted for
is accounted for alike at any later time. Of several rows that apply to a node the most specific one
counts. A gap is never a price of 0.
"""

import enum
import itertools
from collections.abc import Iterable, Mapping

import msgspec

from gpufleet.ledger.spans import Span, pieces
from gpufleet.model.model_errors import InputError


class PriceUnit(enum.StrEnum):
    """What an amount is for."""

    NODE_HOUR = "node-hour"
    GPU_HOUR = "GPU-hour"


class PricedNode(msgspec.Struct, frozen=True):
    """What prices know of a node; what is not known is empty."""

    provider: str = ""
    region: str = ""
    zone: str = ""
    instance_type: str = ""
    gpu_model: str = ""
    capacity_type: str = ""
    labels: Mapping[str, str] = {}


class PriceScope(msgspec.Struct, frozen=True, order=True):
    """The nodes that a row is for; an empty field stands for any value."""

    labels: tuple[tuple[str, str], ...] = ()
    instance_type: str = ""
    gpu_model: str = ""
    zone: str = ""
    capacity_type: str = ""
    region: str = ""
    provider: str = ""

    def applies_to(self, node: PricedNode) -> bool:
        """True for a node that has all that is named."""
        return (
            all(node.labels.get(key) == value for key, value in self.labels)
            and self.instance_type in ("", node.instance_type)
            and self.gpu_model in ("", node.gpu_model)
            and self.zone in ("", node.zone)
            and self.capacity_type in ("", node.capacity_type)
            and self.region in ("", node.region)
            and self.provider in ("", node.provider)
        )

    @property
    def specificity(self) -> tuple[int, ...]:
        """How much is named, what says most about a price first: labels that people chose, then the type."""
        fields = (
            self.instance_type,
            self.gpu_model,
            self.zone,
            self.capacity_type,
            self.region,
            self.provider,
        )
        return (len(self.labels), *(int(bool(field)) for field in fields))


class Price(msgspec.Struct, frozen=True):
    """One row of the book.

    ``amount_micro`` is the price of one unit in millionths of ``currency``. Of a node's price ``gpu_micro``
    is for all its GPUs together, and the rest for its host; a price of GPUs has no host part. It is good
    from ``from_us`` until before ``until_us``.
    """

    id: str
    scope: PriceScope
    unit: PriceUnit
    amount_micro: int
    currency: str
    from_us: int
    until_us: int | None = None
    gpu_micro: int | None = None
    source: str = ""

    @property
    def span(self) -> Span:
        """When it is good."""
        return Span(self.from_us, self.until_us)

    @property
    def host_micro(self) -> int:
        """The part of the price that is for the host."""
        return 0 if self.gpu_micro is None else self.amount_micro - self.gpu_micro


class PriceSpan(msgspec.Struct, frozen=True):
    """Time with one price; None for a gap."""

    from_us: int
    until_us: int
    price: Price | None


class PriceBook:
    """Rows that were checked against one another."""

    def __init__(self, prices: Iterable[Price]) -> None:
        """Raises InputError for a row that is wrong in itself, or that overlaps another one in its scope."""
        self.prices = tuple(sorted(prices, key=lambda price: (price.scope, price.from_us, price.id)))
        self._by_worth = sorted(self.prices, key=_worth, reverse=True)
        for price in self.prices:
            _check(price)
        _check_together(self.prices)

    @property
    def currency(self) -> str:
        """The currency of all rows; "" for a book without rows."""
        return self.prices[0].currency if self.prices else ""

    def has_price(self, node: PricedNode) -> bool:
        """Whether any row is for the node, at any time."""
        return any(price.scope.applies_to(node) for price in self.prices)

    def spans(self, node: PricedNode, from_us: int, until_us: int) -> tuple[PriceSpan, ...]:
        """The price of a node at each instant of a time, in order and without a hole."""
        applying = [price for price in self._by_worth if price.scope.applies_to(node)]
        changes = (at for price in applying for at in price.span.bounds())
        found: list[PriceSpan] = []
        for start, end in pieces(from_us, until_us, changes):
            good = next((one for one in applying if one.span.covers(start)), None)
            if found and found[-1].price == good:
                found[-1] = PriceSpan(found[-1].from_us, end, good)
            else:
                found.append(PriceSpan(start, end, good))
        return tuple(found)


def _worth(price: Price) -> tuple[tuple[int, ...], PriceScope, str]:
    # Of scopes that name equally much the order of their names decides: any fixed order will do.
    return price.scope.specificity, price.scope, price.id


def _check(price: Price) -> None:
    where = f"price {price.id}"
    if price.amount_micro < 0:
        raise InputError(
            "a negative price", where=where, field="amount", value=price.amount_micro, expected="0 or more"
        )
    if price.unit is PriceUnit.NODE_HOUR:
        if price.gpu_micro is None:
            expected = "the part of the node's price that is for its GPUs"
            raise InputError("the GPU part is missing", where=where, field="gpuAmount", expected=expected)
        if not 0 <= price.gpu_micro <= price.amount_micro:
            expected = f"from 0 to the node's {price.amount_micro}"
            raise InputError(
                "no part of the price",
                where=where,
                field="gpuAmount",
                value=price.gpu_micro,
                expected=expected,
            )
    elif price.gpu_micro is not None:
        expected = "no GPU part beside a price of GPUs"
        raise InputError(
            "a part of a GPU's price",
            where=where,
            field="gpuAmount",
            value=price.gpu_micro,
            expected=expected,
        )
    if price.until_us is not None and price.until_us <= price.from_us:
        expected = f"a moment after {price.from_us}"
        raise InputError(
            "the price ends before it begins",
            where=where,
            field="validTo",
            value=price.until_us,
            expected=expected,
        )


def _check_together(prices: tuple[Price, ...]) -> None:
    """Rows are sorted by scope and begin."""
    ids: set[str] = set()
    for price in prices:
        if price.id in ids:
            expected = "another id"
            raise InputError("two prices have one id", field="id", value=price.id, expected=expected)
        ids.add(price.id)
        if price.currency != prices[0].currency:
            raise InputError(
                "two currencies in one book",
                where=f"price {price.id}",
                field="currency",
                value=price.currency,
                expected=f"{prices[0].currency}, as in price {prices[0].id}",
            )
    for first, second in itertools.pairwise(prices):
        if first.scope == second.scope and (first.until_us is None or second.from_us < first.until_us):
            raise InputError(
                f"two prices at one time: price {first.id} is still good then",
                where=f"price {second.id}",
                field="validFrom",
                value=second.from_us,
                expected=f"price {first.id} to end before",
            )
