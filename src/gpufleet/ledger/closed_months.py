"""Months whose accounts are closed: charges that change no more, and what later facts correct in them.

A closed month is a file of charges with its checksum. What becomes known afterwards, such as a late bill, is
written into the next month that is closed: rows that say by how much an hour of an older month differs from
all that was written of it before. So a sum over all closed months is always what is known now, and no number
that was given out changes. The checksum is written last; a month without one was broken off, and is closed
again.
"""

import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

import duckdb
import msgspec

from gpufleet.files.atomic_write import write_whole
from gpufleet.files.regular import read_regular
from gpufleet.ledger.bills.billed_hours import BILLED, CORRECTION
from gpufleet.ledger.charges import (
    COLUMNS,
    LIMIT_BYTES,
    ChargesHeading,
    charges_database,
    explained_by_database,
    fill,
    heading_of,
    quoted,
    write_table,
)
from gpufleet.ledger.checksums import ENDING as CHECKSUM_ENDING
from gpufleet.ledger.checksums import check, write_checksum
from gpufleet.ledger.cost_rows import CostRow
from gpufleet.ledger.months import begin_us, end_us
from gpufleet.ledger.node_hour import UNSEEN
from gpufleet.model.model_errors import InputError

CHARGES_ENDING = ".charges.parquet"
"""How the name of a closed month ends."""


class Correction(msgspec.Struct, frozen=True):
    """By how much a closed month was changed: what was written of it before, and what is known now."""

    month: str
    before_micro: int
    after_micro: int
    rows: int


class ClosedMonth(msgspec.Struct, frozen=True):
    """A month that was closed. ``provisional_micro`` is the part by prices, for which no bill has come."""

    month: str
    currency: str
    amount_micro: int
    provisional_micro: int
    corrections: tuple[Correction, ...]


class ClosedMonths:
    """A folder of the closed months of one cluster."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def months(self) -> list[str]:
        """The months that are closed, oldest first."""
        ending = f"{CHARGES_ENDING}{CHECKSUM_ENDING}"
        paths = self._folder.glob(f"????-??{ending}")
        return sorted(path.name.removesuffix(ending) for path in paths)

    def path(self, month: str) -> Path:
        """Where the charges of a month are."""
        return self._folder / f"{month}{CHARGES_ENDING}"

    def close(
        self,
        month: str,
        cluster: str,
        currency: str,
        rows: Iterable[CostRow],
        again: Mapping[str, Iterable[CostRow]],
    ) -> ClosedMonth:
        """Close a month of these rows, and correct older ones to the rows that are known of them now.

        Raises InputError where that may not be, and FileWriteError.
        """
        heading = ChargesHeading(cluster, currency, begin_us(month), end_us(month))
        self._check(month, heading, again)
        path = self.path(month)
        try:
            with tempfile.TemporaryDirectory(prefix="gpufleet-closing-") as place:
                made = Path(place, "charges.parquet")
                with charges_database(made.with_suffix(".duckdb")) as database:
                    fill(database, "charges", rows)
                    amount_micro, provisional_micro = _amounts(database)
                    corrections = tuple(
                        self._correct(database, month, older, again[older]) for older in sorted(again)
                    )
                    write_table(database, made, heading)
                content = read_regular(made, LIMIT_BYTES, field="LOG")
        except duckdb.IOException as error:
            raise explained_by_database(path, error) from error
        write_whole(path, content)
        write_checksum(path, content)
        return ClosedMonth(month, currency, amount_micro, provisional_micro, corrections)

    def _check(self, month: str, heading: ChargesHeading, again: Iterable[str]) -> None:
        closed = self.months()
        if closed and closed[-1] >= month:
            expected = f"a month after {closed[-1]}, into which --correct writes what changes in older ones"
            raise InputError(f"{closed[-1]} is closed", field="MONTH", value=month, expected=expected)
        for older in sorted(again):
            if older not in closed:
                expected = f"a closed month: {', '.join(closed) or 'there is none'}"
                raise InputError("is not closed", field="--correct", value=older, expected=expected)
        for older in closed:
            path = self.path(older)
            check(path, read_regular(path, LIMIT_BYTES, field="--accounts"))
            known = heading_of(path)
            if known is None or (known.cluster, known.currency) != (heading.cluster, heading.currency):
                expected = "months of the same cluster and currency; are the same --prices given?"
                raise InputError("is of another cluster or currency", where=str(path), expected=expected)

    def _correct(
        self, database: duckdb.DuckDBPyConnection, month: str, older: str, rows: Iterable[CostRow]
    ) -> Correction:
        """Add rows that make what was written of an older month what is known of it now."""
        fill(database, "again", rows)
        paths = ", ".join(quoted(str(self.path(one))) for one in self.months())
        columns = ", ".join(name for name in COLUMNS if name != "corrects")
        database.execute(
            f"CREATE TABLE before AS SELECT coalesce(corrects, hour) AS corrects, {columns}"  # noqa: S608
            f" FROM read_parquet([{paths}]) WHERE coalesce(corrects, hour) >= make_timestamp(?)"
            " AND coalesce(corrects, hour) < make_timestamp(?)",
            [begin_us(older), end_us(older)],
        )
        _check_knowledge(database, older)
        (counted,) = database.execute("SELECT count(*) FROM charges").fetchall()
        database.execute(_DIFFERENCE, [begin_us(month), CORRECTION])
        (now,) = database.execute("SELECT count(*) FROM charges").fetchall()
        sums = "SELECT (SELECT sum(amount_micro) FROM before), (SELECT sum(amount_micro) FROM again)"
        ((was, is_now),) = database.execute(sums).fetchall()
        database.execute("DROP TABLE before; DROP TABLE again")
        return Correction(older, int(was or 0), int(is_now or 0), now[0] - counted[0])


_SAME = ", ".join(
    name for name in COLUMNS if name not in ("hour", "price", "quantity", "amount_micro", "corrects")
)
"""What a row has in common with the row that corrects it. The price may be what changes."""

_DIFFERENCE = (
    # A part without a price is told from one with a price, so that hours without one still add up.
    f"INSERT INTO charges SELECT make_timestamp(?), {_SAME.replace('estimated', '? AS price, estimated')},"  # noqa: S608
    " sum(quantity), sum(amount_micro), corrects FROM ("
    f"SELECT hour AS corrects, {_SAME}, quantity, amount_micro, amount_micro IS NULL AS unpriced FROM again"
    f" UNION ALL SELECT corrects, {_SAME}, -quantity, -amount_micro, amount_micro IS NULL FROM before"
    f") GROUP BY corrects, {_SAME}, unpriced"
    " HAVING sum(quantity) <> 0 OR coalesce(sum(amount_micro), 0) <> 0"
    # Fixed, so that equal corrections are equal bytes.
    f" ORDER BY corrects, {_SAME}, unpriced"
)
"""Adds what is known now, less what was written before."""


def _amounts(database: duckdb.DuckDBPyConnection) -> tuple[int, int]:
    """All of the month's charges, and the part of them that is by prices."""
    text = (
        "SELECT coalesce(sum(amount_micro), 0), coalesce(sum(amount_micro) FILTER (price NOT IN (?, ?)), 0)"
        " FROM charges"
    )
    ((amount, provisional),) = database.execute(text, [BILLED, CORRECTION]).fetchall()
    return int(amount), int(provisional)


_GONE = (
    "SELECT node FROM before WHERE node <> '' GROUP BY node HAVING sum(quantity) > 0"
    " EXCEPT SELECT node FROM again ORDER BY node"
)
"""The nodes that nothing is known of any more."""

_UNSEEN = (
    "SELECT (SELECT sum(quantity) FROM before WHERE reason = ? AND namespace IS NULL),"
    " (SELECT sum(quantity) FROM again WHERE reason = ? AND namespace IS NULL)"
)
"""The quantity that no pod was known to hold, of times in which pods were not followed."""

_BILLED = "SELECT (SELECT count(*) FROM before WHERE price = ?), (SELECT count(*) FROM again WHERE price = ?)"
"""How many rows are by a bill."""


def _check_knowledge(database: duckdb.DuckDBPyConnection, older: str) -> None:
    """Less than was known before corrects nothing: then a file or a bill was not given."""
    gone = database.execute(_GONE).fetchone()
    if gone is not None:
        expected = f"every LOG that {older} was closed with"
        raise InputError(
            f"the LOGs know nothing of the node {gone[0]} in {older}",
            field="--correct",
            value=older,
            expected=expected,
        )
    ((was, now),) = database.execute(_UNSEEN, [UNSEEN, UNSEEN]).fetchall()
    if (now or 0) > (was or 0):
        expected = f"every LOG that {older} was closed with"
        raise InputError(
            f"the LOGs know less of {older} than when it was closed",
            field="--correct",
            value=older,
            expected=expected,
        )
    ((was, now),) = database.execute(_BILLED, [BILLED, BILLED]).fetchall()
    if was and not now:
        expected = f"the bill that {older} was closed with, or the one that takes its place"
        raise InputError(f"no --bill is for {older}", field="--correct", value=older, expected=expected)
