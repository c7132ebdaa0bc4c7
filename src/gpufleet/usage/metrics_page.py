"""A page of metrics as values of series, of which only those are parsed that are wanted. Pure; the text is
whatever a server sent.
"""

import math
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families

from gpufleet.model.model_errors import WorldError, printable


class SeriesValue(NamedTuple):
    """One value of one series."""

    name: str
    labels: Mapping[str, str]
    value: float


def values_on(page: str, names: Collection[str]) -> Iterator[SeriesValue]:
    """The values of series with these names; one that is no number is left out. Raises WorldError for what is
    no page of metrics.
    """
    # An agent's page has forty series for each card, of which a few are wanted, and parsing is slow.
    wanted = "\n".join(line for line in page.splitlines() if _name_of(line) in names)
    try:
        for family in text_string_to_metric_families(f"{wanted}\n"):
            for one in family.samples:
                if math.isfinite(one.value):
                    yield SeriesValue(one.name, one.labels, one.value)
    except (ValueError, IndexError, KeyError, TypeError) as error:
        raise WorldError(f"not a page of metrics: {printable(str(error), 200)}") from error


def _name_of(line: str) -> str:
    """The name of the series; a series without labels has a space behind it."""
    return line.partition("{")[0].partition(" ")[0]
