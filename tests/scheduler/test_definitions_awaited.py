"""A scheduler begins once the cluster's definitions know every field, and says until then which they lack."""

import random
from typing import Any

import pytest

from gpufleet.kube.client import Client
from gpufleet.kube.clock import MachineClock
from gpufleet.kube.kube_errors import TransportError
from gpufleet.kube.transport import Response
from gpufleet.scheduler.definitions_awaited import await_definitions
from gpufleet.scheduler.metrics import Metrics
from gpufleet.scheduler.status import Status
from tests.kube.scripted_transport import Answer, ScriptedTransport, refusal
from tests.kube.served_definitions import served
from tests.kube.virtual_time import run_virtually

NO_SUCH_GROUP = refusal(404, "NotFound")
KEPT_FROM_ALL = refusal(403, "Forbidden", "cannot get path")


def wait(*script: Answer) -> tuple[Status, list[bool]]:
    """Wait through these answers; the status at the end, and whether it was ready at each question."""
    status, ready = Status(), []

    class Watched(ScriptedTransport):
        async def call(self, request: Any, *, timeout_s: float) -> Response:
            ready.append(status.ready().well)
            return await super().call(request, timeout_s=timeout_s)

    async def main() -> None:
        transport = Watched(*script)
        client = Client(transport, MachineClock(), random.Random(1))
        await await_definitions(client, status, Metrics())
        assert not transport.script, "it began too early"

    run_virtually(main())
    return status, ready


@pytest.mark.parametrize("only", [served(), NO_SUCH_GROUP, KEPT_FROM_ALL])
def test_it_begins_at_once_where_nothing_is_known_to_be_dropped(only: Response) -> None:
    status, ready = wait(only)
    assert status.ready().well
    assert ready == [True]


def test_it_waits_until_an_older_definition_is_upgraded(caplog: pytest.LogCaptureFixture) -> None:
    status, ready = wait(served("quotas"), served("quotas"), served())
    assert status.ready().well
    assert ready == [True, False, False]
    (told,) = (one for one in caplog.records if one.levelname == "WARNING")
    assert "FleetQueue spec.quotas" in told.problem  # type: ignore[attr-defined]
    assert "upgrade them (helm upgrade" in told.problem  # type: ignore[attr-defined]


def test_a_server_that_is_away_is_waited_for() -> None:
    status, ready = wait(*[TransportError("away", reached=False)] * 20, served())
    assert status.ready().well
    assert not all(ready)
