"""A node whose simulated cards are cut for claims; its agent may be killed, and it outlives that.

A process ends at its operation of number ``killed_at``, before or after it is done. An operation is a call to
the driver that changes something, or one to the disk.
"""

import asyncio
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from gpufleet.agent.dra.card_cutter import CardCutter
from gpufleet.agent.dra.claim_preparer import ClaimName
from gpufleet.agent.dra.device_pools import device_pools
from gpufleet.agent.dra.prepared_claims import Prepared, Stage
from gpufleet.agent.mig.claimed_places import ClaimedPlaces, CutWorld
from gpufleet.agent.mig.timed_driver import StepCounts, TimedDriver
from gpufleet.agent.state.node_state import Gpu
from gpufleet.devices.device_errors import DriverError
from gpufleet.devices.partitioner import make_call
from gpufleet.devices.sharing.plan import Exclusive, SharingPlan
from gpufleet.devices.simulated.backend import SimulatedBackend
from gpufleet.devices.simulated.description import read_description
from gpufleet.devices.simulated.machine import Machine, User
from gpufleet.devices.simulated.partitioner import SimulatedPartitioner
from gpufleet.mig.card_state import CardState
from gpufleet.mig.change import Call
from gpufleet.model.identifiers import DeviceId
from gpufleet.model.mig import Layout
from tests.agent.dra.claim_world import FailingDisk, World
from tests.agent.node_values import a_node
from tests.agent.set_clock import Moment, SetClock
from tests.mig.mig_cards import at

KillPoint = tuple[int, bool]


CALL_S = 1.5
"""How long each call to the driver takes, by the clock of the agent."""


class KilledError(BaseException):
    """The process is gone."""


class KillingDisk(FailingDisk):
    """A disk whose operations count."""

    def __init__(self, operate: Callable[[Callable[[], None]], None]) -> None:
        super().__init__()
        self._operate = operate

    def write(self, path: Path, data: bytes, mode: int) -> None:
        """As Disk."""
        self._operate(lambda: super(KillingDisk, self).write(path, data, mode))

    def move(self, source: Path, target: Path) -> None:
        """As Disk."""
        self._operate(lambda: super(KillingDisk, self).move(source, target))

    def remove(self, path: Path) -> None:
        """As Disk."""
        self._operate(lambda: super(KillingDisk, self).remove(path))


class CutNode(World):
    """The node. ``refused`` calls are refused by the driver; ``obstacle`` keeps cards from being cut."""

    def __init__(self, folder: Path, model: str = "H100-80GB", count: int = 1) -> None:
        self.users: list[User] = []
        machine = read_description(f"gpus: [{{model: {model}, count: {count}}}]")
        self.machine = Machine(machine, lambda: 0.0, lambda: self.users)
        self.card = next(iter(self.machine.gpus.values()))
        self.partitioner = SimulatedPartitioner(self.machine)
        self.refused: Callable[[Call], bool] = lambda _: False
        self.obstacle = ""
        self.counts, self.moment = StepCounts(), Moment()
        self.operations = 0
        self.killed_at: KillPoint | None = None
        super().__init__(folder, *self.cards())
        self.disk = KillingDisk(self.operate)
        self.started()
        self.offered()

    def offered(self) -> list[str]:
        """The devices of the cards as they are known, offered from now on."""
        pools = device_pools(self.gpus.value, lambda _: True, cuts=True)
        self.pools.publish(pools)
        return [one.name for pool in pools for one in pool.devices]

    def cards(self) -> list[Gpu]:
        """The cards as the driver lists them."""
        facts = SimulatedBackend(self.machine).fleet().gpus
        return [Gpu(one, SharingPlan(one.uuid, Exclusive())) for one in facts]

    def operate(self, work: Callable[[], None]) -> None:
        """Do it, unless the process is killed here."""
        self.operations += 1
        if self.killed_at == (self.operations, False):
            raise KilledError
        work()
        if self.killed_at == (self.operations, True):
            raise KilledError

    def cutter(self, prepared: Prepared) -> CardCutter:
        """The cutter of one process."""
        world = CutWorld(self.gpus, prepared, self.list_anew, self.asked_obstacle)
        clock = SetClock(self.moment)
        return ClaimedPlaces(TimedDriver(self, clock, self.counts), world, clock)

    async def list_anew(self) -> None:
        """Tell the cards as they are."""
        self.gpus.publish(a_node(*self.cards(), boot_id=self.gpus.value.boot_id))

    async def asked_obstacle(self) -> str:
        """Why no card may be cut."""
        return self.obstacle

    async def card_state(self, uuid: DeviceId) -> CardState:
        """As CardDriver."""
        return self.partitioner.card_state(uuid)

    async def make_call(self, uuid: DeviceId, call: Call) -> None:
        """As CardDriver."""
        if self.refused(call):
            raise DriverError(f"Insufficient Resources: {call}")
        self.moment.now_s += CALL_S
        self.operate(lambda: make_call(self.partitioner, uuid, call))

    def restarted(self) -> None:
        """Another process of the agent, which the driver tells its cards."""
        self.operations = 0
        asyncio.run(self.list_anew())
        self.started(self.gpus.value.boot_id)

    def until_done(self, work: Callable[[], object]) -> None:
        """What the kubelet asks for, again after each death, as it does."""
        while True:
            try:
                work()
            except KilledError:
                self.killed_at = None
                self.restarted()
            else:
                return

    def mend(self) -> str:
        """One look at what was left; the problem that remains."""

        async def look() -> None:
            await self.preparer.mend()
            await self.preparer.restore()

        asyncio.run(look())
        return self.preparer.problem

    def use(self, place: str) -> None:
        """A program works on the instance at a place, whoever started it."""
        self.users = [User(7, self.card.uuid, mig_uuid=self.uuid_at(place))]

    def uuid_at(self, place: str) -> str:
        """The UUID of the instance at a place."""
        (wanted,) = at(place)
        return next(
            one.uuid
            for one in self.card.instances or ()
            if (one.start, one.profile) == (wanted.start, wanted.profile)
        )

    def layout(self) -> Layout | None:
        """The usable instances of the first card, of which none may be half made; None for a whole card."""
        assert not self.card.bare_instances, "a GPU instance without compute instance is left"
        if self.card.instances is None:
            return None
        return tuple(sorted(at(*(f"{one.profile}@{one.start}" for one in self.card.instances))))

    def capabilities_of(self, claim: ClaimName) -> list[str]:
        """The device nodes of instances that a container with the claim gets, by its CDI file."""
        return [one for one in self.nodes_of(claim) if one.startswith("/dev/MIG-")]

    @property
    def stages(self) -> dict[str, Stage]:
        """The claims that are known, by name."""
        return {one.name: one.stage for one in self.preparer.prepared.value.values()}


def kill_points() -> Iterator[KillPoint]:
    """Before and after each operation, without end."""
    for number in itertools.count(1):
        yield from ((number, False), (number, True))


def rebooted(node: CutNode) -> None:
    """Another boot: MIG mode of a card stays, and no instance does."""
    for gpu in node.machine.gpus.values():
        node.machine.reset(gpu.uuid)
    node.gpus.publish(msgspec.structs.replace(node.gpus.value, boot_id="boot-2"))
    for path in (node.folder / "cdi").glob("*"):
        path.unlink()
    node.restarted()
