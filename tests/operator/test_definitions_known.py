"""The operator does not begin while the cluster's definitions would drop what it writes, and says which."""

import asyncio
import random

from gpufleet.kube.client import Client
from gpufleet.kube.clock import MachineClock
from gpufleet.kube.transport import Request, Response
from gpufleet.operator.process import ready
from gpufleet.operator.service import Operator
from tests.kube.scripted_transport import ScriptedTransport
from tests.kube.served_definitions import served
from tests.kube.virtual_time import run_virtually


def asked(document: Response, *, projects: bool, questions: int = 1) -> tuple[str, ...]:
    """Why an operator that meets this document is not ready when it has asked for it so often; () if it is.

    It takes its Lease with the question after these, which is where the story ends.
    """
    transport = ScriptedTransport(*[document] * questions)
    lease_asked = asyncio.Event()

    class Ending(ScriptedTransport):
        async def call(self, request: Request, *, timeout_s: float) -> Response:
            if "/leases/" in request.target or not transport.script:
                lease_asked.set()
                await asyncio.Event().wait()
            return await transport.call(request, timeout_s=timeout_s)

    async def main() -> tuple[str, ...]:
        client = Client(Ending(), MachineClock(), random.Random(1))
        operator = Operator(client, "gpufleet-system", "one", keeps_projects=projects)
        task = asyncio.ensure_future(operator.run())
        await lease_asked.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return ready(operator).reasons

    return run_virtually(main())


def test_it_takes_its_lease_where_nothing_would_be_dropped() -> None:
    assert asked(served(), projects=True, questions=2) == ()


def test_a_field_of_queues_that_would_be_dropped_is_named_where_projects_write_queues() -> None:
    (problem,) = asked(served("quotas"), projects=True, questions=3)
    assert "FleetQueue spec.quotas" in problem


def test_without_projects_it_writes_no_queues() -> None:
    assert asked(served("quotas"), projects=False, questions=2) == ()


def test_a_cluster_without_queues_has_projects_all_the_same() -> None:
    assert asked(served(without=("FleetQueue",)), projects=True, questions=2) == ()
