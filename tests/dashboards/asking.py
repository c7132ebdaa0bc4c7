"""The questions of a board, asked of a real Prometheus as Grafana would ask them."""

import json
import math
import re
import urllib.parse
import urllib.request
from dataclasses import dataclass

from gpufleet.dashboards.board import Panel, PanelKind, Query, QueryKind

POINTS = 90
"""How many values a line has in the time shown."""
WAIT_S = 30.0
RATE_S = 10
"""Ten scrapes of the story; Grafana takes four of its own, or the width of a point."""
LEGEND = re.compile(r"\{\{\s*(\w+)\s*\}\}")
PRICE = "2"
DAY, SHORT_DAY = "[1d:5m]) / 12", "[1d:5s]) / 720"
"""Hours of a day are counted from a sample in five minutes; of a story of minutes, from one in five "
"seconds."""


@dataclass(frozen=True)
class Series:
    """An answer: labels, and pairs of time and value."""

    labels: dict[str, str]
    points: tuple[tuple[float, float], ...]

    @property
    def last(self) -> float:
        """The newest value."""
        return self.points[-1][1]


@dataclass(frozen=True)
class Answer:
    """The series that a query of a panel gives."""

    query: Query
    series: tuple[Series, ...]


@dataclass(frozen=True)
class Shown:
    """The time that a board shows."""

    begin_s: float
    end_s: float

    @property
    def step_s(self) -> int:
        """The distance of two values of a line."""
        return max(1, math.ceil((self.end_s - self.begin_s) / POINTS))


def filled(expression: str, shown: Shown) -> str:
    """A query with the values that Grafana would put in; all values are chosen."""
    span_s = math.ceil(shown.end_s - shown.begin_s)
    expression = expression.replace('"$cluster"', '".*"').replace(DAY, SHORT_DAY)
    for name, value in {
        "$__rate_interval": f"{RATE_S}s",
        "$__interval_ms": str(shown.step_s * 1000),
        "$__range": f"{span_s}s",
        "$__interval": f"{shown.step_s}s",
        "$price": PRICE,
    }.items():
        expression = expression.replace(name, value)
    return re.sub(r'"\$\w+"', '".+"', expression)


def asked(address: str, path: str, **parameters: str) -> list[dict[str, object]]:
    """The result of a question to Prometheus."""
    url = f"{address}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
    with urllib.request.urlopen(url, timeout=WAIT_S) as answer:  # noqa: S310  our own server
        found: list[dict[str, object]] = json.load(answer)["data"]["result"]
    return found


def values_of(one: dict[str, object]) -> tuple[tuple[float, float], ...]:
    """The points of a series."""
    pairs = one["values"] if "values" in one else [one["value"]]
    assert isinstance(pairs, list)
    return tuple((float(at), float(value)) for at, value in pairs)


def answer(address: str, panel: Panel, query: Query, shown: Shown) -> Answer:
    """What Prometheus says to a query of a panel."""
    expression = filled(query.expression, shown)
    if panel.at is QueryKind.NOW or query.step:
        found = asked(address, "query", query=expression, time=str(shown.end_s))
    else:
        found = asked(
            address,
            "query_range",
            query=expression,
            start=str(shown.begin_s),
            end=str(shown.end_s),
            step=str(shown.step_s),
        )
    series = (Series(dict(one["metric"]), values_of(one)) for one in found)  # type: ignore[call-overload]
    return Answer(query, tuple(series))


def answers(address: str, panel: Panel, shown: Shown) -> tuple[Answer, ...]:
    """What Prometheus says to all queries of a panel."""
    return tuple(answer(address, panel, query, shown) for query in panel.queries)


def named(query: Query, labels: dict[str, str]) -> str:
    """A series as the legend names it."""
    if not query.legend:
        return ", ".join(f"{name}={value}" for name, value in sorted(labels.items()))
    return LEGEND.sub(lambda match: labels.get(match[1], ""), query.legend).strip()


def needs_names(panel: Panel) -> bool:
    """Whether the series of a panel are told apart by their legend."""
    return panel.kind is not PanelKind.TABLE
