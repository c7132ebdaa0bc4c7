"""Agents are asked with limits; what one does not tell is unknown, and old numbers are none."""

import asyncio
import random
from collections.abc import Coroutine
from typing import Any

from gpufleet.kube.client import Client
from gpufleet.kube.transport import Request, Response, ResponseStream
from gpufleet.overview.readings.agent_pages import AT_ONCE, FRESH_S, AgentPages, agents_of
from gpufleet.simulation.virtual_loop import VirtualClock, VirtualLoop, run
from tests.overview.known_values import pod

PAGE = b'gpufleet_gpu_busy_ratio{node="x",uuid="A"} 0.5\n'
AGENT = [{"kind": "DaemonSet", "name": "gpufleet-agent", "controller": True}]


class Agents:
    """A way to an API server behind which agents answer as they are told to."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.code = 200
        self.body = PAGE
        self.takes_s = 0.0
        self.under_way = self.most_at_once = 0

    async def call(self, request: Request, *, timeout_s: float) -> Response:  # noqa: ARG002  as transports have it
        """The page, or the code, after its time."""
        self.asked.append(request.target)
        self.under_way += 1
        self.most_at_once = max(self.most_at_once, self.under_way)
        try:
            await asyncio.sleep(self.takes_s)
        finally:
            self.under_way -= 1
        return Response(self.code, {}, self.body if self.code == 200 else b"{}")

    async def open(self, request: Request, *, timeout_s: float) -> ResponseStream:
        """A watch: what is tested here opens none, so one that is opened fails the test."""
        raise NotImplementedError

    async def close(self) -> None:
        """Nothing is open."""


def in_time(story: Any) -> None:
    async def work(loop: VirtualLoop) -> None:
        agents = Agents()
        clock = VirtualClock(loop)
        pages = AgentPages(Client(agents, clock, random.Random(1)))
        engine_report: Coroutine[Any, Any, None] = story(agents, pages, clock)
        await engine_report

    run(work, 1)


def test_an_agent_that_is_a_pod_is_asked_by_the_proxy_of_pods() -> None:
    async def story(agents: Agents, pages: AgentPages, _: VirtualClock) -> None:
        await pages.read(["n"], {"n": ("gpufleet-system", "agent-1")})
        assert agents.asked == ["/api/v1/namespaces/gpufleet-system/pods/agent-1/proxy/metrics"]
        assert pages.use["n"].cards["A"].busy_ratio == 0.5

    in_time(story)


def test_one_that_serves_over_tls_is_found_and_then_asked_so_at_once() -> None:
    async def story(agents: Agents, pages: AgentPages, clock: VirtualClock) -> None:
        agents.code = 502
        await pages.read(["n"], {"n": ("s", "agent-1")})
        assert [target.split("/")[6] for target in agents.asked] == ["agent-1", "https%3Aagent-1%3A"]
        assert "cannot be asked" in pages.failed["n"]
        agents.code = 200
        await clock.sleep(60)
        await pages.read(["n"], {"n": ("s", "agent-1")})
        assert pages.failed == {}

    in_time(story)


def test_without_the_right_it_is_said_which_one_is_missing() -> None:
    async def story(agents: Agents, pages: AgentPages, _: VirtualClock) -> None:
        agents.code = 403
        await pages.read(["a", "b"], {"a": ("s", "agent-1")})
        assert pages.failed["a"] == "you may not get pods/proxy in s"
        assert pages.failed["b"] == "you may not get nodes/proxy, and no pod is the agent of the node"

    in_time(story)


def test_an_agent_that_hangs_is_left_and_not_asked_again_at_once() -> None:
    async def story(agents: Agents, pages: AgentPages, clock: VirtualClock) -> None:
        agents.takes_s = 1000.0
        began_s = clock.monotonic_s()
        await pages.read(["n"], {"n": ("s", "agent-1")})
        assert clock.monotonic_s() - began_s < 4
        assert pages.failed["n"] == "its agent does not answer within 3 s"
        await pages.read(["n"], {"n": ("s", "agent-1")})
        assert len(agents.asked) == 1

    in_time(story)


def test_few_are_asked_at_one_time() -> None:
    async def story(agents: Agents, pages: AgentPages, _: VirtualClock) -> None:
        agents.takes_s = 0.1
        await pages.read([f"n{number}" for number in range(100)], {})
        assert agents.most_at_once == AT_ONCE
        assert len(pages.use) == 100

    in_time(story)


def test_a_failure_takes_the_old_number_away_and_so_does_time() -> None:
    async def story(agents: Agents, pages: AgentPages, clock: VirtualClock) -> None:
        await pages.read(["a", "b"], {})
        agents.code = 500
        await pages.read(["a"], {})
        assert set(pages.use) == {"b"}
        await clock.sleep(FRESH_S + 1)
        await pages.read([], {})
        assert pages.use == {}

    in_time(story)


def test_a_page_of_something_else_is_no_measurement_of_nothing() -> None:
    async def story(agents: Agents, pages: AgentPages, _: VirtualClock) -> None:
        agents.body = b"\xff\xfe not text"
        await pages.read(["a"], {})
        assert "a" not in pages.use
        assert "a" in pages.failed

    in_time(story)


def test_only_pods_of_the_daemon_set_in_the_schedulers_namespace_are_agents() -> None:
    ours = pod("agent-1", on="n", namespace="gpufleet-system", owners=AGENT)
    forged = pod("agent-2", on="m", namespace="team", owners=AGENT)
    alone = pod("agent-3", on="o", namespace="gpufleet-system")
    assert agents_of([ours, forged, alone], "gpufleet-system") == {"n": ("gpufleet-system", "agent-1")}
