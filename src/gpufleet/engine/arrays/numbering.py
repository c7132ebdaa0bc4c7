"""Small numbers for values in use, so that a value can index an array.

A number is given back when its value has no user any more, and the lowest free one goes to the
next value: host names of nodes that come and go for years number no more than there are at once.
"""

import heapq
from typing import Generic, TypeVar

Value = TypeVar("Value")


class Numbering(Generic[Value]):
    """Numbers from 0 on, each with a count of its users."""

    def __init__(self) -> None:
        self.number_by_value: dict[Value, int] = {}
        self._values: list[Value] = []
        self._users: list[int] = []
        self._free: list[int] = []

    @property
    def bound(self) -> int:
        """Above every number in use."""
        return len(self._values)

    def hold(self, value: Value) -> int:
        """The value's number, for one more user."""
        number = self.number_by_value.get(value)
        if number is None:
            number = self._new(value)
        self._users[number] += 1
        return number

    def _new(self, value: Value) -> int:
        if self._free:
            number = heapq.heappop(self._free)
            self._values[number] = value
        else:
            number = len(self._values)
            self._values.append(value)
            self._users.append(0)
        self.number_by_value[value] = number
        return number

    def users(self, value: Value) -> int:
        """How many use the value now."""
        number = self.number_by_value.get(value)
        return 0 if number is None else self._users[number]

    def drop(self, number: int) -> None:
        """One user less."""
        self._users[number] -= 1
        if self._users[number] == 0:
            del self.number_by_value[self._values[number]]
            heapq.heappush(self._free, number)
