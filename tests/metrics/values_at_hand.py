"""Objects and values that a test holds in its hands, in the place of a cluster."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from gpufleet.kube.access_reviews import Attributes, User
from gpufleet.metrics.catalogue import From, Metric, Together
from gpufleet.metrics.reading import KINDS, ObjectKey, ObjectKind, Reading
from gpufleet.metrics.served_values import FoundValues, ServedValues

NOW_S = 1_800_000_000.0
OLD_AFTER_S = 25.0


class Objects:
    """The objects that exist, with their labels."""

    def __init__(self, labels: Mapping[ObjectKey, Mapping[str, str]]) -> None:
        self.known = dict(labels)

    def labels(self, key: ObjectKey) -> Mapping[str, str] | None:
        """Those of an object."""
        return self.known.get(key)

    def all_of(self, kind: ObjectKind, namespace: str) -> Iterable[ObjectKey]:
        """All of a kind."""
        return [
            key for key in self.known if key.resource == kind.resource and key.namespace in {namespace, ""}
        ]


class Values:
    """A source with these values, by metric and object; external ones by metric."""

    def __init__(
        self,
        objects: Mapping[tuple[str, ObjectKey], FoundValues] = {},
        external: Mapping[str, FoundValues] = {},
    ) -> None:
        self.objects = dict(objects)
        self.without = dict(external)

    async def of_objects(
        self, metric: Metric, objects: Sequence[ObjectKey]
    ) -> Mapping[ObjectKey, FoundValues]:
        """Those that are there."""
        return {key: self.objects[metric.name, key] for key in objects if (metric.name, key) in self.objects}

    async def external(self, metric: Metric, namespace: str) -> FoundValues:  # noqa: ARG002  alike everywhere
        """The one that is there."""
        return self.without.get(metric.name, FoundValues())


def metric(name: str, together: Together = Together.SUM, *, external: bool = False) -> Metric:
    return Metric(name, From.ENGINE, together, "a metric of tests", tuple(KINDS), external)


def served(objects: Objects, values: Values, *metrics: Metric, now_s: float = NOW_S) -> ServedValues:
    """Everything that answers, from these objects and values."""
    by_name = {one.name: one for one in metrics}
    return ServedValues(by_name, objects, dict.fromkeys(From, values), lambda: now_s, old_after_s=OLD_AFTER_S)


def measured(amount: float, age_s: float = 0.0, **labels: str) -> FoundValues:
    return FoundValues((Reading(amount, NOW_S - age_s, labels),))


class Everything(msgspec.Struct):
    """Rights by which a token named ``good`` may do everything, or nothing but what ``refused`` leaves."""

    refused: set[str] = set()
    asked: list[Attributes] = []

    async def caller_of(self, token: str) -> User | None:
        """Somebody, by the good token."""
        return User("somebody") if token == "good" else None  # noqa: S105  no secret

    async def may(self, caller: User, attributes: Attributes) -> bool:
        """Whether the caller is not refused."""
        self.asked.append(attributes)
        return caller.name not in self.refused
