"""Charges in the form of FOCUS: those of closed months, and what corrects them.

A charge is what a node's GPUs, or its host, cost in an hour by one price, as in ``focus_rows``. A row that
corrects an hour of an older month is a charge of its own, of the class Correction: it is billed in the month
that was closed, for the hour that it corrects. Charges name nodes and not what a provider calls them, so a
node is known by its name, and region, zone and provider are not told.
"""

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from gpufleet.ledger.bills.billed_hours import CORRECTION
from gpufleet.ledger.charges import ChargeRow, Charges
from gpufleet.ledger.cost_rows import HOSTS, OTHERS
from gpufleet.ledger.focus_rows import ChargePart, FocusVersion, charge_cells, split
from gpufleet.ledger.interval_log import LedgerPod
from gpufleet.ledger.months import month_of
from gpufleet.ledger.node_hour import HOUR_US, NO_POD
from gpufleet.ledger.spans import Span
from gpufleet.model.identifiers import PodUid


def focus_of_charges(paths: Sequence[Path], span: Span, version: FocusVersion) -> Iterator[tuple[str, ...]]:
    """The rows of a time. Hours without a price, and what was billed for no node, have none."""
    charges = Charges(paths)
    rows = (row for row in charges.rows(span) if row.amount_micro is not None and row.bucket not in OTHERS)
    for (hour_us, corrects_us, node, price, kind, own), group in itertools.groupby(rows, _origin):
        start_us = hour_us if corrects_us is None else corrects_us
        whole = charge_cells(
            month_of(hour_us), (start_us, start_us + HOUR_US), charges.currency, charges.cluster
        )
        whole["ResourceId"] = whole["ResourceName"] = node
        # Rows of a correction may have any sign, so that each is a charge of its own.
        whole["x_OriginId"] = f"{node}/{whole['ChargePeriodStart']}/{price}/{kind}{own}"
        whole["x_PriceId"] = price
        if price == CORRECTION:
            whole["ChargeClass"] = "Correction"
        found = list(group)
        pods = {PodUid(row.pod_uid): _pod(row) for row in found if row.pod_uid is not None}
        for cells in split([_part(row) for row in found], pods):
            yield tuple({**whole, **cells}.get(column, "") for column in version.columns)


def _origin(row: ChargeRow) -> tuple[int, int | None, str, str, str, str]:
    """What the rows of a charge have in common."""
    own = ""
    if row.price == CORRECTION:
        what = (row.hour_us, row.device, row.bucket, row.reason, row.pod_uid or "", row.estimated)
        own = "/" + "/".join(map(str, what))
    kind = "host" if row.bucket in HOSTS else "gpu"
    return row.hour_us, row.corrects_us, row.node, row.price, kind, own


def _part(row: ChargeRow) -> ChargePart:
    return ChargePart(
        NO_POD if row.pod_uid is None else PodUid(row.pod_uid),
        row.bucket,
        row.device,
        row.reason,
        row.estimated,
        row.quantity,
        row.amount_micro or 0,
    )


def _pod(row: ChargeRow) -> LedgerPod:
    """Whose a row is; the names of pod, owner and gang have their namespace before them."""
    namespace = row.namespace or ""

    def own(name: str | None) -> str:
        return (name or "").removeprefix(f"{namespace}/")

    labels = msgspec.json.decode(row.labels or "{}", type=dict[str, str])
    return LedgerPod(
        PodUid(row.pod_uid or ""),
        namespace,
        own(row.pod),
        row.queue or "",
        own(row.owner),
        own(row.gang),
        tuple(sorted(labels.items())),
    )
