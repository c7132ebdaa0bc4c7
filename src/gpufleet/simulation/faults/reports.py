"""Faults of what nodes report: deleted, restored from a backup, gone with their definition or their Node."""

import asyncio

from gpufleet.simulation.actors import ADMIN
from gpufleet.simulation.faults.interference import Fault
from gpufleet.simulation.history import NODE_DEVICES, NODES
from gpufleet.simulation.refusal import JsonObject
from gpufleet.simulation.world import World

BETWEEN_S = (1.0, 6.0)
AWAY_S = (0.5, 15.0)
REPORTS = "/apis/gpufleet.io/v1alpha1/nodedevices"


class ReportFault(Fault):
    """One that takes reports away; agents write them again a while later, and at the end at the latest."""

    async def drive(self, world: World) -> None:
        while True:
            await asyncio.sleep(self.random.uniform(*BETWEEN_S))
            await self.strike(world)

    async def strike(self, world: World) -> None:
        """Let the fault act once."""

    async def undo(self, world: World) -> None:
        for name in sorted(world.reported):
            self.write(world, name)

    def some_node(self, world: World) -> str | None:
        """A node that reports."""
        names = [name for _, name in sorted(world.server.store.all(NODE_DEVICES)) if name in world.reported]
        return self.random.choice(names) if names else None

    def write(self, world: World, node: str) -> None:
        """The agent of a node writes what is so."""
        if world.server.store.get(NODES, ("", node)) is not None:
            world.actors.write_report(node, world.reported[node])

    async def after_a_while(self, world: World, node: str) -> None:
        """The agent of a node notices, and writes."""
        await asyncio.sleep(self.random.uniform(*AWAY_S))
        self.write(world, node)


class ReportDeleted(ReportFault):
    """A node's NodeDevices is deleted; its agent writes it again up to 15 s later."""

    name = "report-deleted"

    async def strike(self, world: World) -> None:
        node = self.some_node(world)
        if node is not None and world.actors.ask(ADMIN, "DELETE", f"{REPORTS}/{node}") == 200:
            self.acted += 1
            world.note(f"the report of {node} is deleted")
            await self.after_a_while(world, node)


class ReportRestored(ReportFault):
    """A report is written over with an older one, with a part of itself, or with other ids."""

    name = "report-restored"

    async def strike(self, world: World) -> None:
        node = self.some_node(world)
        if node is None:
            return
        report = world.server.store.get(NODE_DEVICES, ("", node))
        spec = self._older(world.reported[node])
        if report is None:
            return
        at_s = world.loop.time()
        # Past the rules for writes: a restored store asks no policy.
        world.server.store.put(NODE_DEVICES, ("", node), {**report, "spec": spec}, at_s=at_s, user=ADMIN)
        self.acted += 1
        world.note(f"the report of {node} is restored: {len(spec['devices'])} devices")
        await self.after_a_while(world, node)

    def _older(self, spec: JsonObject) -> JsonObject:
        devices = spec["devices"]
        kind = self.random.choice(("as it was first", "a part", "none", "other ids", "another boot"))
        match kind:
            case "a part":
                devices = devices[: len(devices) // 2]
            case "none":
                devices = []
            case "other ids":
                devices = [{**one, "id": f"{one['id']}-before"} for one in devices]
        boot = "an-earlier-boot" if kind == "another boot" else spec["bootID"]
        return {**spec, "bootID": boot, "devices": devices, "holders": []}


class NodeMadeAnew(ReportFault):
    """A Node is deleted, its report is collected, and its kubelet makes it anew while its pods run on."""

    name = "node-made-anew"

    async def strike(self, world: World) -> None:
        node = self.some_node(world)
        known = None if node is None else world.server.store.get(NODES, ("", node))
        if node is None or known is None:
            return
        world.actors.ask(ADMIN, "DELETE", f"/api/v1/nodes/{node}")
        world.actors.ask(ADMIN, "DELETE", f"{REPORTS}/{node}")
        self.acted += 1
        world.note(f"the Node {node} is deleted")
        try:
            await asyncio.sleep(self.random.uniform(0.1, 3.0))
        # Also where the fault is cut off meanwhile: its end must leave a whole world behind.
        finally:
            labels = known["metadata"].get("labels", {})
            made = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node, "labels": labels}}
            world.server.add({**made, "status": known["status"]})
        await self.after_a_while(world, node)


class DefinitionDeleted(ReportFault):
    """The definition of NodeDevices is deleted with all reports; half a minute later it is back."""

    name = "crd-deleted"
    lasts_s = 90.0

    async def strike(self, world: World) -> None:
        kind = world.server.kinds.get(("gpufleet.io", "v1alpha1", "nodedevices"))
        if kind is None:
            return
        self.acted += 1
        world.note("the definition of NodeDevices is deleted")
        world.server.end(kind)
        try:
            await asyncio.sleep(self.random.uniform(0.0, 3.0))
            world.server.withdraw(*kind.key)
            await asyncio.sleep(self.random.uniform(10.0, 30.0))
        # Also where the fault is cut off meanwhile: its end must leave a whole world behind.
        finally:
            world.server.withdraw(*kind.key)
            world.server.serve(kind)
        world.note("the definition of NodeDevices is back")
        for node in sorted(world.reported):
            await asyncio.sleep(self.random.uniform(0.1, 3.0))
            self.write(world, node)
