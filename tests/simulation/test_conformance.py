"""The simulated server gives the answers that a real kube-apiserver gave to the same requests."""

from random import Random
from typing import Any

import msgspec
import pytest

from gpufleet.simulation.api_server import ApiServer
from gpufleet.simulation.network import SimulatedTransport
from gpufleet.simulation.virtual_loop import VirtualClock, VirtualLoop, run
from tests.simulation.conformance_cases import CASES, Case, tell
from tests.simulation.record_answers import ANSWERS

REAL: dict[str, list[Any]] = msgspec.json.decode(ANSWERS.read_bytes())


def simulated(case: Case) -> list[Any]:
    """The answers of the simulated server."""

    async def work(loop: VirtualLoop) -> list[Any]:
        server = ApiServer(VirtualClock(loop), Random(1))
        return await tell(case, SimulatedTransport(server, "admin", Random(2)))

    return run(work)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_answers_are_those_of_a_real_server(case: Case) -> None:
    told, real = simulated(case), REAL[case.__name__]
    for ours, theirs in zip(told, real, strict=True):
        assert ours == theirs
