"""Cards for tests, and a driver that does steps by its own rules: it knows bits and nothing of plans."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from gpufleet.mig.cards import CardInstance, MigCard, ModeSwitch
from gpufleet.mig.steps import MakeInstance, RemoveInstance, Step, SwitchMode
from gpufleet.model.identifiers import DeviceId, GpuModelName
from gpufleet.model.mig import Layout, MigInstance
from gpufleet.model.mig_boards import BOARDS

H100 = BOARDS[GpuModelName("H100-80GB")]
A30 = BOARDS[GpuModelName("A30")]


def at(*places: str) -> Layout:
    """Instances from text: "3g.40gb@4"."""
    pairs = (one.split("@") for one in places)
    return tuple(MigInstance(int(start), profile) for profile, start in pairs)


def a_card(
    name: str = "GPU-0",
    held: Layout = (),
    unused: Layout = (),
    *,
    board: str = "H100-80GB",
    node: str = "node-1",
    mig_enabled: bool = True,
    in_use: bool = False,
    mode_switch: ModeSwitch = ModeSwitch.AT_ONCE,
) -> MigCard:
    """A card with instances in use and others."""
    instances = [CardInstance(one, in_use=True) for one in held] + [CardInstance(one) for one in unused]
    geometry = BOARDS[GpuModelName(board)]
    return MigCard(node, DeviceId(name), geometry, mig_enabled, tuple(instances), in_use, mode_switch)


@dataclass
class Driver:
    """What a driver allows: it refuses every step that NVIDIA's would refuse."""

    card: MigCard
    mode: bool = False
    there: set[MigInstance] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.mode = self.card.mig_enabled
        self.there = set(self.card.layout)

    def do(self, steps: Iterable[Step]) -> None:
        """Do the steps, or fail where the driver would refuse one."""
        for step in steps:
            assert step.card == self.card.id
            match step:
                case SwitchMode(_, enabled, _):
                    assert not self.there
                    assert not self.card.in_use
                    assert enabled != self.mode
                    self.mode = enabled
                case RemoveInstance(_, instance):
                    assert instance not in self.card.held, "an instance in use is removed"
                    self.there.remove(instance)
                case MakeInstance(_, instance):
                    assert self.mode
                    assert not self.bits(instance) & self.taken, "an instance is made over another"
                    self.there.add(instance)

    @property
    def taken(self) -> int:
        """The memory slices of all instances, as bits."""
        bits = 0
        for one in self.there:
            bits |= self.bits(one)
        return bits

    def bits(self, instance: MigInstance) -> int:
        """The memory slices of an instance, as bits."""
        size = {profile.name: profile.memory_slices for profile in self.card.geometry.profiles}
        return ((1 << size[instance.profile]) - 1) << instance.start
