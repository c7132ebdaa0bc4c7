"""The bill of the page ``docs/cost-walk.md``: the last day of October of three instances, made up.

``python -m tests.cli.bill_of_the_walk`` writes it to ``examples/cost/walk``.
"""

from collections.abc import Iterator

from tests.conventions.project import ROOT

FOLDER = ROOT / "examples" / "cost" / "walk"
FILE = FOLDER / "bill.csv"
INSTANCES = {
    "i-0c5e1a7d2f3b40001": "27.3456789012",
    "i-0c5e1a7d2f3b40002": "27.3456789012",
    "i-0c5e1a7d2f3b40003": "16.8123456789",
}
HEADING = (
    "BilledCost,BillingCurrency,ChargeCategory,ChargePeriodEnd,ChargePeriodStart,CommitmentDiscountStatus,"
    "EffectiveCost,ResourceId,ServiceName"
)


def lines() -> Iterator[str]:
    """An hour of each instance a line, what they sent a line each, and a store that is no node."""
    yield HEADING
    for hour in range(24):
        end = f"2026-10-31T{hour + 1:02}" if hour < 23 else "2026-11-01T00"
        times = f"{end}:00:00Z,2026-10-31T{hour:02}:00:00Z"
        for instance, cost in INSTANCES.items():
            arn = f"arn:aws:ec2:eu-central-1:123456789012:instance/{instance}"
            yield f"0,EUR,Usage,{times},,{cost},{arn},AmazonEC2"
            yield f"0,EUR,Usage,{times},,0.0071428571,{instance},AWSDataTransfer"
    yield "0,EUR,Usage,2026-11-01T00:00:00Z,2026-10-31T00:00:00Z,,4.7,arn:aws:s3:::models,AmazonS3"


def bill() -> str:
    """The file."""
    return "".join(f"{line}\n" for line in lines())


if __name__ == "__main__":
    FILE.write_text(bill(), encoding="utf-8")
