"""The values that a server has at one moment, for what is shown or served as being so now."""

from collections.abc import Iterator

from gpufleet.usage.metrics_page import SeriesValue
from gpufleet.usage.prometheus.client import Source
from gpufleet.usage.prometheus.window import Window


def values_at(source: Source, promql: str, at_s: int, name: str) -> Iterator[SeriesValue]:
    """The value of each series at this time (seconds since 1970), under this name; raises WorldError."""
    for answer in source.over(promql, Window(at_s, at_s, 1), name):
        for one in answer.series:
            if one.values:
                yield SeriesValue(name, one.labels, one.values[-1])
