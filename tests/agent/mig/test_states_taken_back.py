"""An agent that changes no layouts takes back what an earlier one said, once the server answers."""

import asyncio
import contextlib
from random import Random

import msgspec

from gpufleet.agent.mig.states_taken_back import RETRY_S, StatesTakenBack
from gpufleet.kube.client import Client
from gpufleet.kube.transport import Request
from gpufleet.mig.wanted import LAYOUTS_ANNOTATION, STATES_ANNOTATION
from gpufleet.simulation.api_server import ApiServer
from gpufleet.simulation.network import SimulatedTransport
from gpufleet.simulation.virtual_loop import VirtualClock, VirtualLoop, run

NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}}
BEFORE = {STATES_ANNOTATION: "{}", LAYOUTS_ANNOTATION: '{"GPU-a": null}'}


def test_the_states_go_once_the_node_is_there_and_the_layouts_stay() -> None:
    async def story(loop: VirtualLoop) -> None:
        clock = VirtualClock(loop)
        server = ApiServer(clock, Random(1))
        part = StatesTakenBack(
            Client(SimulatedTransport(server, "system:masters", Random(2)), clock, Random(3)), "node-1"
        )
        task = asyncio.create_task(part.run())
        await clock.sleep(RETRY_S / 2)
        assert STATES_ANNOTATION in part.problem, "there is no Node yet"
        server.add({**NODE, "metadata": {"name": "node-1", "annotations": BEFORE}})
        await clock.sleep(2 * RETRY_S)
        assert part.problem == ""
        found = msgspec.json.decode(
            server.answer(Request("GET", "/api/v1/nodes/node-1"), "system:masters").body
        )
        assert found["metadata"]["annotations"] == {LAYOUTS_ANNOTATION: '{"GPU-a": null}'}
        assert not task.done(), "a part that ends counts as failed"
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    run(story)
