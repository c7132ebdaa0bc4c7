"""Bills in the form of FOCUS are read to the last digit, and what is wrong is told by its line."""

import csv
import io
from decimal import Decimal

import pytest

from gpufleet.ledger.bills.focus_bill import read_bills
from gpufleet.ledger.bills.node_matching import MatchedNode, NodeMatching
from gpufleet.model.model_errors import InputError

HEADING = "ResourceId,EffectiveCost,BillingCurrency,ChargePeriodStart,ChargePeriodEnd,ServiceName,ChargeClass"
GOOD = "i-1,1,USD,2026-10-01T00:00:00Z,2026-10-01T01:00:00Z,EC2,"
HOUR_US = 3_600_000_000
OCTOBER_US = 1_790_812_800_000_000
"""The begin of October 2026 in UTC, as ``date -d 2026-10-01T00:00:00Z +%s`` says it."""


def bill(*lines: str, heading: str = HEADING) -> tuple[bytes, str]:
    return "\n".join([heading, *lines, ""]).encode(), "bill.csv"


def test_lines_add_up_to_the_bill_to_a_micro_unit() -> None:
    """Three thirds of a millionth are one millionth, which the first line gets."""
    third = "0.000000333333333333"
    found = read_bills([bill(*[GOOD.replace("1,USD", f"{third},USD")] * 3)])
    assert [one.amount_micro for one in found.lines] == [1, 0, 0]
    assert (found.total_micro, found.currency) == (1, "USD")


@pytest.mark.parametrize(
    ("text", "micro"),
    [
        ("98.3200000000", 98_320_000),
        ("-0.5", -500_000),
        ("1.2E-2", 12_000),
        ("0E-10", 0),
        ("1e2", 100_000_000),
    ],
)
def test_amounts_are_read_as_they_are_written(text: str, micro: int) -> None:
    (found,) = read_bills([bill(GOOD.replace("1,USD", f"{text},USD"))]).lines
    assert found.amount_micro == micro == Decimal(text) * 1_000_000


@pytest.mark.parametrize(
    "period",
    [
        "2026-10-01T00:00:00Z,2026-10-02T00:00:00Z",
        "2026-10-01 00:00:00 UTC,2026-10-02 00:00:00 UTC",
        "2026-10-01,2026-10-02",
        "2026-10-01T00:00Z,2026-10-02T00:00Z",
        "2026-10-01T02:00+02:00,2026-10-02T00:00",
        "2026-10-01T00:00:00,2026-10-02T00:00:00",
        "2026-09-30T19:00:00-05:00,2026-10-02T02:00:00+02:00",
    ],
)
def test_times_are_read_as_providers_write_them(period: str) -> None:
    (found,) = read_bills([bill(f"i-1,1,USD,{period},EC2,Correction")]).lines
    assert (found.span.from_us, found.span.until_us) == (OCTOBER_US, OCTOBER_US + 24 * HOUR_US)
    assert (found.service, found.is_correction) == ("EC2", True)


ORACLE = (
    "AvailabilityZone,BilledCost,BillingAccountId,BillingAccountName,BillingCurrency,"
    "BillingPeriodEnd,BillingPeriodStart,ChargeCategory,ChargeDescription,ChargeFrequency,"
    "ChargePeriodEnd,ChargePeriodStart,ChargeSubcategory,CommitmentDiscountCategory,"
    "CommitmentDiscountId,CommitmentDiscountName,CommitmentDiscountType,EffectiveCost,InvoiceIssuer,"
    "ListCost,ListUnitPrice,PricingCategory,PricingQuantity,PricingUnit,Provider,Publisher,Region,"
    "ResourceId,ResourceName,ResourceType,ServiceCategory,ServiceName,SkuId,SkuPriceId,SubAccountId,"
    "SubAccountName,Tags,UsageQuantity,UsageUnit,oci_ReferenceNumber,oci_CompartmentId,"
    "oci_CompartmentName,oci_OverageFlag,oci_UnitPriceOverage,oci_BilledQuantityOverage,"
    "oci_CostOverage,oci_AttributedUsage,oci_AttributedCost,oci_BackReferenceNumber"
)
"""The columns of Oracle's export, which has some of a draft of FOCUS, such as Provider, beside its own."""

INSTANCE = "ocid1.instance.oc1.eu-frankfurt-1.gpu"


def of_oracle(**cells: str) -> str:
    """A line with these cells, and no value in the others."""
    file = io.StringIO()
    writer = csv.DictWriter(file, ORACLE.split(","), lineterminator="")
    writer.writerow(cells)
    return file.getvalue()


def test_a_bill_of_oracle_has_a_line_for_each_part_of_an_instance() -> None:
    """GPUs at 80 and 10 $ an hour, and a disk; the tags are JSON with commas in them."""
    hour = {"ChargePeriodStart": "2026-10-01T00:00:00Z", "ChargePeriodEnd": "2026-10-01T01:00:00Z"}
    common = {**hour, "BillingCurrency": "USD", "Provider": "Oracle", "Tags": '{"a":"b","c":"d"}'}
    gpu = of_oracle(**common, ResourceId=INSTANCE, EffectiveCost="80", ServiceName="COMPUTE")
    disk = of_oracle(
        **common, ResourceId="ocid1.volume.oc1..x", EffectiveCost="0.25", ServiceName="BLOCK_STORAGE"
    )
    memory = of_oracle(**common, ResourceId=INSTANCE, EffectiveCost="1.0E1", ServiceName="COMPUTE")
    found = read_bills([bill(gpu, disk, memory, heading=ORACLE)])
    matching = NodeMatching([MatchedNode("node", INSTANCE)])
    assert [(matching.nodes_of(one.resource), one.amount_micro) for one in found.lines] == [
        (("node",), 80_000_000),
        ((), 250_000),
        (("node",), 10_000_000),
    ]
    assert {(one.span.from_us, one.span.until_us) for one in found.lines} == {
        (OCTOBER_US, OCTOBER_US + HOUR_US)
    }
    assert found.lines[1].service == "BLOCK_STORAGE"


@pytest.mark.parametrize("cell", ["of\x0cone", "of\x85one", "of\u2028one", '"of\none"', '"of, ""one"""'])
def test_a_cell_may_hold_any_character(cell: str) -> None:
    heading = f"{HEADING},ChargeDescription"
    found = read_bills([bill(f"{GOOD},{cell}", f"{GOOD},plain", heading=heading)])
    assert [one.amount_micro for one in found.lines] == [1_000_000, 1_000_000]


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ((GOOD.replace("1,USD", "one,USD"),), r"bill.csv, line 2, EffectiveCost: not an amount"),
        ((GOOD.replace("1,USD", "1e99,USD"),), "not an amount"),
        ((GOOD, GOOD.replace("USD", "EUR")), r"line 3, BillingCurrency: another currency than before"),
        ((GOOD.replace("2026-10-01T01", "2026-10-01T00"),), "ends before it begins"),
        ((GOOD.replace("2026-10-01T00:00:00Z", "soon"),), "ChargePeriodStart: not a time"),
        ((GOOD + ",,",), "a line of another length"),
    ],
)
def test_what_is_wrong_is_told_by_its_line(lines: tuple[str, ...], words: str) -> None:
    with pytest.raises(InputError, match=words):
        read_bills([bill(*lines)])


def test_another_table_is_no_bill() -> None:
    with pytest.raises(InputError, match="no column EffectiveCost"):
        read_bills([bill("1", heading="a")])
    with pytest.raises(InputError, match="not text"):
        read_bills([(b"\xff\xfe", "bill.csv")])
