"""What the page's server answers over a real socket, and what it refuses: names, paths, queries, methods."""

import asyncio
import gzip
import json
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from gpufleet.daemon.http_server import HttpServer
from gpufleet.web.asking.questions import Problem, Question, Reply, WhatChangesBring
from gpufleet.web.details import Details
from gpufleet.web.documents import FleetUseDocument, NodeUseRow, Source, SourceState
from gpufleet.web.fleet_use import FleetUse
from gpufleet.web.login.hosts import loopback_hosts
from gpufleet.web.login.local_login import LocalLogin
from gpufleet.web.problems import Problems
from gpufleet.web.process import LIMITS
from gpufleet.web.project_list import ProjectList
from gpufleet.web.rights import ALL
from gpufleet.web.routes import MANIFEST_BYTES_MAX, METHODS, STREAMS_OF_ONE_MAX, Parts, Routes
from gpufleet.web.static_files import page_files
from gpufleet.web.view_rows import ViewRows
from tests.daemon.serving import asked, serving
from tests.web.sample_fleet import plan
from tests.web.set_clock import SetClock
from tests.web.test_streaming import Rows

PORT = 9480
Story = Callable[[HttpServer, "Parts", str], Awaitable[None]]


class Answers:
    """Answers every question about a plan."""

    def __init__(self) -> None:
        self.asked: list[Question] = []

    async def ask(self, question: Question) -> Reply:
        """The plan of the samples, or what is wrong with the question."""
        self.asked.append(question)
        if isinstance(question, WhatChangesBring) and "wrong" in question.manifest:
            where = "the manifest, Pod train"
            return Reply(problem=Problem("not a class", "spec.x", "wrong", "low", is_input=True, where=where))
        if question == WhatChangesBring(add_nodes=("many",)):
            return Reply(problem=Problem("not a number", "--add-nodes", "many", "a number", is_input=True))
        return Reply(plan=plan())


ANSWERS = Answers()
MEASURED = FleetUseDocument("2026-03-01T12:00:00Z", (NodeUseRow("gpu-1", 2.0, (0.5,), (None,)),), "why")


class Measures:
    """Tells the same use to everyone."""

    async def now(self, _: ViewRows) -> FleetUseDocument:
        """The use."""
        return MEASURED


def parts() -> Parts:
    clock, asking = SetClock(), ANSWERS
    return Parts(
        LocalLogin(clock, PORT, lambda: ALL),
        lambda _: cast("ViewRows", Rows()),
        lambda: Source(SourceState.LIVE),
        cast("Details", None),
        asking,
        Problems(asking, clock, None),
        cast("ProjectList", None),
        cast("FleetUse", Measures()),
        clock,
        page_files(),
        loopback_hosts(PORT),
        "0.0",
    )


def page(story: Story) -> None:
    """A server of the page, and the cookie of a session."""
    made = parts()
    routes = Routes(made)

    async def run(server: HttpServer) -> None:
        login = cast("LocalLogin", made.login)
        answer = await asked(server, get(f"/login?token={login.token}"))
        cookie = fields_of(answer)["set-cookie"].partition(";")[0]
        await story(server, made, cookie)

    serving(run, others=routes.answer, methods=METHODS, limits=LIMITS)


def get(path: str, *fields: str, method: str = "GET", host: str = f"127.0.0.1:{PORT}") -> bytes:
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", "Connection: close", *fields, "", ""]
    return "\r\n".join(lines).encode()


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def fields_of(answer: bytes) -> dict[str, str]:
    lines = answer.partition(b"\r\n\r\n")[0].decode().split("\r\n")[1:]
    return {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}


def document(answer: bytes) -> Any:
    return json.loads(answer.partition(b"\r\n\r\n")[2])


def test_files_of_the_page_need_no_login_and_no_other_file_is_given() -> None:
    async def story(server: HttpServer, made: Parts, _: str) -> None:
        index = await asked(server, get("/"))
        assert status_of(index) == 200
        assert fields_of(index)["content-type"] == "text/html; charset=utf-8"
        for path in made.files:
            assert status_of(await asked(server, get(path))) == 200
        tag = fields_of(index)["etag"]
        assert status_of(await asked(server, get("/", f"If-None-Match: {tag}"))) == 304

    page(story)


@pytest.mark.parametrize(
    "path",
    [
        "/../documents.py",
        "/..%2fdocuments.py",
        "/%2e%2e/documents.py",
        "/vendor/../../documents.py",
        "/./index.html",
        "//etc/passwd",
        "/static/index.html",
        "/index.html%00",
        "/documents.py",
        "/" + "a/" * 3000,
    ],
)
def test_a_path_leads_nowhere_else(path: str) -> None:
    async def story(server: HttpServer, _: Parts, cookie: str) -> None:
        answer = await asked(server, get(path, f"Cookie: {cookie}"))
        assert status_of(answer) == 404
        assert "there is no such file" in document(answer)["problem"]

    page(story)


@pytest.mark.parametrize("path", ["/", "/page.css", "/api/about", "/api/nothing", "/login"])
def test_every_answer_forbids_what_is_not_ours(path: str) -> None:
    async def story(server: HttpServer, _: Parts, cookie: str) -> None:
        fields = fields_of(await asked(server, get(path, f"Cookie: {cookie}")))
        policy = fields["content-security-policy"]
        assert policy.startswith("default-src 'self';")
        assert "unsafe" not in policy
        assert fields["x-content-type-options"] == "nosniff"
        assert fields["referrer-policy"] == "no-referrer"

    page(story)


@pytest.mark.parametrize(
    "path", ["/api/about", "/api/stream", "/api/plans?add_nodes=1", "/api/problems", "/api/projects"]
)
def test_without_a_session_nothing_of_the_cluster_is_given(path: str) -> None:
    async def story(server: HttpServer, _: Parts, __: str) -> None:
        answer = await asked(server, get(path))
        assert status_of(answer) == 401
        assert "gpufleet web" in document(answer)["way_out"]

    page(story)


@pytest.mark.parametrize("path", ["/", "/api/about", "/login?token=x"])
def test_another_name_is_refused_before_anything_else(path: str) -> None:
    async def story(server: HttpServer, _: Parts, cookie: str) -> None:
        answer = await asked(server, get(path, f"Cookie: {cookie}", host="evil.example"))
        assert status_of(answer) == 421
        assert document(answer)["field"] == "Host"

    page(story)


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("add_nodes=many", "--add-nodes"),
        ("submit=x", "query"),
        ("&".join(["add_nodes=1"] * 100), "query"),
    ],
)
def test_a_plan_that_cannot_be_is_refused_with_its_field(query: str, field: str) -> None:
    async def story(server: HttpServer, _: Parts, cookie: str) -> None:
        answer = await asked(server, get(f"/api/plans?{query}", f"Cookie: {cookie}"))
        assert status_of(answer) == 400
        assert document(answer)["field"] == field

    page(story)


def test_a_plan_is_asked_as_it_is_written() -> None:
    async def story(server: HttpServer, _: Parts, cookie: str) -> None:
        query = "add_nodes=2&remove_node=gpu-1&set_quota=team.gpu%3D8&add_nodes=1:like=gpu-2"
        answer = await asked(server, get(f"/api/plans?{query}", f"Cookie: {cookie}"))
        assert document(answer)["schema"] == "gpufleet.io/whatif/v1"
        assert ANSWERS.asked[-1] == WhatChangesBring(("2", "1:like=gpu-2"), ("gpu-1",), ("team.gpu=8",))

    page(story)


def test_a_query_without_end_is_refused() -> None:
    async def story(server: HttpServer, _: Parts, cookie: str) -> None:
        answer = await asked(server, get("/api/plans?add_nodes=" + "9" * 100_000, f"Cookie: {cookie}"))
        assert status_of(answer) == 431

    page(story)


def post(path: str, body: bytes, *fields: str) -> bytes:
    return get(path, f"Content-Length: {len(body)}", *fields, method="POST") + body


def test_a_plan_with_a_manifest_is_asked_with_it_and_its_namespace() -> None:
    async def story(server: HttpServer, _: Parts, cookie: str) -> None:
        manifest = "kind: Pod\nmetadata: {name: Ünïcode}\n"
        answer = await asked(
            server, post("/api/plans?namespace=team&add_nodes=2", manifest.encode(), f"Cookie: {cookie}")
        )
        assert document(answer)["schema"] == "gpufleet.io/whatif/v1"
        assert ANSWERS.asked[-1] == WhatChangesBring(("2",), manifest=manifest, namespace="team")

    page(story)


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [(b"wrong", 400, "spec.x"), (b"\xff\xfe", 400, "manifest")],
)
def test_a_manifest_that_cannot_be_is_refused_with_its_field(body: bytes, status: int, field: str) -> None:
    async def story(server: HttpServer, _: Parts, cookie: str) -> None:
        answer = await asked(server, post("/api/plans", body, f"Cookie: {cookie}"))
        assert status_of(answer) == status
        assert document(answer)["field"] == field

    page(story)


def test_a_manifest_needs_a_session_a_page_of_ours_and_an_end() -> None:
    async def story(server: HttpServer, _: Parts, cookie: str) -> None:
        before = len(ANSWERS.asked)
        assert status_of(await asked(server, post("/api/plans", b"kind: Pod"))) == 401
        foreign = post("/api/plans", b"kind: Pod", f"Cookie: {cookie}", "Origin: http://evil.example")
        assert status_of(await asked(server, foreign)) == 403
        endless = post("/api/plans", b"x" * (MANIFEST_BYTES_MAX + 1), f"Cookie: {cookie}")
        assert status_of(await asked(server, endless)) == 413
        assert len(ANSWERS.asked) == before

    page(story)


@pytest.mark.parametrize("packed", [False, True])
def test_use_of_the_fleet_is_packed_where_the_browser_takes_it(packed: bool) -> None:
    async def story(server: HttpServer, _: Parts, cookie: str) -> None:
        accepts = "gzip" if packed else "identity"
        answer = await asked(server, get("/api/use", f"Cookie: {cookie}", f"Accept-Encoding: {accepts}"))
        body = answer.partition(b"\r\n\r\n")[2]
        assert (fields_of(answer).get("content-encoding") == "gzip") == packed
        told = json.loads(gzip.decompress(body) if packed else body)
        assert told["nodes"] == [{"key": "gpu-1", "age_s": 2.0, "busy": [0.5], "memory": [None]}]

    page(story)


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH"])
def test_nothing_is_written(method: str) -> None:
    async def story(server: HttpServer, _: Parts, cookie: str) -> None:
        answer = await asked(server, get("/api/about", f"Cookie: {cookie}", method=method))
        assert status_of(answer) == 405
        posted = await asked(server, get("/api/use", f"Cookie: {cookie}", method="POST"))
        assert status_of(posted) == 405

    page(story)


def test_a_stream_is_not_kept_by_a_proxy_and_one_person_has_so_many() -> None:
    async def story(server: HttpServer, _: Parts, cookie: str) -> None:
        open_ = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(STREAMS_OF_ONE_MAX)]
        for reader, writer in open_:
            writer.write(get("/api/stream", f"Cookie: {cookie}"))
            head = await reader.readuntil(b"\r\n\r\n")
            assert b"X-Accel-Buffering: no" in head
            assert b"Content-Type: text/event-stream" in head
        refused = await asked(server, get("/api/stream", f"Cookie: {cookie}"))
        assert status_of(refused) == 503
        assert "watch" in document(refused)["problem"]
        for _reader, writer in open_:
            writer.close()

    page(story)


def test_logging_out_ends_the_session() -> None:
    async def story(server: HttpServer, _: Parts, cookie: str) -> None:
        assert status_of(await asked(server, get("/api/about", f"Cookie: {cookie}"))) == 200
        gone = await asked(server, get("/api/logout", f"Cookie: {cookie}", method="POST"))
        assert status_of(gone) == 204
        assert status_of(await asked(server, get("/api/about", f"Cookie: {cookie}"))) == 401

    page(story)
