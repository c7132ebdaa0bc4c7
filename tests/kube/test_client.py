"""What the verbs put on the wire, what is tried again, and what must not be."""

import asyncio
import json
import random
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from gpufleet.kube.answer import AnswerUnreadable
from gpufleet.kube.backoff import ONE_TRY
from gpufleet.kube.client import Client, PatchType
from gpufleet.kube.clock import MachineClock
from gpufleet.kube.kube_errors import TransportError
from gpufleet.kube.listing import Selection
from gpufleet.kube.resources import CONFIG_MAPS, NODES, PODS, PRIORITY_CLASSES, RAY_CLUSTERS
from gpufleet.kube.status import (
    AlreadyExists,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    StatusError,
    TooManyRequests,
    Unavailable,
    retry_after_s,
)
from gpufleet.kube.transport import Response
from gpufleet.kube.unknown_outcome import OutcomeUnknown
from gpufleet.model.model_errors import InternalError
from tests.kube.scripted_transport import (
    BROKEN,
    UNREACHABLE,
    Answer,
    ScriptedTransport,
    answer,
    item,
    page,
    refusal,
)
from tests.kube.virtual_time import run_virtually


def ask(question: Callable[[Client], Awaitable[Any]], *script: Answer) -> tuple[Any, ScriptedTransport]:
    """The answer, or the error, to one question put to a scripted server."""
    transport = ScriptedTransport(*script)

    async def main() -> Any:
        client = Client(transport, MachineClock(), random.Random(1))
        return (await asyncio.gather(question(client), return_exceptions=True))[0]

    return run_virtually(main()), transport


def bind(client: Client) -> Awaitable[None]:
    return client.bind("p", namespace="ns", uid="u1", node="n1", annotations={"gpufleet.io/grant": "{}"})


def test_binding_is_one_write_with_uid_and_grant() -> None:
    _, transport = ask(bind, answer(status=201))
    (request,) = transport.asked
    assert (request.method, request.target) == ("POST", "/api/v1/namespaces/ns/pods/p/binding")
    assert json.loads(request.body) == {
        "metadata": {
            "name": "p",
            "namespace": "ns",
            "uid": "u1",
            "annotations": {"gpufleet.io/grant": "{}"},
        },
        "target": {"kind": "Node", "name": "n1"},
    }


def test_eviction_names_its_version_and_uid() -> None:
    _, transport = ask(lambda client: client.evict("p", namespace="ns", uid="u1", grace_s=0), answer())
    assert json.loads(transport.asked[0].body) == {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "p", "namespace": "ns"},
        "deleteOptions": {"preconditions": {"uid": "u1"}, "gracePeriodSeconds": 0},
    }


def test_eviction_that_a_budget_forbids_is_not_repeated() -> None:
    found, transport = ask(
        lambda client: client.evict("p", namespace="ns"), refusal(429, "TooManyRequests", retry_after="10")
    )
    assert isinstance(found, TooManyRequests)
    assert found.retry_after_s == 10.0
    assert len(transport.asked) == 1


def test_delete_carries_its_preconditions() -> None:
    _, transport = ask(
        lambda client: client.delete(NODES, "n", uid="u", resource_version="7", propagation="Background"),
        answer(),
    )
    assert transport.asked[0].target == "/api/v1/nodes/n"
    assert json.loads(transport.asked[0].body) == {
        "preconditions": {"uid": "u", "resourceVersion": "7"},
        "propagationPolicy": "Background",
    }


def test_server_side_apply_names_its_manager() -> None:
    _, transport = ask(
        lambda client: client.patch(
            CONFIG_MAPS,
            "c",
            b"data: {}",
            namespace="ns",
            patch_type=PatchType.APPLY,
            field_manager="gpufleet",
            force=True,
            dry_run=True,
        ),
        answer(),
    )
    (request,) = transport.asked
    assert request.content_type == "application/apply-patch+yaml"
    assert request.target == "/api/v1/namespaces/ns/configmaps/c?dryRun=All&fieldManager=gpufleet&force=true"


def test_names_are_escaped_and_dots_refused() -> None:
    _, transport = ask(lambda client: client.get(NODES, "a/b?c"), answer())
    assert transport.asked[0].target == "/api/v1/nodes/a%2Fb%3Fc"
    for name in ("", ".", ".."):
        with pytest.raises(InternalError):
            NODES.item(name)
    with pytest.raises(InternalError):
        PODS.item("p")
    with pytest.raises(InternalError):
        NODES.item("n", "ns")


async def _all_items(client: Client) -> int:
    selection = Selection(labels="a=b", fields="spec.nodeName!=")
    pages = client.list_pages(PODS, namespace="ns", selection=selection, page_size=2)
    return sum([len(page.items or ()) async for page in pages])


def test_pages_are_asked_with_selectors_and_token() -> None:
    found, transport = ask(_all_items, page([item("a", 1), item("b", 2)], 9, more="x=="), page([], 9))
    assert found == 2
    path = "/api/v1/namespaces/ns/pods?limit=2&labelSelector=a%3Db&fieldSelector=spec.nodeName%21%3D"
    assert [request.target for request in transport.asked] == [path, f"{path}&continue=x%3D%3D"]


@pytest.mark.parametrize("body", [b"", b"<html>", b"{}", b"[]", b'{"items": 3}', b"\xff"])
def test_answer_that_is_no_list_never_looks_like_an_empty_one(body: bytes) -> None:
    found, _ = ask(_all_items, Response(200, {}, body))
    assert isinstance(found, AnswerUnreadable)


@pytest.mark.parametrize("failure", [BROKEN, UNREACHABLE, refusal(500), refusal(503), refusal(429)])
def test_reads_are_tried_again(failure: Answer) -> None:
    found, transport = ask(lambda client: client.get(NODES, "n"), failure, failure, answer({"ok": 1}))
    assert found == b'{"ok": 1}'
    assert len(transport.asked) == 3


def test_reads_give_up_within_their_budget() -> None:
    found, transport = ask(lambda client: client.get(NODES, "n"), *[refusal(500, "InternalError")] * 50)
    assert isinstance(found, StatusError)
    assert len(transport.asked) == 6
    assert transport.asked_at_s[-1] - transport.asked_at_s[0] <= 30.0


@pytest.mark.parametrize("asked", ["7", "Thu, 01 Jan 2026 00:00:07 GMT"])
def test_retry_after_is_obeyed_and_spread(asked: str) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert retry_after_s(asked, now) == 7.0
    pauses = set()
    for seed in range(5):
        transport = ScriptedTransport(refusal(429, retry_after="7"), answer())

        async def main(seed: int = seed, transport: ScriptedTransport = transport) -> None:
            await Client(transport, MachineClock(), random.Random(seed)).get(NODES, "n")

        run_virtually(main())
        pauses.add(transport.asked_at_s[1] - transport.asked_at_s[0])
    assert len(pauses) == 5
    assert all(7.0 <= pause <= 10.5 for pause in pauses)


@pytest.mark.parametrize("header", ["", "soon", "-1", "1.5", "\u0667", "Thu, 99 Foo"])
def test_retry_after_that_nobody_can_read_is_none(header: str) -> None:
    assert retry_after_s(header, datetime.now(UTC)) is None


def test_retry_after_beyond_the_budget_is_told_at_once() -> None:
    found, transport = ask(lambda client: client.get(NODES, "n"), refusal(429, retry_after="3600"))
    assert isinstance(found, TooManyRequests)
    assert found.retry_after_s == 3600.0
    assert len(transport.asked) == 1


@pytest.mark.parametrize("failure", [BROKEN, refusal(500), refusal(503), refusal(504), refusal(502)])
def test_write_of_unknown_outcome_is_never_repeated(failure: Answer) -> None:
    found, transport = ask(bind, failure, answer())
    assert isinstance(found, OutcomeUnknown)
    assert str(found.asked) == "create pods/binding ns/p"
    assert len(transport.asked) == 1


@pytest.mark.parametrize(
    "failure", [UNREACHABLE, refusal(429), refusal(429, retry_after="1"), refusal(503, retry_after="1")]
)
def test_write_that_surely_did_nothing_is_repeated(failure: Answer) -> None:
    found, transport = ask(bind, failure, answer())
    assert found is None
    assert len(transport.asked) == 2
    found, transport = ask(
        lambda client: client.create(PODS, {}, namespace="a", retry_limits=ONE_TRY), failure
    )
    assert isinstance(found, TransportError | TooManyRequests | Unavailable)
    assert len(transport.asked) == 1


async def _read_back(client: Client) -> bytes | None:
    try:
        await bind(client)
    except OutcomeUnknown as unknown:
        return await client.read_back(unknown)
    raise AssertionError("the outcome was known")


def test_unknown_outcome_is_read_back() -> None:
    found, transport = ask(_read_back, BROKEN, answer({"spec": {"nodeName": "n1"}}))
    assert found == b'{"spec": {"nodeName": "n1"}}'
    assert transport.asked[1].target == "/api/v1/namespaces/ns/pods/p"
    found, _ = ask(_read_back, BROKEN, refusal(404, "NotFound"))
    assert found is None


@pytest.mark.parametrize(
    ("code", "reason", "error"),
    [
        (403, "Forbidden", Forbidden),
        (404, "NotFound", NotFound),
        (409, "Conflict", Conflict),
        (409, "AlreadyExists", AlreadyExists),
        (410, "Expired", Gone),
        (422, "Invalid", Invalid),
    ],
)
def test_refusals_are_final_and_have_their_class(code: int, reason: str, error: type[StatusError]) -> None:
    for question in (bind, lambda client: client.get(NODES, "n")):
        found, transport = ask(question, refusal(code, reason, "because"))
        assert type(found) is error
        assert "because" in str(found)
        assert len(transport.asked) == 1


def test_refusal_that_is_no_status_object_is_told_in_bounded_ascii() -> None:
    found, _ = ask(
        lambda client: client.get(NODES, "n"), Response(403, {}, b"<html>\n\x1b[31m" + b"x" * 9999)
    )
    assert isinstance(found, Forbidden)
    assert len(str(found)) < 1200
    assert "\n" not in str(found)
    assert "\x1b" not in str(found)


def test_status_object_in_a_refusal_names_the_causes() -> None:
    body = {
        "code": 422,
        "reason": "Invalid",
        "message": "no",
        "details": {"causes": [{"reason": "FieldValueInvalid", "message": "bad", "field": "spec.x"}]},
    }
    found, _ = ask(bind, answer(body, 422))
    assert isinstance(found, Invalid)
    assert found.details.causes[0].field == "spec.x"


def test_kind_that_is_not_installed_is_a_normal_answer() -> None:
    found, _ = ask(lambda client: client.serves(RAY_CLUSTERS), refusal(404, "NotFound"))
    assert found is False
    resources = {
        "resources": [
            {"name": "priorityclasses", "kind": "PriorityClass", "namespaced": False, "verbs": []},
            {"name": "priorityclasses/status", "kind": "PriorityClass", "namespaced": False},
        ]
    }
    found, transport = ask(lambda client: client.kinds("scheduling.k8s.io", "v1"), answer(resources))
    assert found == (PRIORITY_CLASSES,)
    assert transport.asked[0].target == "/apis/scheduling.k8s.io/v1"


def test_preferred_version_comes_first() -> None:
    group = {
        "versions": [{"groupVersion": "g/v1", "version": "v1"}, {"groupVersion": "g/v2", "version": "v2"}],
        "preferredVersion": {"groupVersion": "g/v2", "version": "v2"},
    }
    found, _ = ask(lambda client: client.versions("g"), answer(group))
    assert found == ("v2", "v1")
