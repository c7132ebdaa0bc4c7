"""Charges in Parquet: every row of a time's costs, from which answers are sums that DuckDB makes at once.

To work the rows of a month of a large fleet out takes most of a minute; to add them up takes a tenth of a
second. The rows are those of ``cost_rows``, with what they are put together by as columns, so that other
programs can read them too. Names of what no pod holds are null, and "" where a pod has none.
"""

import contextlib
import datetime as dt
import functools
import itertools
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import numpy as np

from gpufleet.files.atomic_write import NO_ROOM, atomic_write, explained
from gpufleet.files.files_errors import FileWriteError
from gpufleet.files.regular import MEBIBYTE, read_regular
from gpufleet.ledger.bills.billed_hours import BILLED, CORRECTION
from gpufleet.ledger.checksums import check, checksum_path
from gpufleet.ledger.cost_rows import OTHERS, PROVISIONAL, CostRow
from gpufleet.ledger.costs import COLUMNS as GROUPINGS
from gpufleet.ledger.costs import ESTIMATED, LABEL, SEEN, TEAM, Cost, Key, Part, put_together
from gpufleet.ledger.node_hour import HOUR_US, NO_DEVICE, UNSEEN
from gpufleet.ledger.spans import Span
from gpufleet.ledger.stamps import US_PER_S
from gpufleet.model.model_errors import InputError

FORMAT = "gpufleet.io/charges/v1"
"""A version that changes what readers must understand gets another number."""

EXPECTED = "a file that `gpufleet cost --charges` wrote"
"""What is expected of a file of charges."""

ROWS_PER_BATCH = 65_536
"""Rows are given to DuckDB so many at a time; a group of the Parquet has as many."""

LIMIT_BYTES = 4096 * MEBIBYTE
"""A month of the largest fleets has some hundred MiB."""

MEMORY_MIB = 192
"""What DuckDB may hold of the rows at once; more is put aside on disk."""

THREADS = 1
"""Several would share the rows out among them, and not always alike."""

COLUMNS = {
    "hour": "TIMESTAMP",
    "node": "VARCHAR",
    "model": "VARCHAR",
    "device": "VARCHAR",
    "bucket": "VARCHAR",
    "reason": "VARCHAR",
    "pod_uid": "VARCHAR",
    "namespace": "VARCHAR",
    "pod": "VARCHAR",
    "queue": "VARCHAR",
    "owner": "VARCHAR",
    "gang": "VARCHAR",
    "labels": "VARCHAR",
    "price": "VARCHAR",
    "estimated": "BOOLEAN",
    "quantity": "BIGINT",
    "amount_micro": "BIGINT",
    "corrects": "TIMESTAMP",
}
"""Columns of the file. ``quantity`` is in thousandths of a GPU times microseconds, ``labels`` JSON.

``corrects`` is the hour that a row of a closed month changes; it is null in all other rows.
"""


class ChargesHeading(msgspec.Struct, frozen=True):
    """What the rows are of; it stands in the metadata of the file."""

    cluster: str
    currency: str
    from_us: int
    until_us: int
    charges: str = FORMAT


_ENCODE = msgspec.json.Encoder(order="sorted").encode
_HEADING = msgspec.json.Decoder(ChargesHeading)
HEADING_KEY = "gpufleet.io/charges"
"""Names the heading in the metadata of the Parquet."""


def write_charges(path: Path, rows: Iterable[CostRow], heading: ChargesHeading) -> None:
    """Write the rows, whole or not at all. Raises FileWriteError."""
    try:
        # DuckDB opens its files by name, so the finished file is copied into its place.
        with tempfile.TemporaryDirectory(prefix="gpufleet-charges-") as folder:
            made = Path(folder, "charges.parquet")
            _copy(made, rows, heading)
            with atomic_write(path) as file, made.open("rb") as content:
                shutil.copyfileobj(content, file.buffer)
    except duckdb.IOException as error:
        raise explained_by_database(path, error) from error


def _copy(made: Path, rows: Iterable[CostRow], heading: ChargesHeading) -> None:
    with charges_database(made.with_suffix(".duckdb")) as database:
        fill(database, "charges", rows)
        write_table(database, made, heading)


@contextlib.contextmanager
def charges_database(place: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """A database at a place that is free again afterwards, to put charges together in."""
    config: dict[str, str | bool | int | float | list[str]] = {
        "threads": THREADS,
        "memory_limit": f"{MEMORY_MIB}MiB",
        "temp_directory": str(place.with_name("aside")),
    }
    # A database on disk, since one in memory is not packed.
    with duckdb.connect(str(place), config=config) as database:
        # It would draw over what the command says on a terminal.
        database.execute("SET enable_progress_bar = false")
        yield database


def fill(database: duckdb.DuckDBPyConnection, table: str, rows: Iterable[CostRow]) -> None:
    """Make a table of these rows. Its name is one of ours."""
    columns = ", ".join(f"{name} {type_}" for name, type_ in COLUMNS.items())
    database.execute(f"CREATE TABLE {table} ({columns})")
    of_rows = f"INSERT INTO {table} SELECT make_timestamp(hour), * EXCLUDE (hour), NULL FROM batch"  # noqa: S608
    for batch in _batches(rows):
        database.register("batch", batch)
        database.execute(of_rows)
        database.unregister("batch")


def write_table(database: duckdb.DuckDBPyConnection, made: Path, heading: ChargesHeading) -> None:
    """Write the table ``charges`` as Parquet."""
    named = f"KV_METADATA {{'{HEADING_KEY}': {quoted(_ENCODE(heading).decode())}}}"
    options = f"FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {ROWS_PER_BATCH}, {named}"
    database.execute(f"COPY charges TO {quoted(str(made))} ({options})")


def _batches(rows: Iterable[CostRow]) -> Iterator[dict[str, Any]]:
    cells: list[tuple[object, ...]] = []
    for row in rows:
        cells.append(_cells(row))
        if len(cells) == ROWS_PER_BATCH:
            yield _arrays(cells)
            cells = []
    if cells:
        yield _arrays(cells)


_NAMES = tuple(GROUPINGS[name] for name in ("namespace", "pod", "queue", "owner", "gang"))
"""What columns say of a pod, as rows are put together by it."""


def _cells(row: CostRow) -> tuple[object, ...]:
    pod = row.pod
    whose: tuple[str | None, ...] = (None,) * 7
    if pod is not None:
        labels = _ENCODE(dict(pod.labels)).decode()
        whose = (pod.uid, *(read(row) for read in _NAMES), labels)
    return (
        row.hour_us,
        row.node,
        row.model,
        row.device,
        row.bucket,
        row.reason,
        *whose,
        row.price_id,
        row.is_estimated,
        row.quantity,
        row.amount_micro,
    )


def _arrays(cells: Sequence[tuple[object, ...]]) -> dict[str, Any]:
    # The last column is of rows that are made in the database.
    columns = zip(*cells, strict=True)
    found: dict[str, Any] = {}
    for (name, type_), column in zip(COLUMNS.items(), columns, strict=False):
        if type_ == "VARCHAR":
            found[name] = np.array(column, dtype=object)
        elif name == "amount_micro":
            # DuckDB reads a masked value as NULL. Floats, with NaN for it, could not hold every amount.
            known = np.array([0 if one is None else one for one in column], dtype=np.int64)
            found[name] = np.ma.array(known, mask=[one is None for one in column])
        else:
            found[name] = np.array(column)
    return found


def explained_by_database(path: Path, error: duckdb.IOException) -> FileWriteError:
    """What DuckDB says in words, as what other files say that cannot be written."""
    for number in sorted(NO_ROOM):
        if os.strerror(number) in str(error):
            return explained(path, OSError(number, os.strerror(number)))
    return FileWriteError(f"{path} cannot be written: {error}")


@functools.cache
def _database() -> duckdb.DuckDBPyConnection:
    """One for all questions of a process: to begin one takes longer than a small answer."""
    return duckdb.connect(":memory:")


def heading_of(path: Path) -> ChargesHeading | None:
    """What a file in Parquet has charges of; None where it has none. Raises InputError."""
    try:
        with _database().cursor() as database:
            named = database.execute(
                "SELECT value FROM parquet_kv_metadata(?) WHERE key = ?::BLOB", [str(path), HEADING_KEY]
            ).fetchone()
    except duckdb.Error as error:
        raise InputError("cannot be read", where=str(path), expected="a file in Parquet") from error
    if named is None:
        return None
    try:
        heading = _HEADING.decode(bytes(named[0]))
    except msgspec.DecodeError as error:
        raise InputError("no heading of charges", where=str(path), expected=EXPECTED) from error
    if heading.charges != FORMAT:
        raise InputError(
            "unknown format", where=str(path), field="charges", value=heading.charges, expected=FORMAT
        )
    return heading


class ChargeRow(msgspec.Struct, frozen=True):
    """A row of a file of charges, as COLUMNS has it."""

    hour_us: int
    corrects_us: int | None
    node: str
    price: str
    device: str
    bucket: str
    reason: str
    pod_uid: str | None
    namespace: str | None
    pod: str | None
    queue: str | None
    owner: str | None
    gang: str | None
    labels: str | None
    estimated: bool
    quantity: int
    amount_micro: int | None


_ROW = (
    "epoch_us(hour), epoch_us(corrects), node, price, device, bucket, reason, pod_uid, namespace, pod, queue,"
    " owner, gang, labels, estimated, quantity, amount_micro"
)
"""The fields of ChargeRow."""


class Charges:
    """Files of charges of one cluster in one currency, each of another time."""

    def __init__(self, paths: Sequence[Path]) -> None:
        """Raises InputError for files that cannot be put together."""
        self._paths = [str(path) for path in paths]
        found = [(str(path), _heading(path)) for path in paths]
        found.sort(key=lambda one: one[1].from_us)
        for (before, first), (name, second) in itertools.pairwise(found):
            if (first.cluster, first.currency) != (second.cluster, second.currency):
                expected = f"charges of the cluster and in the currency of {before}"
                raise InputError("charges of another cluster or currency", where=name, expected=expected)
            if second.from_us < first.until_us:
                expected = f"charges of a time after {before}, so that nothing counts twice"
                raise InputError("charges of the same time", where=name, expected=expected)
        self.cluster = found[0][1].cluster
        self.currency = found[0][1].currency
        self.span = Span(found[0][1].from_us, found[-1][1].until_us)

    def cost(self, span: Span, by: Sequence[str]) -> Cost:
        """The cost of a time of whole hours, as ``costs.cost_of`` has it. Raises InputError."""
        begin_us, end_us = self._hours(span)
        groups, waste, total = put_together(self._parts(by, begin_us, end_us))
        unseen, unreported_micro = self._unseen(begin_us, end_us)
        nodes_micro = total.amount_micro or 0
        return Cost(
            span,
            self.currency,
            tuple(by),
            groups,
            waste,
            total,
            nodes_micro,
            unseen,
            unreported_micro,
        )

    def rows(self, span: Span) -> Iterator[ChargeRow]:
        """Every row of a time of whole hours, hour by hour and node by node. Raises InputError."""
        # Fixed, so that equal charges are equal rows of FOCUS too; GPUs stand before hosts.
        order = "hour, corrects, node, price, device = '', device, bucket, reason, pod_uid, estimated"
        text = f"SELECT {_ROW} FROM read_parquet(?) WHERE {_WITHIN} ORDER BY {order}"  # noqa: S608
        with _database().cursor() as database:
            database.execute("SET enable_progress_bar = false")
            answer = database.execute(text, [self._paths, *self._hours(span)])
            while batch := answer.fetchmany(ROWS_PER_BATCH):
                for row in batch:
                    yield ChargeRow(*row)

    def _hours(self, span: Span) -> tuple[int, int]:
        begin_us, end_us = span.from_us, span.until_us or self.span.until_us or 0
        for at_us in (begin_us, end_us):
            if at_us % HOUR_US and at_us not in (self.span.from_us, self.span.until_us):
                expected = "whole hours, as charges are of hours"
                value = dt.datetime.fromtimestamp(at_us / US_PER_S, dt.UTC).isoformat()
                raise InputError(
                    "a time within an hour", field="--from or --until", value=value, expected=expected
                )
        # A part of an hour at the begin stands at the begin of its hour.
        return begin_us // HOUR_US * HOUR_US, end_us

    def _parts(self, by: Sequence[str], begin_us: int, end_us: int) -> Iterator[tuple[Key, str, str, Part]]:
        """Sums by what is asked for and by all that figures differ by, in one reading of the rows."""
        keys, labels = _expressions(by)
        # No more columns than these: each takes its part of the time of an answer.
        own = ("bucket", "reason")
        places = ", ".join(str(number + 1) for number in range(len(keys) + len(own)))
        text = (
            # Names are of columns of ours; what people write stands beside the text.
            f"SELECT {', '.join((*keys, *own))}, sum(quantity), sum(amount_micro),"  # noqa: S608
            " coalesce(sum(quantity) FILTER (amount_micro IS NULL), 0) FROM read_parquet(?)"
            f" WHERE {_WITHIN} GROUP BY {places}"
        )
        with _database().cursor() as database:
            database.execute("SET enable_progress_bar = false")
            given = [*labels, self._paths, begin_us, end_us]
            for row in database.execute(text, given).fetchall():
                bucket, reason, quantity, amount, unpriced = row[len(keys) :]
                amount_micro = None if amount is None else int(amount)
                part = Part(int(quantity), int(unpriced), amount_micro)
                yield tuple(row[: len(keys)]), bucket, reason, part

    def _unseen(self, begin_us: int, end_us: int) -> tuple[int, int]:
        """The quantity that no pod is known to hold, and the amount of nodes without a report."""
        text = (
            "SELECT coalesce(sum(quantity), 0), coalesce(sum(amount_micro) FILTER (device = ?), 0)"  # noqa: S608
            f" FROM read_parquet(?) WHERE {_WITHIN} AND reason = ? AND namespace IS NULL"
        )
        with _database().cursor() as database:
            given = [NO_DEVICE, self._paths, begin_us, end_us, UNSEEN]
            ((quantity, amount),) = database.execute(text, given).fetchall()
            return int(quantity), int(amount)


def _heading(path: Path) -> ChargesHeading:
    # A closed month has a checksum beside it.
    if checksum_path(path).exists():
        check(path, read_regular(path, LIMIT_BYTES, field="LOG"))
    heading = heading_of(path)
    if heading is None:
        raise InputError("has no charges", where=str(path), expected=EXPECTED)
    return heading


def _expressions(by: Sequence[str]) -> tuple[list[str], list[str]]:
    """What each grouping is in the file, and the labels that stand in these texts by place."""
    keys, labels = [], []
    for name in by:
        if name.startswith(LABEL) or name == TEAM:
            # A map, since a key with a dollar or a stroke in front would be a path in JSON.
            keys.append(_of_pod("""coalesce(json_transform(labels, '"MAP(VARCHAR, VARCHAR)"')[?], '')"""))
            labels.append(name.removeprefix(LABEL))
        elif name in _OF_PODS:
            keys.append(_of_pod(_KEYS.get(name, name)))
        else:
            keys.append(_KEYS.get(name, name))
    return keys, labels


def _of_pod(expression: str) -> str:
    """What a pod says, the bucket for what is for no node, and null for what no pod holds."""
    others = ", ".join(map(quoted, OTHERS))
    return f"CASE WHEN namespace IS NOT NULL THEN {expression} WHEN bucket IN ({others}) THEN bucket END"


def quoted(text: str) -> str:
    """A text of SQL."""
    doubled = text.replace("'", "''")
    return f"'{doubled}'"


_WITHIN = "hour >= make_timestamp(?) AND hour < make_timestamp(?)"
"""The rows of a time."""

_OF_PODS = ("namespace", "pod", "queue", "owner", "gang", "job")
"""Groupings by what a pod says."""

_KEYS = {
    "day": "strftime(hour, '%Y-%m-%d')",
    "job": "CASE WHEN gang <> '' THEN gang ELSE owner END",
    "state": f"CASE WHEN amount_micro IS NULL THEN '' WHEN price IN ('{BILLED}', '{CORRECTION}') THEN price"
    f" ELSE '{PROVISIONAL}' END",
    "evidence": f"CASE WHEN estimated THEN '{ESTIMATED}' ELSE '{SEEN}' END",
}
"""Groupings that are no columns."""
