"""The kubelet's side of resource claims on a simulated node: drivers register, claims are prepared and taken
back, and containers start with them.

As the real one does, it remembers over its own restart which claims it had prepared, and what it was
answered. A container starts only where the CDI files of its claims are there, and has the device files that
they name. ``world`` gives the agent this end in place of sockets.
"""

from collections.abc import Callable
from pathlib import Path

import msgspec

from gpufleet.agent.device_plugin import cdi
from gpufleet.agent.dra.claim_files import file_name, qualified_name
from gpufleet.agent.dra.claim_preparer import ClaimName, ClaimPreparer
from gpufleet.agent.dra.device_health import HealthSource
from gpufleet.agent.kubelet.pod_resources import ClaimUse
from gpufleet.agent.state.state_errors import KubeletError
from gpufleet.kube.clock import Clock
from gpufleet.simulation.node.crashes import Crashes
from gpufleet.simulation.node.kubelet import PluginGoneError, SimulatedKubelet
from gpufleet.simulation.process import SimulatedProcess


class ClaimAnswer(msgspec.Struct, frozen=True):
    """What the agent answered for a claim: its devices by pool, and their names for containers."""

    devices: tuple[tuple[str, str], ...]
    names: tuple[str, ...]


class ClaimManager:
    """The claims of one kubelet."""

    def __init__(self, kubelet: SimulatedKubelet, cdi_folder: Path, cards: dict[str, str]) -> None:
        self.kubelet = kubelet
        self.cdi_folder = cdi_folder
        self.cards = cards
        """The cards of the node by the device file of each."""
        self.drivers: dict[str, SimulatedDriverSocket] = {}
        self.answers: dict[str, ClaimAnswer] = {}
        """What was answered for each prepared claim, by its UID; it outlives the kubelet's process."""
        self.using: dict[str, frozenset[str]] = {}
        """The cards of running containers, by the UID of their claim."""
        self._names: dict[str, tuple[str, ClaimName]] = {}
        """The driver and the name of each claim with which a container started."""

        self.changed: list[str] = []
        """Claims that were answered otherwise than before, in words."""

    async def prepare(self, driver: str, claim: ClaimName) -> ClaimAnswer:
        """Have a claim prepared. Raises RefusedError and PluginGoneError."""
        socket = self._socket(driver)
        made = await self.kubelet.call(
            socket, f"prepare of claim {claim.name}", lambda: socket.preparer.prepare(driver, claim)
        )
        devices = tuple((one.pool, one.device) for one in made.devices)
        answer = ClaimAnswer(devices, tuple(qualified_name(made, one) for one in made.devices))
        before = self.answers.setdefault(claim.uid, answer)
        if before != answer:
            self.changed.append(f"claim {claim.name} was answered {before}, and then {answer}")
        return answer

    async def take_back(self, driver: str, claim: ClaimName) -> None:
        """End the containers of a claim and have it taken back. Raises RefusedError and PluginGoneError."""
        self.using.pop(claim.uid, None)
        socket = self._socket(driver)
        work = f"take back of claim {claim.name}"
        await self.kubelet.call(socket, work, lambda: socket.preparer.unprepare(driver, claim.uid))
        self.answers.pop(claim.uid, None)

    def start(self, driver: str, claim: ClaimName) -> frozenset[str]:
        """A container starts with a prepared claim: the cards that it has. Raises PluginGoneError."""
        spec = cdi.read_spec(self.cdi_folder, file_name(claim.uid, driver))
        found = {} if spec is None else {cdi.qualified(spec.kind, one.name): one for one in spec.devices}
        cards: set[str] = set()
        for name in self.answers[claim.uid].names:
            if name not in found:
                raise PluginGoneError(f"unresolvable CDI device {name}")
            paths = (node.path for node in found[name].container_edits.device_nodes)
            cards.update(self.cards[path] for path in paths if path in self.cards)
        self.using[claim.uid] = frozenset(cards)
        self._names[claim.uid] = driver, claim
        return self.using[claim.uid]

    async def in_use(self) -> tuple[ClaimUse, ...]:
        """What running containers have by claims, as the pod resources API says it. Raises KubeletError."""
        if not self.kubelet.up:
            raise KubeletError("the kubelet does not listen")
        return tuple(
            ClaimUse(claim.namespace, claim.name, driver, pool, device)
            for driver, claim in (self._names[uid] for uid in self.using)
            for pool, device in self.answers[claim.uid].devices
        )

    def _socket(self, driver: str) -> "SimulatedDriverSocket":
        socket = self.drivers.get(driver)
        # Unlike device plugins, drivers are found again by a kubelet that starts: their sockets stay.
        if socket is None or not socket.process.alive or not socket.is_open or not self.kubelet.up:
            raise PluginGoneError(f"driver {driver} is not registered")
        return socket

    def maker(
        self, process: SimulatedProcess, crashes: Crashes
    ) -> Callable[[str, Path, ClaimPreparer, HealthSource, Clock], "SimulatedDriverSocket"]:
        """What makes sockets in one process of the agent."""

        def make(
            driver: str, _root: Path, preparer: ClaimPreparer, _health: HealthSource, _clock: Clock
        ) -> SimulatedDriverSocket:
            return SimulatedDriverSocket(self, driver, preparer, process, crashes)

        return make


class SimulatedDriverSocket:
    """One driver of one process of the agent: a ``DriverSocket``. The process may die beside its opening."""

    def __init__(
        self,
        manager: ClaimManager,
        driver: str,
        preparer: ClaimPreparer,
        process: SimulatedProcess,
        crashes: Crashes,
    ) -> None:
        self.manager = manager
        self.driver = driver
        self.preparer = preparer
        self.process = process
        self.crashes = crashes
        self.is_open = False
        self.problem = ""

    @property
    def is_there(self) -> bool:
        """As DriverSocket."""
        return self.is_open

    async def open(self) -> None:
        """As DriverSocket."""
        await self.crashes.step_of_call(f"before it registers {self.driver}")
        self.is_open = True
        self.manager.drivers[self.driver] = self
        await self.crashes.step_of_call(f"after it registered {self.driver}")

    async def close(self) -> None:
        """As DriverSocket."""
        self.is_open = False
