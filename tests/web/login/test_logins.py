"""Sessions, the local login and the names that are served: what opens the page, and what does not."""

import asyncio

import pytest

from gpufleet.daemon.http_server import Accepted, Page, Request
from gpufleet.web.login.hosts import check_host, loopback_hosts
from gpufleet.web.login.local_login import LocalLogin
from gpufleet.web.login.person import Person, RefusedError
from gpufleet.web.login.sessions import LASTS_S, SESSIONS_MAX, Sessions
from gpufleet.web.rights import ALL
from tests.web.set_clock import SetClock

PORT = 9480


def request(target: str = "/", method: str = "GET", **fields: str) -> Request:
    pairs = tuple((name.replace("_", "-"), value) for name, value in fields.items())
    return Request(method, target, pairs, Accepted(), keep_alive=True)


def cookie_of(page: Page) -> str:
    return dict(page.fields)["Set-Cookie"].partition(";")[0]


def logged_in(login: LocalLogin, token: str) -> Page:
    return asyncio.run(login.log_in(request(f"/login?token={token}")))


def person(login: LocalLogin, cookie: str) -> Person:
    return asyncio.run(login.person(request(cookie=cookie)))


def test_the_token_of_the_url_becomes_a_cookie_and_leaves_the_url() -> None:
    login = LocalLogin(SetClock(), PORT, lambda: ALL)
    page = logged_in(login, login.token)
    fields = dict(page.fields)
    assert fields["Location"] == "/"
    assert {"HttpOnly", "SameSite=Strict"} <= set(fields["Set-Cookie"].split("; "))
    assert login.token not in fields["Set-Cookie"]
    assert person(login, cookie_of(page)).rights.sees_all


@pytest.mark.parametrize("token", ["", "x", "%00", "é", "&a=1" * 200, "x;a" * 200])
def test_another_token_opens_nothing(token: str) -> None:
    login = LocalLogin(SetClock(), PORT, lambda: ALL)
    with pytest.raises(RefusedError) as refused:
        logged_in(login, token)
    assert refused.value.status == 401


@pytest.mark.parametrize("cookie", ["", f"gpufleet-{PORT}=", f"gpufleet-{PORT}=x", "gpufleet-1=x"])
def test_another_cookie_opens_nothing(cookie: str) -> None:
    login = LocalLogin(SetClock(), PORT, lambda: ALL)
    logged_in(login, login.token)
    with pytest.raises(RefusedError):
        person(login, cookie)


def test_a_session_ends_when_it_is_ended_and_when_its_time_is_over() -> None:
    clock = SetClock()
    login = LocalLogin(clock, PORT, lambda: ALL)
    first, second = (cookie_of(logged_in(login, login.token)) for _ in range(2))
    login.log_out(request(cookie=first))
    with pytest.raises(RefusedError):
        person(login, first)
    assert person(login, f"other=1; {second}").user == ""
    clock.advance(LASTS_S)
    with pytest.raises(RefusedError):
        person(login, second)


def test_the_oldest_of_too_many_sessions_goes() -> None:
    sessions: Sessions[int] = Sessions(SetClock(), "c", secure=True)
    cookies = [sessions.begin(number)[1].partition(";")[0] for number in range(SESSIONS_MAX + 1)]
    assert sessions.of(request(cookie=cookies[0])) is None
    assert sessions.of(request(cookie=cookies[-1])) == SESSIONS_MAX


@pytest.mark.parametrize("host", ["127.0.0.1:9480", "localhost:9480", "LOCALHOST:9480", "[::1]:9480"])
def test_names_of_this_machine_are_served(host: str) -> None:
    check_host(request(host=host), loopback_hosts(PORT))


@pytest.mark.parametrize(
    "host", ["", "evil.example:9480", "127.0.0.1:80", "127.0.0.1", "localhost:9480.evil"]
)
def test_other_names_are_refused(host: str) -> None:
    with pytest.raises(RefusedError) as refused:
        check_host(request(host=host), loopback_hosts(PORT))
    assert refused.value.status == 421


def test_two_names_at_once_are_refused() -> None:
    fields = (("host", "localhost:9480"), ("host", "localhost:9480"))
    with pytest.raises(RefusedError):
        check_host(Request("GET", "/", fields, Accepted(), keep_alive=True), loopback_hosts(PORT))


def test_a_page_of_another_site_ends_no_session() -> None:
    hosts = loopback_hosts(PORT)
    own = {"host": "localhost:9480"}
    check_host(request("/api/logout", "POST", **own, origin="http://localhost:9480"), hosts)
    with pytest.raises(RefusedError) as refused:
        check_host(request("/api/logout", "POST", **own, origin="http://evil.example"), hosts)
    assert refused.value.status == 403
