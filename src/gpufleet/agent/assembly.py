"""Puts the parts of one node's agent together: who gets whose topics, and what each is called.

Everything outside comes as an argument (client, settings, paths), so the whole agent runs in tests
against a simulated API server and folders of their own. ``process`` is the program around it.
"""

import random

from gpufleet.agent.backends import read_machine, real_backends, simulated_backends
from gpufleet.agent.known import Holders, NodePods
from gpufleet.agent.node_condition import NodeCondition
from gpufleet.agent.parts import Part, Parts
from gpufleet.agent.settings import AgentSettings
from gpufleet.agent.simulated_users import SimulatedUsers
from gpufleet.agent.simulation_door import SimulationDoor
from gpufleet.agent.topic import Topic
from gpufleet.agent.vendor_watch import Pace
from gpufleet.agent.watchman import Watchman, read_boot_id
from gpufleet.devices.hardware import vendors
from gpufleet.devices.simulated.machine import Machine
from gpufleet.kube.client import Client


class Agent:
    """All parts of the agent of one node. Raises InputError for settings that cannot be."""

    def __init__(self, settings: AgentSettings, client: Client, jitter: random.Random) -> None:
        self.settings = settings
        self.client = client
        self.pods: Topic[NodePods] = Topic({})
        self.holders: Topic[Holders] = Topic(())
        self.watchman, machine = self._watchman(jitter)
        condition = NodeCondition(client, settings.node, self.watchman.gpus)
        parts = [
            Part("watchman", self.watchman.run, lambda: self.watchman.gpus.value.problems),
            Part("node condition", condition.run, lambda: (condition.problem,) if condition.problem else ()),
        ]
        if machine is not None:
            machine.users = SimulatedUsers(self.watchman.gpus, self.pods, self.holders)
            parts.append(Part("simulation", SimulationDoor(settings.state_folder, machine).run))
        self.parts = Parts(parts, client.clock, jitter)

    async def run(self) -> None:
        """Run all parts until cancelled."""
        await self.parts.run()

    def _watchman(self, jitter: random.Random) -> tuple[Watchman, Machine | None]:
        """The watchman, and the simulated machine where there is one."""
        settings = self.settings
        machine = None
        if settings.simulated is not None:
            machine = read_machine(settings.simulated, settings.node, list)
        return (
            Watchman(
                settings.node,
                real_backends() if machine is None else simulated_backends(machine),
                self.client.clock,
                jitter,
                pace=Pace(settings.sample_every_s, processes=settings.accounting),
                boot_id=read_boot_id(),
                present=lambda vendor: machine is not None or vendor in vendors(),
            ),
            machine,
        )
