"""`gpufleet check` counts agents that are ready against nodes that report."""

import random

import msgspec
import pytest

from gpufleet.kube.client import Client
from gpufleet.kube.clock import MachineClock
from gpufleet.kube.installation import reported
from gpufleet.kube.transport import Request, Response, ResponseStream
from tests.kube.virtual_time import run_virtually


class OneReport:
    """A server with the report of one node."""

    async def call(self, request: Request, *, timeout_s: float) -> Response:  # noqa: ARG002
        """The list of reports, whatever is asked."""
        item = {"metadata": {"name": "a", "uid": "1"}, "spec": {"devices": [{"id": "GPU-0"}]}}
        body = {"metadata": {"resourceVersion": "7"}, "items": [item]}
        return Response(200, {}, msgspec.json.encode(body))

    async def open(self, request: Request, *, timeout_s: float) -> ResponseStream:
        """A watch: what is tested here opens none, so one that is opened fails the test."""
        raise NotImplementedError

    async def close(self) -> None:
        """Nothing to close."""


@pytest.mark.parametrize(("agents", "good"), [(0, True), (1, True), (3, False)])
def test_agents_that_are_ready_and_do_not_report_are_told(agents: int, good: bool) -> None:
    async def main() -> None:
        found = await reported(Client(OneReport(), MachineClock(), random.Random(1)), agents)
        assert found.good is good
        assert ("of 3 agents that are ready 2 do not report" in found.sentence) is not good
        assert found.sentence.startswith("1 node reports 1 GPU")

    run_virtually(main())
