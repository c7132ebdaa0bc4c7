"""From questions to values: which objects are meant, what their source tells, and what of it is served.

What is old or unknown is left out, never served as a number. For a pod that is left out an autoscaler assumes
what harms least; a sum without one of its parts would be too small, so an external metric is refused instead.
``sources`` read; ``metrics_api`` turns values and refusals into documents.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import msgspec

from gpufleet.kube import keys
from gpufleet.kube.codec.selector_text import selector_text
from gpufleet.metrics.catalogue import From, Metric
from gpufleet.metrics.reading import (
    KINDS,
    MetricValue,
    ObjectKey,
    ObjectKind,
    Reading,
    oldest,
    why_not_served,
)
from gpufleet.metrics.serving_record import ServingRecord
from gpufleet.metrics.wire.questions import ALL_OBJECTS, AboutNothing, AboutObjects
from gpufleet.model.labels import LabelSelector, Operator
from gpufleet.model.model_errors import WorldError


class NoValueError(WorldError):
    """No value can be served; the sentence says why."""


class ExternalValue(msgspec.Struct, frozen=True):
    """One series of an external metric."""

    labels: Mapping[str, str]
    amount: float
    at_s: float


class FoundValues(msgspec.Struct, frozen=True):
    """What a source knows of one object, or of an external metric.

    ``problem`` says why it knows nothing, or less than all.
    """

    readings: tuple[Reading, ...] = ()
    problem: str = ""


class ValueSource(Protocol):
    """Reads metrics at the moment they are asked for; what fails is told in ``FoundValues.problem``."""

    async def of_objects(
        self, metric: Metric, objects: Sequence[ObjectKey]
    ) -> Mapping[ObjectKey, FoundValues]:
        """What is known of each object; one that is missing has no such metric."""
        ...

    async def external(self, metric: Metric, namespace: str) -> FoundValues:
        """What is known of a metric without an object, seen from a namespace."""
        ...


class ServingLimits(Protocol):
    """Bounds an amount by what the fleet has room for."""

    async def limited(
        self, namespace: str, name: str, metric: str, values: list[ExternalValue]
    ) -> list[ExternalValue]:
        """The values as far as the workload of this autoscaler has room. Raises NoValueError."""
        ...


class Directory(Protocol):
    """Knows which objects there are, and their labels."""

    def labels(self, key: ObjectKey) -> Mapping[str, str] | None:
        """The labels of an object; None if there is none."""
        ...

    def all_of(self, kind: ObjectKind, namespace: str) -> Iterable[ObjectKey]:
        """The objects of a kind, of a namespace or, with "", of all."""
        ...


class Clock(Protocol):
    """Seconds since 1970."""

    def __call__(self) -> float:
        """The time now."""
        ...


class ServedValues:
    """Answers questions. ``old_after_s``: no value that is older is served."""

    def __init__(
        self,
        metrics: Mapping[str, Metric],
        directory: Directory,
        sources: Mapping[From, ValueSource],
        now: Clock,
        *,
        old_after_s: float,
        limits: ServingLimits | None = None,
        record: ServingRecord | None = None,
    ) -> None:
        self.metrics = metrics
        self._directory = directory
        self._sources = sources
        self._now = now
        self.old_after_s = old_after_s
        self._limits = limits
        self.record = record or ServingRecord(now)

    async def about_objects(self, asked: AboutObjects) -> list[MetricValue]:
        """The values of one object, or of all that are meant. Raises NoValueError."""
        metric, kind = self.metrics.get(asked.metric), KINDS.get(asked.resource)
        whose = asked.resource if asked.name == ALL_OBJECTS else f"{asked.resource} {asked.name}"
        sentence = f"the server could not find the metric {asked.metric} for {whose}"
        if metric is None or kind is None or kind.resource not in metric.resources:
            raise NoValueError(sentence)
        keys = self._meant(asked, kind)
        source = self._sources.get(metric.source)
        found = {} if source is None or not keys else await source.of_objects(metric, keys)
        values, problems = [], []
        for key in keys:
            value, problem = self._value(metric, found.get(key, FoundValues()), asked.series)
            if value is None:
                problems.append(problem)
                continue
            # An object of the cluster's scope that was asked for in a namespace is told as being there.
            values.append(MetricValue(kind, asked.namespace or key.namespace, key.name, *value))
        if values or (asked.name == ALL_OBJECTS and not any(problems)):
            return values
        if asked.series.requirements and asked.name != ALL_OBJECTS:
            sentence += f" with selector {selector_text(asked.series)}"
        raise NoValueError(_with_reason(sentence, problems))

    async def about_nothing(self, asked: AboutNothing) -> list[ExternalValue]:
        """The series of an external metric. Raises NoValueError."""
        sentence = f"the server could not find the metric {asked.metric} for namespace {asked.namespace}"
        metric = self.metrics.get(asked.metric)
        source = None if metric is None or not metric.external else self._sources.get(metric.source)
        if metric is None or source is None:
            raise NoValueError(sentence)
        found = await source.external(metric, asked.namespace)
        limit = next((one for one in asked.series.requirements if one.key == keys.METRIC_LIMIT), None)
        series = LabelSelector(tuple(one for one in asked.series.requirements if one is not limit))
        meant = [one for one in found.readings if series.accepts(one.labels)]
        problems = [found.problem] if found.problem else []
        problems += [problem for one in meant if (problem := self._refused(metric, one))]
        if problems:
            raise NoValueError(_with_reason(sentence, problems))
        values = [ExternalValue(one.labels, one.amount, one.at_s) for one in meant]
        if limit is None:
            return values
        if self._limits is None or limit.operator is not Operator.IN or len(limit.values) != 1:
            raise NoValueError(f"{sentence}: a limit is of one autoscaler, {keys.METRIC_LIMIT}=NAME")
        return await self._limits.limited(asked.namespace, limit.values[0], asked.metric, values)

    def _meant(self, asked: AboutObjects, kind: ObjectKind) -> list[ObjectKey]:
        namespace = asked.namespace if kind.namespaced else ""
        if kind.namespaced and not namespace:
            return []
        if asked.name != ALL_OBJECTS:
            key = ObjectKey(kind.resource, namespace, asked.name)
            return [] if self._directory.labels(key) is None else [key]
        return sorted(
            key
            for key in self._directory.all_of(kind, namespace)
            if asked.objects.accepts(self._directory.labels(key) or {})
        )

    def _value(
        self, metric: Metric, found: FoundValues, series: LabelSelector
    ) -> tuple[tuple[float, float] | None, str]:
        """Amount and time of one object, or why there is none."""
        meant = [one for one in found.readings if series.accepts(one.labels)]
        if not meant:
            return None, found.problem
        problems = [problem for one in meant if (problem := self._refused(metric, one))]
        if problems or found.problem:
            return None, problems[0] if problems else found.problem
        return (metric.together.of(one.amount for one in meant), oldest(meant)), ""

    def _refused(self, metric: Metric, one: Reading) -> str:
        now_s = self._now()
        why = why_not_served(one, now_s, self.old_after_s)
        self.record.note(metric.name, now_s - one.at_s, served=not why)
        return why


def _with_reason(sentence: str, problems: Sequence[str]) -> str:
    """The sentence with the most common reason."""
    told = [problem for problem in problems if problem]
    if not told:
        return sentence
    return f"{sentence}: {max(sorted(set(told)), key=told.count)}"
