"""A property that is worked out when it is first read, and kept.

``functools.cached_property`` takes a lock at every first reading up to Python 3.11. Advice reads a dozen
properties of each of tens of thousands of objects, each once and from one thread, so that the locks cost more
than the work.
"""

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

Value = TypeVar("Value")


class worked_out_once(Generic[Value]):  # noqa: N801 - it is written as a decorator
    """The property. Its class needs a ``__dict__``; from two threads it may be worked out twice."""

    def __init__(self, function: Callable[[Any], Value]) -> None:
        self._function = function
        self._name = ""
        self.__doc__ = function.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        """Remember under which name the value is kept."""
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type | None = None) -> Value: ...

    def __get__(self, instance: object | None, owner: type | None = None) -> Self | Value:
        """The value. Python asks here once for each object: then the value stands in its ``__dict__``."""
        if instance is None:
            return self
        value = instance.__dict__[self._name] = self._function(instance)
        return value
