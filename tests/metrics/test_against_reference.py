"""Answers are those of the reference adapter (``record_reference`` writes them down), for every path."""

import asyncio
import datetime as dt
import json
from http import HTTPStatus
from typing import Any

import pytest

from gpufleet.daemon.http_server import Accepted, Request
from gpufleet.metrics.callers.request_header import NO_FRONT_PROXY
from gpufleet.metrics.metrics_api import MetricsApi
from gpufleet.metrics.reading import ObjectKey, Reading
from gpufleet.metrics.served_values import FoundValues
from gpufleet.model.quantity import NANO_PER_UNIT, parse_quantity
from tests.metrics import reference_questions as asked
from tests.metrics.record_reference import ANSWERS, without_times
from tests.metrics.values_at_hand import NOW_S, Everything, Objects, Values, metric, served

RECORDED = json.loads(ANSWERS.read_text(encoding="utf-8"))
BAD_SERIES = "a selector of series that is none is the caller's mistake, and no failure of the server"
NO_METRIC = "a metric that nobody has is refused with its name: an empty list would hide a spelling mistake"
DISCOVERY = "the adapter lists no metrics, and forgets its newer version"
DIFFERENCES = {
    "/apis": DISCOVERY,
    "/apis/custom.metrics.k8s.io": DISCOVERY,
    "/apis/other.example.com": "the adapter answers with a list of its own paths",
    "/apis/custom.metrics.k8s.io/v1beta2": DISCOVERY,
    "/apis/custom.metrics.k8s.io/v1beta1": DISCOVERY,
    "/apis/external.metrics.k8s.io/v1beta1": DISCOVERY,
    "/apis/external.metrics.k8s.io/v1beta1/namespaces/default/nobody-has-it": NO_METRIC,
    **{
        f"/apis/custom.metrics.k8s.io/{version}/namespaces/default/{path}": why
        for version in ("v1beta2", "v1beta1")
        for path, why in (
            ("pods/web-0/by_model?metricLabelSelector=%3D", BAD_SERIES),
            ("bogus/one/queue_length", "a resource without metrics is not found, which is no failure either"),
        )
    },
    **{
        f"/apis/custom.metrics.k8s.io/{version}/fleetqueues.gpufleet.io/team-a/queue_length": (
            "the adapter keeps values by the namespace of the path, and there is none"
        )
        for version in ("v1beta2", "v1beta1")
    },
}
"""Where gpufleet answers otherwise on purpose, and why."""


def metrics_api() -> MetricsApi:
    """The server with the objects and values that the adapter had."""
    objects = {ObjectKey("pods", "default", name): labels for name, labels in asked.PODS.items()}
    objects[ObjectKey("nodes", "", asked.NODE)] = {}
    objects[ObjectKey("fleetqueues.gpufleet.io", "", asked.QUEUE)] = {}
    values: dict[tuple[str, ObjectKey], FoundValues] = {}
    for path, (text, labels) in asked.VALUES.items():
        *_, resource, name, named = path.split("/")
        namespace = "default" if resource == "pods" else ""
        amount = parse_quantity(text).nano / NANO_PER_UNIT
        series = dict([labels.split("=")]) if labels else {}
        values[named, ObjectKey(resource, namespace, name)] = FoundValues((Reading(amount, NOW_S, series),))
    external: dict[str, FoundValues] = {}
    for named, labels_, text in asked.EXTERNAL_VALUES:
        before = external.get(named, FoundValues()).readings
        external[named] = FoundValues((*before, Reading(float(text), NOW_S, labels_)))
    metrics = [metric("queue_length"), metric("by_model"), *(metric(one, external=True) for one in external)]
    everything = served(Objects(objects), Values(values, external), *metrics)
    now = dt.datetime.fromtimestamp(NOW_S, dt.UTC)
    return MetricsApi(everything, Everything(), lambda: NO_FRONT_PROXY, lambda: now)


def ours(target: str) -> tuple[int, Any]:
    request = Request("GET", target, (("authorization", "Bearer good"),), Accepted(), keep_alive=True)
    page = asyncio.run(metrics_api().answer(request))
    return page.status.value, without_times(json.loads(b"".join(page.parts)))


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda one: one["target"])
def test_the_answer_is_that_of_the_reference_adapter(recorded: dict[str, Any]) -> None:
    status, answer = ours(recorded["target"])
    if recorded["target"] in DIFFERENCES:
        assert (status, answer) != (recorded["status"], recorded["answer"]), "the difference is gone"
        assert status < HTTPStatus.INTERNAL_SERVER_ERROR
        return
    assert (status, answer) == (recorded["status"], recorded["answer"])


def test_every_difference_is_about_something_that_was_asked() -> None:
    assert set(DIFFERENCES) <= {one["target"] for one in RECORDED}


def test_all_questions_were_recorded() -> None:
    assert [one["target"] for one in RECORDED] == list(asked.TARGETS)
