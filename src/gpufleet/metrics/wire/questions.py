"""What is asked for by a path: a metric of objects, a metric of none, or a document of discovery.

The paths are those of ``sigs.k8s.io/custom-metrics-apiserver``; whatever is none of them is an unknown path.
``Question.attributes`` is what the caller needs the right for, as the API server would work it out.
"""

from urllib.parse import parse_qs, unquote

import msgspec

from gpufleet.kube.access_reviews import Attributes
from gpufleet.kube.codec.selector_text import EVERYTHING, read_selector
from gpufleet.model.labels import LabelSelector
from gpufleet.model.model_errors import InputError

CUSTOM = "custom.metrics.k8s.io"
EXTERNAL = "external.metrics.k8s.io"
CUSTOM_VERSIONS = ("v1beta2", "v1beta1")
EXTERNAL_VERSION = "v1beta1"
ALL_OBJECTS = "*"
NAMESPACES = "namespaces"


class AboutObjects(msgspec.Struct, frozen=True):
    """A metric of one object, or with ``*`` of those with such labels.

    ``resource`` is plural, with its group.
    """

    version: str
    metric: str
    resource: str
    name: str
    namespace: str = ""
    objects: LabelSelector = EVERYTHING
    series: LabelSelector = EVERYTHING

    @property
    def attributes(self) -> Attributes:
        """What the caller needs the right for."""
        if self.resource == NAMESPACES:
            return Attributes("get", "", CUSTOM, self.version, "metrics", "", self.metric, self.namespace)
        return Attributes(
            "get", "", CUSTOM, self.version, self.resource, self.metric, self.name, self.namespace
        )


class AboutNothing(msgspec.Struct, frozen=True):
    """An external metric, as asked for from a namespace."""

    metric: str
    namespace: str
    series: LabelSelector = EVERYTHING

    @property
    def attributes(self) -> Attributes:
        """What the caller needs the right for: without the name of an object it is a list."""
        return Attributes(
            "list", group=EXTERNAL, version=EXTERNAL_VERSION, resource=self.metric, namespace=self.namespace
        )


class Document(msgspec.Struct, frozen=True):
    """A document of discovery, by its path."""

    path: str

    @property
    def attributes(self) -> Attributes:
        """What the caller needs the right for."""
        return Attributes("get", self.path)


class NoSuchPath(msgspec.Struct, frozen=True):
    """Nothing is served there; ``incomplete``: the path ends before it names a metric."""

    path: str
    incomplete: bool = False

    @property
    def attributes(self) -> Attributes:
        """What the caller needs the right for."""
        return Attributes("get", self.path)


QUERY_FIELDS_MAX = 100
"""Clients of these APIs send two selectors and a few options of lists; each field costs time to read."""

Question = AboutObjects | AboutNothing | Document | NoSuchPath

DOCUMENTS = (
    "/",
    "/apis",
    "/openapi/v2",
    "/openapi/v3",
    f"/apis/{CUSTOM}",
    f"/apis/{EXTERNAL}",
    *(f"/apis/{CUSTOM}/{version}" for version in CUSTOM_VERSIONS),
    f"/apis/{EXTERNAL}/{EXTERNAL_VERSION}",
)


def read_question(target: str) -> Question:
    """What a path with its query asks for. Raises InputError for a query or a selector that is none."""
    # Not read as a URL: "//apis/..." would name a host and no path.
    path_text, _, query_text = target.partition("?")
    path = path_text.rstrip("/") or "/"
    if path in DOCUMENTS:
        return Document(path)
    words = [unquote(word) for word in path.split("/")[1:]]
    # Judged after decoding: %2E%2E would pass for a name before it.
    if len(words) < 4 or words[0] != "apis" or any(word in {"", ".", ".."} for word in words):
        return NoSuchPath(path)
    query = _read_query(query_text)
    group, version, rest = words[1], words[2], words[3:]
    if group == CUSTOM and version in CUSTOM_VERSIONS:
        return _about_objects(path, version, rest, query)
    if group == EXTERNAL and version == EXTERNAL_VERSION:
        if len(rest) == 3 and rest[0] == NAMESPACES:
            return AboutNothing(rest[2], rest[1], _selector(query, "labelSelector"))
    return NoSuchPath(path)


def _read_query(text: str) -> dict[str, list[str]]:
    try:
        return parse_qs(text, keep_blank_values=True, max_num_fields=QUERY_FIELDS_MAX)
    except ValueError as error:
        raise InputError("too many fields", field="query", expected=f"at most {QUERY_FIELDS_MAX}") from error


def _about_objects(path: str, version: str, rest: list[str], query: dict[str, list[str]]) -> Question:
    match rest:
        case ["namespaces", namespace, "metrics", metric]:
            found = AboutObjects(version, metric, NAMESPACES, namespace, namespace)
        case ["namespaces", namespace, resource, name, metric]:
            found = AboutObjects(version, metric, resource, name, namespace)
        case [resource, name, metric] if resource != NAMESPACES:
            found = AboutObjects(version, metric, resource, name)
        case _:
            return NoSuchPath(path, incomplete=len(rest) == 3)
    return msgspec.structs.replace(
        found, objects=_selector(query, "labelSelector"), series=_selector(query, "metricLabelSelector")
    )


def _selector(query: dict[str, list[str]], name: str) -> LabelSelector:
    try:
        return read_selector(query.get(name, [""])[0])
    except InputError as error:
        raise InputError(error.problem, field=name, expected=error.expected) from error
