"""An amount is limited by what waits for a place, and an Event says so."""

import asyncio
import random
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from gpufleet.kube.client import Client
from gpufleet.kube.transport import Request, Response, Transport
from gpufleet.metrics.cluster_objects import ClusterObjects
from gpufleet.metrics.fleet_limit import FleetLimit
from gpufleet.metrics.served_values import ExternalValue, NoValueError
from tests.metrics.cluster_at_hand import StoppedClock, objects, pod
from tests.metrics.values_at_hand import NOW_S

QUEUE = "queue_length"
LABELS = {"app": "llama"}


class Server:
    """Answers with these documents by path, and keeps what is written."""

    def __init__(self, documents: Mapping[str, Any]) -> None:
        self.documents = documents
        self.written: list[dict[str, Any]] = []

    async def call(self, request: Request, *, timeout_s: float) -> Response:
        """The document, or 404."""
        assert timeout_s > 0
        if request.method == "POST":
            self.written.append(msgspec.json.decode(request.body or b""))
            return Response(201, {}, b"{}")
        found = self.documents.get(request.target)
        body = msgspec.json.encode(found or {"kind": "Status", "code": 404, "reason": "NotFound"})
        return Response(404 if found is None else 200, {}, body)


def autoscaler(average: str | None = "5", kind: str = "Deployment") -> dict[str, Any]:
    target = (
        {"type": "Value", "value": "5"}
        if average is None
        else {"type": "AverageValue", "averageValue": average}
    )
    return {
        "metadata": {"name": "llama", "namespace": "default", "uid": "u"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": kind, "name": "llama"},
            "metrics": [{"type": "External", "external": {"metric": {"name": QUEUE}, "target": target}}],
        },
    }


def waits(name: str) -> dict[str, Any]:
    found = pod(name, node="", ready=False, labels=LABELS)
    found["status"]["phase"] = "Pending"
    told = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "no node has room",
    }
    found["status"]["conditions"] = [told]
    return found


def placed(name: str) -> dict[str, Any]:
    return pod(name, labels=LABELS)


def limited(
    amounts: tuple[float, ...], pods: list[dict[str, Any]], its: dict[str, Any], times: int = 1
) -> tuple[list[float], list[dict[str, Any]]]:
    """The amounts that are served, and the Events that were written, after so many questions."""
    base = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers/llama"
    scale = "/apis/apps/v1/namespaces/default/deployments/llama/scale"
    server = Server({base: its, scale: {"status": {"selector": "app=llama"}}})
    transport: Transport = server  # type: ignore[assignment]
    known: ClusterObjects = objects(pods)

    async def story() -> list[float]:
        limit = FleetLimit(Client(transport, StoppedClock(), random.Random(1)), known)
        values = [ExternalValue({"pool": str(at)}, amount, NOW_S) for at, amount in enumerate(amounts)]
        for _ in range(times):
            found = await limit.limited("default", "llama", QUEUE, values)
        return [one.amount for one in found]

    return asyncio.run(story()), server.written


def test_while_pods_wait_one_more_than_have_a_place_is_asked_for() -> None:
    pods = [placed("a"), placed("b"), waits("c"), waits("d"), waits("e"), pod("other", labels={"app": "x"})]
    amounts, events = limited((20.0, 3.0), pods, autoscaler())
    assert amounts == [15.0]
    (event,) = events
    assert (event["reason"], event["regarding"]["uid"], event["metadata"]["namespace"]) == (
        "LimitedByFleet",
        "u",
        "default",
    )
    assert event["note"] == (
        "4.6 replicas would be asked for; 2 have a place and 3 pods wait, "
        "so 3 are asked for until there is room: "
        "no node has room"
    )


@pytest.mark.parametrize(
    "pods", [[], [placed("a")], [placed("a"), pod("new", node="", labels=LABELS)], [placed("a"), waits("b")]]
)
def test_where_nothing_is_known_against_more_the_amount_is_whole(pods: list[dict[str, Any]]) -> None:
    amount = 8.0 if len(pods) == 2 else 50.0
    assert limited((amount,), pods, autoscaler()) == ([amount], [])


def test_the_same_is_said_once() -> None:
    assert len(limited((50.0,), [waits("a")], autoscaler(), times=5)[1]) == 1


@pytest.mark.parametrize(
    ("its", "said"),
    [
        (autoscaler(average=None), "an external metric queue_length with a target of type AverageValue"),
        (autoscaler(average="0"), "no target that a limit follows from"),
        (autoscaler(average="much"), "averageValue: not a quantity"),
        (autoscaler(kind="RayCluster"), "no limit is known of such a workload, found 'RayCluster'"),
        (None, "404"),
    ],
)
def test_a_limit_that_cannot_be_worked_out_is_refused(its: dict[str, Any], said: str) -> None:
    with pytest.raises(NoValueError, match=said):
        limited((50.0,), [waits("a")], its)
