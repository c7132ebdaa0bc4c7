"""The values that a server has at one moment, for what is shown or served as being so now."""

from collections.abc import Iterator

from gpufleet.model.model_errors import WorldError, printable
from gpufleet.usage.metrics_page import SeriesValue
from gpufleet.usage.prometheus.answer import PrometheusAnswer
from gpufleet.usage.prometheus.client import Source
from gpufleet.usage.prometheus.window import Window

REMARK = "PromQL info:"
"""How versions before 2.52 begin what they say of a query, among their warnings."""


def values_at(source: Source, promql: str, at_s: int, name: str) -> Iterator[SeriesValue]:
    """The value of each series at this time (seconds since 1970), under this name.

    Raises WorldError, also for an answer with a warning.
    """
    for answer in source.over(promql, Window(at_s, at_s, 1), name):
        _check_whole(answer, source.url)
        for one in answer.series:
            if one.values:
                yield SeriesValue(name, one.labels, one.values[-1])


def _check_whole(answer: PrometheusAnswer, url: str) -> None:
    """Raises WorldError for a warning: servers before several stores answer with what they reached, and a sum
    without the rest would be taken for whole.
    """
    warnings = [one for one in answer.warnings if not one.startswith(REMARK)]
    if warnings:
        said = printable(warnings[0], 200)
        raise WorldError(f"{url} answers with a warning, so something may be missing: {said}")
