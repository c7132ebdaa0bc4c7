"""A proxy may name the user from where it is configured alone; a field from elsewhere is refused."""

import asyncio
import random
from typing import Any, cast

import msgspec
import pytest

from gpufleet.daemon.http_server import Accepted, Request
from gpufleet.kube.access_reviews import User
from gpufleet.kube.client import Client
from gpufleet.kube.transport import Request as Sent
from gpufleet.kube.transport import Response, ResponseStream
from gpufleet.model.model_errors import InputError
from gpufleet.web.fleet_state import FleetState
from gpufleet.web.login.cluster_login import NEW_NAMESPACES_S, ClusterLogin
from gpufleet.web.login.person import RefusedError
from gpufleet.web.login.trusted_proxy import TrustedProxy, read_network
from tests.web.set_clock import SetClock

PROXY = TrustedProxy((read_network("127.0.0.1"), read_network("10.1.0.0/16"), read_network("fd00::/8")))
OF_ADA = (("x-forwarded-user", "ada"), ("x-forwarded-groups", "vision, research"))


def request(peer: str, *fields: tuple[str, str]) -> Request:
    return Request("GET", "/api/about", fields, Accepted(), keep_alive=True, peer=peer)


@pytest.mark.parametrize("peer", ["127.0.0.1", "10.1.255.255", "fd00::7", "fd00::7%eth0", "::ffff:10.1.0.1"])
def test_from_the_proxy_the_fields_name_the_user_and_the_groups(peer: str) -> None:
    user = PROXY.user_of(request(peer, *OF_ADA))
    assert user == User("ada", groups=("vision", "research", "system:authenticated"))


@pytest.mark.parametrize("peer", ["10.2.0.1", "192.0.2.1", "::1", "127.0.0.2", ""])
@pytest.mark.parametrize("fields", [OF_ADA, OF_ADA[:1], OF_ADA[1:]])
def test_from_elsewhere_a_field_is_refused_and_not_passed_over(
    peer: str, fields: tuple[tuple[str, str], ...]
) -> None:
    with pytest.raises(RefusedError) as refused:
        PROXY.user_of(request(peer, *fields, ("authorization", "Bearer good")))
    assert refused.value.status == 403
    assert refused.value.refusal.value == peer


def test_without_the_fields_nobody_is_named_and_a_token_may_follow() -> None:
    assert PROXY.user_of(request("10.2.0.1", ("authorization", "Bearer good"))) is None
    assert PROXY.user_of(request("127.0.0.1")) is None


@pytest.mark.parametrize(
    "fields",
    [
        (("x-forwarded-user", "ada"), ("x-forwarded-user", "root")),
        (("x-forwarded-user", ""),),
        (("x-forwarded-groups", "vision"),),
        (("x-forwarded-user", "system:admin"),),
        (("x-forwarded-user", "ada"), ("x-forwarded-groups", "vision,system:masters")),
        (("x-forwarded-user", "ada"), ("x-forwarded-groups", ",".join(map(str, range(600))))),
    ],
    ids=["two users", "no name", "groups alone", "the API server's user", "its group", "groups without end"],
)
def test_a_proxy_names_one_user_and_none_of_the_api_servers_own(fields: tuple[tuple[str, str], ...]) -> None:
    with pytest.raises(RefusedError) as refused:
        PROXY.user_of(request("127.0.0.1", *fields))
    assert refused.value.status == 403


def test_fields_and_prefixes_are_those_that_are_configured() -> None:
    proxy = TrustedProxy((read_network("127.0.0.1"),), "X-Auth-Email", "X-Auth-Teams", "oidc:", "team:")
    fields = (("x-auth-email", "ada@example.com"), ("x-auth-teams", "a"), ("x-auth-teams", "b"))
    user = proxy.user_of(request("127.0.0.1", *fields))
    assert user == User("oidc:ada@example.com", groups=("team:a", "team:b", "system:authenticated"))
    # With a prefix it is no name of the API server's any more.
    named = proxy.user_of(request("127.0.0.1", ("x-auth-email", "system:admin")))
    assert named is not None
    assert named.name == "oidc:system:admin"


@pytest.mark.parametrize("text", ["", "proxy.example", "10.0.0.1/8", "10.0.0.0/33", "10.0.0.0/8,10.1.0.0/16"])
def test_what_is_no_network_is_refused_with_its_option(text: str) -> None:
    with pytest.raises(InputError, match="--trusted-proxy"):
        read_network(text)


class ApiServer:
    """Says whose the token "good" is, and that each user may list pods of the namespace of their name."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    async def call(self, sent: Sent, *, timeout_s: float) -> Response:  # noqa: ARG002  as transports have it
        """The answer to a review."""
        spec = msgspec.json.decode(sent.body or b"{}")["spec"]
        self.asked.append(spec)
        if "token" in spec:
            is_known = str(spec["token"]) == "good"
            status: object = {"authenticated": is_known, "user": {"username": "tokens-own"}}
        else:
            where = spec["resourceAttributes"].get("namespace", "")
            status = {"allowed": bool(where) and where == spec["user"]}
        return Response(201, {}, msgspec.json.encode({"status": status}))

    async def open(self, sent: Sent, *, timeout_s: float) -> ResponseStream:
        """Nothing is followed."""
        raise NotImplementedError

    async def close(self) -> None:
        """Nothing is open."""


class State:
    """Two namespaces have GPU work, until a test changes it."""

    def __init__(self) -> None:
        self.known = {"ada", "grace"}

    def namespaces(self) -> frozenset[str]:
        """Their names."""
        return frozenset(self.known)


def cluster_login(
    server: ApiServer,
    proxy: TrustedProxy | None = PROXY,
    state: State | None = None,
    clock: SetClock | None = None,
) -> ClusterLogin:
    client = Client(server, clock or SetClock(), random.Random(1))
    return ClusterLogin(client, cast("FleetState", state or State()), proxy)


def test_who_is_named_by_the_proxy_sees_what_that_users_rights_show() -> None:
    server = ApiServer()
    login = cluster_login(server)
    ada = asyncio.run(login.person(request("127.0.0.1", *OF_ADA)))
    assert (ada.user, ada.rights.namespaces) == ("ada", frozenset({"ada"}))
    assert {tuple(spec["groups"]) for spec in server.asked} == {
        ("vision", "research", "system:authenticated")
    }
    grace = asyncio.run(login.person(request("127.0.0.1", ("x-forwarded-user", "grace"))))
    assert (grace.user, grace.rights.namespaces) == ("grace", frozenset({"grace"}))


def test_the_api_server_is_asked_once_and_other_groups_are_another_question() -> None:
    server = ApiServer()
    login = cluster_login(server)
    asyncio.run(login.person(request("127.0.0.1", *OF_ADA)))
    before = len(server.asked)
    asyncio.run(login.person(request("10.1.0.9", *OF_ADA)))
    assert len(server.asked) == before
    asyncio.run(login.person(request("127.0.0.1", OF_ADA[0])))
    assert len(server.asked) > before


def test_a_token_that_looks_like_a_named_user_is_only_a_token() -> None:
    login = cluster_login(ApiServer())
    asyncio.run(login.person(request("127.0.0.1", ("x-forwarded-user", "ada"))))
    shown = msgspec.json.encode(User("ada").authenticated()).decode()
    for token in (shown, f"named {shown}"):
        with pytest.raises(RefusedError) as refused:
            asyncio.run(login.person(request("10.2.0.1", ("authorization", f"Bearer {token}"))))
        assert refused.value.status == 401


def test_without_a_trusted_proxy_the_fields_mean_nothing() -> None:
    login = cluster_login(ApiServer(), proxy=None)
    found = asyncio.run(login.person(request("127.0.0.1", *OF_ADA, ("authorization", "Bearer good"))))
    assert found.user == "tokens-own"
    with pytest.raises(RefusedError):
        asyncio.run(login.person(request("127.0.0.1", *OF_ADA)))


def test_a_namespace_that_was_not_known_at_the_login_is_asked_about_soon() -> None:
    server, state, clock = ApiServer(), State(), SetClock()
    state.known = set()
    login = cluster_login(server, state=state, clock=clock)

    def seen() -> frozenset[str] | None:
        return asyncio.run(login.person(request("127.0.0.1", *OF_ADA))).rights.namespaces

    assert seen() == frozenset()
    state.known = {"ada", "grace"}
    clock.advance(NEW_NAMESPACES_S)
    assert seen() == frozenset({"ada"})
    before = len(server.asked)
    clock.advance(NEW_NAMESPACES_S)
    assert seen() == frozenset({"ada"})
    assert len(server.asked) == before
