"""The catalogues of SkyPilot and gpuhunt: tables of instance types with their prices by region.

SkyPilot's vms.csv has a line for each zone, with the price on demand and that of spot capacity; gpuhunt's
tables have a line for each of both. Neither says since when its prices are good: they count for any time.
"""

import csv
from collections.abc import Iterable, Iterator, Mapping

from gpufleet.ledger.node_versions import ON_DEMAND, SPOT
from gpufleet.ledger.price_files.offers import Imported, Offer, micro, number, prices_of
from gpufleet.model.model_errors import InputError

SKYPILOT = ("InstanceType", "AcceleratorCount", "vCPUs", "MemoryGiB", "Price", "SpotPrice", "Region")
"""Columns of SkyPilot's vms.csv that are read; AvailabilityZone is read where it stands."""

GPUHUNT = ("instance_name", "location", "price", "cpu", "memory", "gpu_count", "spot")
"""Columns of gpuhunt's tables that are read."""

US_DOLLAR = "USD"
"""Both write all prices in US dollars."""

TRUE_WORDS = frozenset({"true", "1"})
"""How gpuhunt writes that a line is about spot capacity."""

Row = Mapping[str, str]


def read_skypilot(lines: Iterable[str], name: str) -> Imported:
    """The prices of a vms.csv. Raises InputError, naming the line."""
    offers = (one for where, row in _rows(lines, name) for one in _of_skypilot(row, where))
    return prices_of(offers, US_DOLLAR, "skypilot")


def read_gpuhunt(lines: Iterable[str], name: str) -> Imported:
    """The prices of a table of gpuhunt. Raises InputError, naming the line."""
    return prices_of((_of_gpuhunt(row, where) for where, row in _rows(lines, name)), US_DOLLAR, "gpuhunt")


def _rows(lines: Iterable[str], name: str) -> Iterator[tuple[str, Row]]:
    rows = csv.DictReader(lines, strict=True)
    try:
        for row in rows:
            where = f"{name}, line {rows.line_num}"
            if None in row or None in row.values():
                expected = "as many cells as columns"
                raise InputError("a line of another length", where=where, expected=expected)
            yield where, row
    except csv.Error as error:
        where = f"{name}, line {rows.line_num}"
        raise InputError(f"no table ({error})", where=where, expected="a table with commas") from error


def _of_skypilot(row: Row, where: str) -> Iterator[Offer]:
    for column, capacity in (("Price", ON_DEMAND), ("SpotPrice", SPOT)):
        # Rows without a price are of types that are not sold there, rows without CPUs of accelerators alone.
        if row[column] and row["vCPUs"] and row["MemoryGiB"]:
            yield Offer(
                row["InstanceType"],
                row["Region"],
                row.get("AvailabilityZone", ""),
                capacity,
                number(row["vCPUs"], field="vCPUs", where=where),
                number(row["MemoryGiB"], field="MemoryGiB", where=where),
                number(row["AcceleratorCount"] or "0", field="AcceleratorCount", where=where),
                micro(row[column], field=column, where=where),
            )


def _of_gpuhunt(row: Row, where: str) -> Offer:
    return Offer(
        row["instance_name"],
        row["location"],
        "",
        SPOT if row["spot"].lower() in TRUE_WORDS else ON_DEMAND,
        number(row["cpu"], field="cpu", where=where),
        number(row["memory"], field="memory", where=where),
        number(row["gpu_count"] or "0", field="gpu_count", where=where),
        micro(row["price"], field="price", where=where),
    )
