"""Costs as rows of FOCUS 1.4, or of 1.2: the form in which cost tools read bills of any provider.

Each hour of a node is two charges, one for its GPUs and one for its host, and each of them is divided into
rows: one for each pod, device and bucket. A row repeats what its charge says of the node, and its costs add
up to those of the charge, to a millionth; so do the ratios, which add up to exactly 1. The charge itself is
not written beside its rows, so that a sum over all rows counts nothing twice. ``x_OriginId`` names it.

The rows are showback by a price book, not a provider's bill: who serves and invoices is gpufleet's user, who
hosts is the provider of the node where it names one. Names and null rules are those of the specification.
"""

import datetime as dt
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from gpufleet.ledger.bills.billed_hours import CORRECTION, WITHOUT_BILL, Division
from gpufleet.ledger.buckets import Bucket
from gpufleet.ledger.cost_rows import HOST, HOST_IDLE, hours_of
from gpufleet.ledger.interval_log import ByNode, LedgerPod
from gpufleet.ledger.months import begin_us, month_of
from gpufleet.ledger.months import end_us as month_end_us
from gpufleet.ledger.node_hour import HOUR_US, NO_POD, LedgerRow, NodeHour, NodeRecords
from gpufleet.ledger.price_book import PriceBook
from gpufleet.ledger.spans import Span, end_us
from gpufleet.ledger.stamps import US_PER_S
from gpufleet.model.device import WHOLE_GPU_MILLI
from gpufleet.model.identifiers import PodUid
from gpufleet.model.money import MICRO_UNITS, apportion

METHOD = "gpufleet.io/held/v1"
"""How a charge is divided: by the part of a card that is held, and the time; docs/cost.md has it."""

ISSUER = "gpufleet"
"""Serves and invoices these rows: they are showback within an organisation."""

RATIO_DIGITS = 12
"""Ratios add up to 1 in so many decimals."""

GPU_HOURS = "GPU-Hours"
"""The unit of what is held of GPUs."""

SPLIT_COLUMNS = (
    "AllocatedMethodDetails",
    "AllocatedMethodId",
    "AllocatedResourceId",
    "AllocatedResourceName",
    "AllocatedTags",
)
"""Columns that FOCUS has since 1.3."""

OWN_COLUMNS = (
    "x_Bucket",
    "x_Device",
    "x_Estimated",
    "x_GpuHours",
    "x_OriginId",
    "x_PodUid",
    "x_PriceId",
    "x_Reason",
)
"""Columns of gpufleet's, behind those of FOCUS."""

SHARED_COLUMNS = (
    "AvailabilityZone",
    "BilledCost",
    "BillingAccountId",
    "BillingAccountName",
    "BillingAccountType",
    "BillingCurrency",
    "BillingPeriodEnd",
    "BillingPeriodStart",
    "ChargeCategory",
    "ChargeClass",
    "ChargeDescription",
    "ChargeFrequency",
    "ChargePeriodEnd",
    "ChargePeriodStart",
    "ConsumedQuantity",
    "ConsumedUnit",
    "ContractedCost",
    "ContractedUnitPrice",
    "EffectiveCost",
    "InvoiceIssuerName",
    "ListCost",
    "ListUnitPrice",
    "PricingCategory",
    "PricingQuantity",
    "PricingUnit",
    "RegionId",
    "RegionName",
    "ResourceId",
    "ResourceName",
    "ResourceType",
    "ServiceCategory",
    "ServiceName",
    "ServiceSubcategory",
    "SkuId",
    "SkuMeter",
    "SkuPriceDetails",
    "SkuPriceId",
    "SubAccountId",
    "SubAccountName",
    "SubAccountType",
    "Tags",
)
"""Columns of both versions. Of a row without a price of a unit those of units and SKUs are null."""

NEW_COLUMNS = ("HostProviderName", "ServiceProviderName")
"""Columns of 1.4, in place of those below."""

OLD_COLUMNS = (
    "CapacityReservationId",
    "CapacityReservationStatus",
    "CommitmentDiscountCategory",
    "CommitmentDiscountId",
    "CommitmentDiscountName",
    "CommitmentDiscountQuantity",
    "CommitmentDiscountStatus",
    "CommitmentDiscountType",
    "CommitmentDiscountUnit",
    "InvoiceId",
    "PricingCurrency",
    "PricingCurrencyContractedUnitPrice",
    "PricingCurrencyEffectiveCost",
    "PricingCurrencyListUnitPrice",
    "ProviderName",
    "PublisherName",
)
"""Columns of 1.2 alone: those that 1.4 has no more, and conditional ones that its validator asks for."""


class FocusVersion(msgspec.Struct, frozen=True):
    """A version of the specification, and its columns in order."""

    name: str
    columns: tuple[str, ...]


FOCUS_14 = FocusVersion("1.4", (*sorted((*SHARED_COLUMNS, *NEW_COLUMNS, *SPLIT_COLUMNS)), *OWN_COLUMNS))
FOCUS_12 = FocusVersion("1.2", (*sorted((*SHARED_COLUMNS, *OLD_COLUMNS)), *OWN_COLUMNS))

Cells = dict[str, str]
"""A row by column; a column that is missing is null."""


class ChargePart(msgspec.Struct, frozen=True):
    """A part of a charge."""

    pod_uid: PodUid
    bucket: str
    device: str
    reason: str
    is_estimated: bool
    quantity: int
    amount_micro: int


Origin = tuple[str, str]
"""The price of a charge, and what it is for: "gpu" or "host"."""


def focus_rows(
    intervals: ByNode,
    book: PriceBook,
    span: Span,
    account: str,
    version: FocusVersion,
    division: Division = WITHOUT_BILL,
) -> Iterator[tuple[str, ...]]:
    """The rows of a time that has an end, in the order of nodes and hours; null is an empty cell.

    ``account`` is the billing account: the UID of the cluster. Hours without a price are no charges. What was
    billed for no node is none of ours to split: it has no row.
    """
    currency = book.currency or division.currency
    for node in intervals.each():
        records, pods = node.records, node.pods
        for hour in hours_of(records, book, span, division):
            charge = _charge(records, hour, currency, span, account)
            for (price_id, kind), parts in sorted(_origins(hour).items()):
                origin = f"{hour.node_uid}/{charge['ChargePeriodStart']}/{price_id}/{kind}"
                for cells in split(parts, pods):
                    whole = {**charge, **cells, "x_OriginId": origin, "x_PriceId": price_id}
                    if price_id == CORRECTION:
                        whole["ChargeClass"] = "Correction"
                    yield tuple(whole.get(column, "") for column in version.columns)


def _charge(records: NodeRecords, hour: NodeHour, currency: str, span: Span, account: str) -> Cells:
    """What all rows of an hour of a node have in common."""
    start = max(hour.hour_us, span.from_us)
    end = min(hour.hour_us + HOUR_US, end_us(span))
    priced = records.priced_as
    return {
        **charge_cells(month_of(start), (start, end), currency, account),
        "AvailabilityZone": priced.zone,
        "HostProviderName": priced.provider or ISSUER,
        "RegionId": priced.region,
        "RegionName": priced.region,
        "ResourceId": hour.node_uid,
        "ResourceName": hour.node,
    }


def charge_cells(month: str, period: tuple[int, int], currency: str, account: str) -> Cells:
    """What all rows of a charge say that a month is billed for a time, but for the node."""
    start, end = period
    return {
        "BillingAccountId": account,
        "BillingAccountName": account,
        "BillingAccountType": "Cluster",
        "BillingCurrency": currency,
        "PricingCurrency": currency,
        "BillingPeriodEnd": _stamp(month_end_us(month)),
        "BillingPeriodStart": _stamp(begin_us(month)),
        "ChargeCategory": "Usage",
        "ChargeFrequency": "Usage-Based",
        "ChargePeriodEnd": _stamp(end),
        "ChargePeriodStart": _stamp(start),
        "HostProviderName": ISSUER,
        "InvoiceIssuerName": ISSUER,
        "ProviderName": ISSUER,
        "PublisherName": ISSUER,
        "ResourceType": "Node",
        "ServiceCategory": "Compute",
        "ServiceName": "GPU nodes",
        "ServiceProviderName": ISSUER,
        "ServiceSubcategory": "Containers",
    }


def _origins(hour: NodeHour) -> Mapping[Origin, list[ChargePart]]:
    """The parts of each charge of an hour."""
    found: dict[Origin, list[ChargePart]] = defaultdict(list)
    for row in hour.rows:
        if row.amount_micro is not None:
            found[row.key.price_id, "gpu"].append(_gpu_part(row, row.amount_micro))
    for host in hour.host_rows:
        if host.amount_micro is not None:
            bucket = HOST_IDLE if host.pod_uid == NO_POD else HOST
            part = ChargePart(host.pod_uid, bucket, "", "", False, 0, host.amount_micro)
            found[host.price_id, "host"].append(part)
    return found


def _gpu_part(row: LedgerRow, amount_micro: int) -> ChargePart:
    key = row.key
    bucket: Bucket = key.bucket
    return ChargePart(
        key.pod_uid, bucket, key.device, key.reason, key.is_estimated, row.quantity, amount_micro
    )


def split(parts: Sequence[ChargePart], pods: Mapping[PodUid, LedgerPod]) -> Iterator[Cells]:
    """What the rows of a charge say of its parts, whose ratios add up to 1."""
    for part, ratio in zip(parts, ratios([part.amount_micro for part in parts]), strict=True):
        pod = pods.get(part.pod_uid)
        cost = _decimal(part.amount_micro, MICRO_UNITS)
        cells = {
            "BilledCost": cost,
            "ContractedCost": cost,
            "EffectiveCost": cost,
            "ListCost": cost,
            "PricingCurrencyEffectiveCost": cost,
            "ChargeDescription": part.bucket if not part.reason else f"{part.bucket}: {part.reason}",
            "AllocatedMethodId": METHOD,
            "AllocatedMethodDetails": _details(part, ratio),
            "x_Bucket": part.bucket,
            "x_Device": part.device,
            "x_Estimated": "true" if part.is_estimated else "false",
            "x_GpuHours": _gpu_hours(part.quantity) if part.device else "",
            "x_PodUid": part.pod_uid,
            "x_Reason": part.reason,
        }
        if pod is not None:
            cells["AllocatedResourceId"] = pod.uid
            cells["AllocatedResourceName"] = f"{pod.namespace}/{pod.name}"
            cells["AllocatedTags"] = _tags(pod)
        yield cells


def ratios(amounts: Sequence[int]) -> list[str]:
    """The part of each amount of their sum, in decimals that add up to exactly 1.

    Parts of nothing are equal parts.
    """
    one = 10**RATIO_DIGITS
    # All have one sign: those of a correction may be less than nothing.
    weights = [abs(amount) for amount in amounts] if any(amounts) else [1] * len(amounts)
    return [_decimal(part, one) for part in apportion(one, weights)]


def _details(part: ChargePart, ratio: str) -> str:
    """As JSON with the ratio's own digits, which no binary fraction has."""
    usage = ""
    if part.device:
        usage = f', "UsageUnit": "{GPU_HOURS}", "UsageQuantity": {_gpu_hours(part.quantity)}'
    return f'{{"Elements": [{{"AllocatedRatio": {ratio}{usage}}}]}}'


def _tags(pod: LedgerPod) -> str:
    tags = {"namespace": pod.namespace, "queue": pod.queue, "owner": pod.owner, "gang": pod.gang}
    known = {key: value for key, value in {**dict(pod.labels), **tags}.items() if value}
    return msgspec.json.encode(known, order="sorted").decode()


def _gpu_hours(quantity: int) -> str:
    parts = 10**9
    return _decimal(quantity * parts // (HOUR_US * WHOLE_GPU_MILLI), parts)


def _decimal(number: int, parts: int) -> str:
    """A number of parts as a decimal, without zeros at its end."""
    sign, size = ("-" if number < 0 else ""), abs(number)
    whole, rest = divmod(size, parts)
    digits = f"{rest:0{len(str(parts)) - 1}}".rstrip("0")
    return f"{sign}{whole}.{digits or '0'}"


def _stamp(at_us: int) -> str:
    return dt.datetime.fromtimestamp(at_us // US_PER_S, dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
