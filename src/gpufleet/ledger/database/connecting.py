"""One connection to a database: opened when it is needed, and anew after a failure."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

from gpufleet.ledger.database.address import DatabaseAddress
from gpufleet.ledger.database.database_errors import DatabaseError
from gpufleet.model.model_errors import InputError

Cursor = psycopg.Cursor[tuple[Any, ...]]


class DatabaseConnection:
    """Transactions of one database, one after the other."""

    def __init__(self, address: DatabaseAddress) -> None:
        self._address = address
        self._connection: psycopg.Connection[tuple[Any, ...]] | None = None

    @contextmanager
    def transaction(self) -> Iterator[Cursor]:
        """All or nothing of what the block says to the server.

        Raises DatabaseError, and InputError for a database that has no ledger.
        """
        try:
            connection = self._connected()
            with connection.transaction(), connection.cursor() as cursor:
                yield cursor
        except psycopg.errors.UndefinedTable as error:
            self.close()
            expected = "a database that `gpufleet ledger --database` writes"
            raise InputError("has no ledger", where=self._address.name, expected=expected) from error
        except psycopg.Error as error:
            # A connection that failed may be of no more use, and a new one costs little.
            self.close()
            said = " ".join(str(error).split()) or type(error).__name__
            raise DatabaseError(f"the database {self._address.name} failed: {said}") from error

    def _connected(self) -> psycopg.Connection[tuple[Any, ...]]:
        if self._connection is None or self._connection.closed:
            self._connection = psycopg.connect(**self._address.parameters(), autocommit=True)
        return self._connection

    def close(self) -> None:
        """Close the connection; another transaction opens one again."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
