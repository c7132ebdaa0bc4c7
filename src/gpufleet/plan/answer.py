"""The answer of `gpufleet plan` as a value; ``-o json`` writes it as it stands."""

import msgspec

from gpufleet.plan.instance_types import ON_DEMAND, InstanceType
from gpufleet.whatif.answer import Work

SCHEMA = "gpufleet.io/plan/v1"
"""A change that breaks readers of the JSON gets another version."""


MONTH_HOURS = 730
"""Hours of a month in the price lists of providers: a twelfth of a year of 365 days, rounded."""


class Purchase(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """So many nodes of one type; prices are for an hour, in micro-units of the currency.

    ``names`` is how the names begin that the new nodes have in this answer, ``pool`` the NodePool of
    Karpenter that buys them.
    """

    instance_type: str
    count: int
    gpus: int
    gpu_model: str
    price_micro: int
    names: str
    provider: str = ""
    region: str = ""
    zone: str = ""
    capacity_type: str = ""
    pool: str = ""

    @property
    def cost_micro(self) -> int:
        """What all of them cost for an hour."""
        return self.count * self.price_micro


def purchase_of(one: InstanceType, count: int) -> Purchase:
    """So many nodes of a type."""
    return Purchase(
        one.name,
        count,
        one.gpus,
        one.gpu_model,
        one.price_micro,
        one.node_names,
        one.provider,
        one.region,
        one.zone,
        one.capacity_type,
        one.pool,
    )


def type_words(one: Purchase) -> str:
    """The type, and how it is paid where that is not on demand."""
    paid = "" if one.capacity_type in ("", ON_DEMAND) else f" ({one.capacity_type})"
    return f"{one.instance_type}{paid}"


class OneType(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What ``count`` nodes of one type alone would do: start ``pods`` of those that the whole plan starts."""

    instance_type: str
    count: int
    pods: int
    cost_micro: int
    provider: str = ""
    region: str = ""
    zone: str = ""
    capacity_type: str = ""
    pool: str = ""


class Removed(msgspec.Struct, frozen=True, rename="camel"):
    """Nodes that are planned without: how many, what they cost for an hour in micro-units of the currency,
    and of how many of them the catalogue has no price.
    """

    nodes: int = 0
    cost_micro: int = 0
    without_price: int = 0


class SpotWork(msgspec.Struct, frozen=True, rename="camel"):
    """Whether work of one queue and request goes on spot capacity, and why.

    Of ``tasks`` so many are ``on_spot``. ``types`` are the types that it would take, the least expected cost
    first.
    """

    queue: str
    gpus: int
    gpu_milli: int
    models: tuple[str, ...]
    tasks: int
    on_spot: int
    types: tuple[str, ...]
    why: str


class Plan(msgspec.Struct, frozen=True, rename="camel"):
    """Which nodes start what waits.

    ``by_s`` is how long work may wait. ``pods_late`` do not start by then without a purchase, ``pods_helped``
    of them do with it. ``starts`` is their work, and ``spared`` what would be evicted and then goes on.
    ``evicted`` is what is evicted only with the nodes, for what they let start, ``delayed`` what starts, or
    starts earlier, without them, and ``lost`` what ends for good with a node that is taken away.
    ``nothing_helps`` is what no purchase of these types helps, with the reason. ``one_type`` are the other
    ways that were judged. ``removed`` is what is planned without, ``spot`` what may go on spot capacity.
    Costs are for an hour in micro-units of
    ``currency``.
    """

    schema: str
    at: str
    by_s: float
    changes: tuple[str, ...]
    catalogue: str
    currency: str
    nodes: tuple[Purchase, ...]
    cost_micro: int
    pods_late: int
    pods_helped: int
    starts: tuple[Work, ...]
    spared: tuple[Work, ...]
    evicted: tuple[Work, ...]
    delayed: tuple[Work, ...]
    lost: tuple[Work, ...]
    nothing_helps: tuple[Work, ...]
    nothing_helps_more: int
    one_type: tuple[OneType, ...]
    removed: Removed
    notes: tuple[str, ...]
    spot: tuple[SpotWork, ...] = ()
