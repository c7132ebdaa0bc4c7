"""Answers as documents of the API: lists of values, discovery, and the Status of a refusal.

Shapes and words are those of ``sigs.k8s.io/custom-metrics-apiserver`` 1.37, whose answers the tests compare
with. The older version of a list differs in its names: ``metricName`` beside ``metric``.
"""

import datetime as dt
from collections.abc import Iterable, Mapping
from http import HTTPStatus

import msgspec

from gpufleet.kube.codec.selector_text import selector_document
from gpufleet.metrics.reading import MetricValue, ObjectKind
from gpufleet.metrics.wire.questions import CUSTOM, CUSTOM_VERSIONS, EXTERNAL, EXTERNAL_VERSION
from gpufleet.model.labels import LabelSelector
from gpufleet.model.quantity import NANO_PER_UNIT, Quantity

Json = dict[str, object]
GET = ["get"]
NO_SUCH_RESOURCE = "the server could not find the requested resource"
OPENAPI_V2: Json = {
    "swagger": "2.0",
    "info": {"title": "gpufleet metrics", "version": "v1beta2"},
    "paths": {},
}
OPENAPI_V3: Json = {"paths": {}}
"""Empty on purpose: the API server asks for them each minute and logs an error where there are none."""

REASONS = {
    HTTPStatus.BAD_REQUEST: "BadRequest",
    HTTPStatus.UNAUTHORIZED: "Unauthorized",
    HTTPStatus.FORBIDDEN: "Forbidden",
    HTTPStatus.NOT_FOUND: "NotFound",
    HTTPStatus.INTERNAL_SERVER_ERROR: "InternalError",
    HTTPStatus.SERVICE_UNAVAILABLE: "ServiceUnavailable",
}


class ServedMetric(msgspec.Struct, frozen=True):
    """A metric as discovery lists it; ``resource`` is empty for an external one."""

    name: str
    resource: str = ""
    namespaced: bool = True


def value_list(version: str, values: Iterable[MetricValue], metric: str, series: LabelSelector) -> Json:
    """The list of a metric of objects."""
    selector = selector_document(series)
    named: Json = {"metric": {"name": metric, "selector": selector}}
    if version == "v1beta1":
        named = {"metricName": metric, "selector": selector}
    items = [
        {
            "describedObject": _reference(one.kind, one.namespace, one.name),
            **named,
            "timestamp": time_text(one.at_s),
            "value": amount_text(one.amount),
        }
        for one in values
    ]
    return {
        "kind": "MetricValueList",
        "apiVersion": f"{CUSTOM}/{version}",
        "metadata": {},
        "items": items,
    }


def external_list(values: Iterable[tuple[str, Mapping[str, str], float, float]]) -> Json:
    """The list of an external metric: name, labels, time and amount of each value."""
    items = [
        {
            "metricName": metric,
            "metricLabels": dict(labels),
            "timestamp": time_text(at_s),
            "value": amount_text(amount),
        }
        for metric, labels, at_s, amount in values
    ]
    return {
        "kind": "ExternalMetricValueList",
        "apiVersion": f"{EXTERNAL}/{EXTERNAL_VERSION}",
        "metadata": {},
        "items": items,
    }


def refusal(status: HTTPStatus, message: str, *, details: bool = False) -> Json:
    """The Status object that says no."""
    found: Json = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    found |= {"message": message, "reason": REASONS[status], "code": status.value}
    return found | {"details": {}} if details else found


def api_groups() -> Json:
    """What is at /apis."""
    groups = [api_group(CUSTOM), api_group(EXTERNAL)]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def api_group(group: str) -> Json:
    """A group with its versions, the preferred one first."""
    versions = CUSTOM_VERSIONS if group == CUSTOM else (EXTERNAL_VERSION,)
    listed = [{"groupVersion": f"{group}/{version}", "version": version} for version in versions]
    return {
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": group,
        "versions": listed,
        "preferredVersion": listed[0],
    }


def resource_list(group: str, version: str, metrics: Iterable[ServedMetric]) -> Json:
    """The metrics of a group's version."""
    kind = "MetricValueList" if group == CUSTOM else "ExternalMetricValueList"
    resources = [
        {
            "name": f"{one.resource}/{one.name}" if one.resource else one.name,
            "singularName": "",
            "namespaced": one.namespaced,
            "kind": kind,
            "verbs": GET,
        }
        for one in metrics
    ]
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{group}/{version}",
        "resources": resources,
    }


def amount_text(amount: float) -> str:
    """An amount as a quantity, to a thousandth: autoscalers calculate in thousandths."""
    milli = round(amount * 1000)
    return str(Quantity(milli * (NANO_PER_UNIT // 1000)))


def time_text(at_s: float) -> str:
    """A time as the API writes it, in whole seconds, rounded down: a value is never made younger."""
    return dt.datetime.fromtimestamp(int(at_s), dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _reference(kind: ObjectKind, namespace: str, name: str) -> Json:
    found: Json = {"kind": kind.name, "name": name, "apiVersion": f"{kind.group}/{kind.version}"}
    return found | {"namespace": namespace} if namespace else found
