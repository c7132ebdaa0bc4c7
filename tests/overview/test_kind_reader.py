"""One kind that is listed and followed: what is told of it, and what is no news."""

from random import Random
from typing import Any

import msgspec

from gpufleet.kube.client import Client
from gpufleet.kube.objects.node import Node
from gpufleet.kube.resources import NODES, Kind
from gpufleet.kube.transport import Request
from gpufleet.overview.readings.kind_reader import KindReader
from gpufleet.overview.rows.known import Key
from gpufleet.simulation.api_server import ApiServer
from gpufleet.simulation.network import SimulatedTransport
from gpufleet.simulation.virtual_loop import VirtualClock, VirtualLoop, run
from tests.at_work import at_work

ADMIN = "system:masters"
NODE = "/api/v1/nodes/a"
MERGE = "application/merge-patch+json"


def test_a_node_that_is_written_and_says_the_same_is_no_news() -> None:
    """Its newest version is known all the same: it is shown with its node, and compared with the next."""

    async def story(loop: VirtualLoop) -> None:
        clock, heard = VirtualClock(loop), list[Key]()
        server = ApiServer(clock, Random(1))
        ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-11-29T12:00:00Z"}
        server.add({"kind": "Node", "apiVersion": "v1", "metadata": {"name": "a"}, "status": {}})
        client = Client(SimulatedTransport(server, ADMIN, Random(2)), clock, Random(3))

        def note(_: Kind, key: Key) -> None:
            heard.append(key)

        async def written(status: dict[str, Any]) -> None:
            body = msgspec.json.encode({"status": status})
            assert server.answer(Request("PATCH", f"{NODE}/status", body, MERGE), ADMIN).status == 200
            await clock.sleep(10)

        reader = KindReader(client, NODES, Node, heard=note)
        async with at_work(reader.run()):
            await clock.sleep(10)
            await written({"conditions": [ready]})
            heard.clear()
            changes, version = reader.changes, reader.objects["", "a"].metadata.resource_version
            await written({"conditions": [{**ready, "lastHeartbeatTime": "2026-11-29T12:05:00Z"}]})
            assert (heard, reader.changes) == ([], changes)
            assert reader.objects["", "a"].metadata.resource_version != version
            await written({"conditions": [{**ready, "status": "False"}]})
            assert (heard, reader.changes) == ([("", "a")], changes + 1)

    run(story)
