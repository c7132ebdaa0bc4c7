"""The rows of one view with the version at which each changed last, so that a stream is only a number.

A stream remembers the version up to which it has told everything, and asks for what came since. So however
slowly a person's browser reads, nothing is kept for it: it skips to the newest.
"""

from typing import NamedTuple

GONE_MAX = 4096
"""So many keys of rows that are gone are remembered; a stream that is further behind begins anew."""


class Since(NamedTuple):
    """Rows that are new or changed, by key, and the keys of rows that are gone."""

    changed: dict[str, bytes]
    removed: tuple[str, ...]


class VersionedRows:
    """Rows as JSON by key. Versions only grow."""

    def __init__(self) -> None:
        # In the order of their versions, the newest last.
        self._rows: dict[str, tuple[int, bytes]] = {}
        self._gone: dict[str, int] = {}
        self._forgotten = 0

    def __len__(self) -> int:
        return len(self._rows)

    def keys(self) -> set[str]:
        """The keys of the rows that are there."""
        return set(self._rows)

    def get(self, key: str) -> bytes | None:
        """A row; None where there is none."""
        found = self._rows.get(key)
        return None if found is None else found[1]

    def put(self, key: str, row: bytes, version: int) -> bool:
        """Set a row; False if it is there already, just so."""
        before = self._rows.get(key)
        if before is not None and before[1] == row:
            return False
        # Put at the end, since ``since`` reads from the newest row back.
        self._rows.pop(key, None)
        self._rows[key] = (version, row)
        self._gone.pop(key, None)
        return True

    def remove(self, key: str, version: int) -> bool:
        """Take a row away; False if it was not there."""
        if self._rows.pop(key, None) is None:
            return False
        self._gone[key] = version
        while len(self._gone) > GONE_MAX:
            self._forgotten = self._gone.pop(next(iter(self._gone)))
        return True

    def whole(self) -> list[bytes]:
        """All rows of the view."""
        return [row for _, row in self._rows.values()]

    def since(self, version: int) -> Since | None:
        """What came after a version; None where that is not known any more."""
        if version < self._forgotten:
            return None
        changed = {}
        for key, (at, row) in reversed(self._rows.items()):
            if at <= version:
                break
            changed[key] = row
        return Since(changed, tuple(key for key, at in self._gone.items() if at > version))
