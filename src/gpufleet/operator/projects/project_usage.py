"""What a project has used: GPU-hours that its namespaces held, from measurements in Prometheus.

A point of a query speaks for the step before it. Hours in which no agent was scraped are not known and are
told beside the sums, which are a lower bound then. Without a Prometheus nothing is known, and nothing is told
as 0.
"""

import datetime as dt
import re
from collections.abc import Sequence

import msgspec

from gpufleet.usage.agent_series import HELD
from gpufleet.usage.prometheus.answer import CLUSTER
from gpufleet.usage.prometheus.client import Source
from gpufleet.usage.prometheus.window import Window, window_until

USAGE_SCHEMA = "gpufleet.io/project-usage/v1"
"""A change that breaks readers of the JSON gets another version."""

STEP_S = 300
"""GPU work lasts hours; a month at this step is less than 10,000 points."""

S_PER_HOUR = 3600
AGENTS = f"count by ({CLUSTER}) (gpufleet_agent_info)"
"""Has a point wherever an agent was scraped, also while no pod held a GPU."""

NO_PROMETHEUS = "GPU-hours are not known: no Prometheus was named (--prometheus)"


class NamespaceUsage(msgspec.Struct, frozen=True, rename="camel"):
    """GPU-hours of one namespace."""

    namespace: str
    held_gpu_hours: float


class ProjectUsage(msgspec.Struct, frozen=True, rename="camel"):
    """What a project used from ``begin`` to ``end``. Without measurements all but the names is None.

    ``measured_hours`` of ``hours`` are known.
    """

    schema: str
    project: str
    namespaces: tuple[str, ...]
    begin: str | None = None
    end: str | None = None
    hours: float | None = None
    measured_hours: float | None = None
    usage: tuple[NamespaceUsage, ...] | None = None
    notes: tuple[str, ...] = ()


def unknown_usage(project: str, namespaces: Sequence[str]) -> ProjectUsage:
    """The record where there is no Prometheus to ask."""
    return ProjectUsage(USAGE_SCHEMA, project, tuple(namespaces), notes=(NO_PROMETHEUS,))


def project_usage(
    source: Source, project: str, namespaces: Sequence[str], end_s: int, length_s: int
) -> ProjectUsage:
    """What the namespaces held. Raises WorldError where the server fails."""
    window = window_until(end_s, length_s, STEP_S)
    held = _gpu_hours(source, namespaces, window)
    measured = sum(
        len(one.values) for answer in source.over(AGENTS, window, "agents") for one in answer.series
    )
    hours, measured_hours = (count * STEP_S / S_PER_HOUR for count in (window.points, measured))
    missing = f"{hours - measured_hours:.1f} of {hours:.1f} hours were not measured"
    return ProjectUsage(
        USAGE_SCHEMA,
        project,
        tuple(namespaces),
        _time(window.first_s - STEP_S),
        _time(window.last_s),
        hours,
        measured_hours,
        tuple(NamespaceUsage(one, held[one]) for one in namespaces),
        (f"{missing}: the GPU-hours are a lower bound",) if measured_hours < hours else (),
    )


def _time(at_s: int) -> str:
    return dt.datetime.fromtimestamp(at_s, dt.UTC).isoformat().replace("+00:00", "Z")


def _gpu_hours(source: Source, namespaces: Sequence[str], window: Window) -> dict[str, float]:
    found = dict.fromkeys(namespaces, 0.0)
    if not namespaces:
        return found
    # Escaped twice: for the regular expression, and for the text of PromQL that it stands in.
    names = "|".join(re.escape(one).replace("\\", "\\\\") for one in namespaces)
    # A scrape that does not honour labels calls the namespace of the agent so, and the pod's exported.
    series = (
        f'{HELD}{{exported_namespace=~"{names}"}} or {HELD}{{exported_namespace="", namespace=~"{names}"}}'
    )
    query = f"sum by (namespace, exported_namespace, {CLUSTER}) ({series})"
    for answer in source.over(query, window, HELD):
        for one in answer.series:
            namespace = one.labels.get("exported_namespace") or one.labels.get("namespace", "")
            if namespace in found:
                found[namespace] += sum(one.values) * STEP_S / S_PER_HOUR
    return found
