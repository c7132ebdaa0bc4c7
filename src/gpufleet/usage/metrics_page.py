"""A page of metrics as values of series, of which only those are parsed that are wanted. Pure; the text is
whatever a server sent.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families

from gpufleet.model.model_errors import WorldError, printable

_Key = tuple[str, frozenset[tuple[str, str]]]


class SeriesValue(NamedTuple):
    """One value of one series, and the time that its page gives it (seconds since 1970); most give none."""

    name: str
    labels: Mapping[str, str]
    value: float
    at_s: float | None = None


def values_on(page: str, names: Collection[str]) -> Iterator[SeriesValue]:
    """The values of series with these names, also those that are no number: a sum without them would be too
    small. Raises WorldError for what is no page of metrics.
    """
    # An agent's page has forty series for each card, of which a few are wanted, and parsing is slow.
    wanted = "\n".join(line for line in page.splitlines() if _name_of(line) in names)
    seen = set[_Key]()
    try:
        for family in text_string_to_metric_families(f"{wanted}\n"):
            for one in family.samples:
                _note(one.name, one.labels, seen)
                at_s = None if one.timestamp is None else float(one.timestamp)
                yield SeriesValue(one.name, one.labels, one.value, at_s)
    except (ValueError, IndexError, KeyError, TypeError) as error:
        raise WorldError(f"not a page of metrics: {printable(str(error), 200)}") from error


def _note(name: str, labels: Mapping[str, str], seen: set[_Key]) -> None:
    """Raises ValueError for a series that was seen before: which of its values is true is not known, and a
    sum would count both.
    """
    key = name, frozenset(labels.items())
    if key in seen:
        raise ValueError(f"a series of {name} is there twice")
    seen.add(key)


def _name_of(line: str) -> str:
    """The name of the series; a series without labels has a space behind it."""
    return line.partition("{")[0].partition(" ")[0]
