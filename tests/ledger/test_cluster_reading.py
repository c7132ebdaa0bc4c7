"""A cluster is read by lists alone, and says which rights and kinds are missing."""

import asyncio
import datetime as dt
import json
from random import Random
from typing import Any

import pytest

from gpufleet.cluster.snapshots.decisions import Moment
from gpufleet.kube.client import Client
from gpufleet.kube.transport import Response
from gpufleet.ledger.cluster_reading import ListExpiredError, Seen, observe
from gpufleet.ledger.versions import Listed, NodeVersion, ObjectKind, PodVersion
from gpufleet.model.model_errors import InputError
from tests.kube.scripted_transport import ScriptedTransport

NOON = dt.datetime(2026, 11, 28, 12, tzinfo=dt.UTC)
NOON_US = 1_795_867_200_000_000


def listed(*items: dict[str, Any], version: str = "40", more: str = "") -> Response:
    body = {"metadata": {"resourceVersion": version, "continue": more}, "items": list(items)}
    return Response(200, {}, json.dumps(body).encode())


def refused(code: int, reason: str) -> Response:
    body = {"kind": "Status", "status": "Failure", "reason": reason, "message": reason, "code": code}
    return Response(code, {}, json.dumps(body).encode())


def pod(name: str, phase: str = "Running") -> dict[str, Any]:
    metadata = {"name": name, "namespace": "team", "uid": f"uid-{name}", "resourceVersion": "12"}
    return {"metadata": metadata, "spec": {"containers": [{"name": "c"}]}, "status": {"phase": phase}}


def node(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": "13"}}


SYSTEM = Response(200, {}, b'{"metadata": {"name": "kube-system", "uid": "c-1", "resourceVersion": "2"}}')


def read(*script: Response, system: Response = SYSTEM) -> Seen:
    client = Client(ScriptedTransport(system, *script), Moment(NOON), Random(1))
    return asyncio.run(observe(client))


def test_every_object_is_a_version_and_every_list_says_what_there_was() -> None:
    found = read(
        listed(pod("runs"), more="token"),
        listed(pod("ended", "Succeeded")),
        listed(node("n")),
        listed(),
        listed(),
    )
    versions = [type(one) for one in found.observations if not isinstance(one, Listed)]
    assert versions == [PodVersion, PodVersion, NodeVersion]
    lists = [one for one in found.observations if isinstance(one, Listed)]
    assert [one.kind for one in lists] == list(ObjectKind)
    assert [one.uids for one in lists[:2]] == [frozenset({"uid-runs"}), frozenset({"uid-n"})]
    assert {(one.number, one.at_us) for one in lists} == {(40, NOON_US)}
    assert (found.at_us, found.notes, found.cluster) == (NOON_US, (), "c-1")


def test_lists_are_dated_by_the_clock_of_the_server() -> None:
    """A laptop may be an hour ahead; half past eleven is by the server."""
    date = {"date": "Sat, 28 Nov 2026 11:30:00 GMT"}
    found = read(listed(), listed(), listed(), listed(), system=Response(200, date, SYSTEM.body))
    half_past_us = NOON_US - 30 * 60 * 1_000_000
    assert {one.at_us for one in found.observations if isinstance(one, Listed)} == {half_past_us}
    unreadable = Response(200, {"date": "yesterday"}, SYSTEM.body)
    assert read(listed(), listed(), listed(), listed(), system=unreadable).at_us == NOON_US


def test_a_person_who_may_not_get_a_namespace_is_told_of_all_else() -> None:
    found = read(listed(pod("a")), listed(), listed(), listed(), system=refused(403, "Forbidden"))
    assert (found.cluster, len(found.observations)) == (None, 5)


def test_a_cluster_without_gpufleet_has_pods_and_nodes() -> None:
    found = read(listed(), listed(), refused(404, "NotFound"), refused(404, "NotFound"))
    assert len(found.observations) == 2
    assert found.notes == (
        "the cluster has no nodedevices: gpufleet is not installed there",
        "the cluster has no fleetqueues: gpufleet is not installed there",
    )


def test_a_person_who_may_not_list_queues_is_told_what_is_missing() -> None:
    found = read(listed(), listed(), listed(), refused(403, "Forbidden"))
    assert found.notes == ("you may not list fleetqueues: what they would have told is missing",)


def test_a_person_who_may_not_list_pods_is_told_which_rights_are_needed() -> None:
    with pytest.raises(InputError) as error:
        read(refused(403, "Forbidden"))
    assert "you may not list pods of the whole cluster" in str(error.value)
    assert "gpufleet-explain" in str(error.value)


def test_a_list_that_expires_is_begun_anew_and_not_for_ever() -> None:
    expired = (listed(pod("a"), more="token"), refused(410, "Expired"))
    found = read(*expired, listed(pod("b")), listed(), listed(), listed())
    assert [one.name for one in found.observations if isinstance(one, PodVersion)] == ["b"]
    with pytest.raises(ListExpiredError):
        read(*expired * 5)
