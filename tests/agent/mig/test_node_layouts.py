"""Cards of a simulated node get the layouts that its Node says: offered, withheld, held meanwhile, killed."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random

import msgspec
import pytest

from gpufleet.agent.mig.change_records import ChangesOnDisk
from gpufleet.agent.mig.labelled_layouts import LabelledLayouts
from gpufleet.agent.mig.node_layouts import LayoutsRefusedError, LayoutWorld, NodeLayouts
from gpufleet.agent.mig.timed_driver import StepCounts, TimedDriver
from gpufleet.agent.state.node_state import Held, Holders
from gpufleet.agent.state.topic import Topic
from gpufleet.agent.units.node_units import node_units
from gpufleet.devices.partitioner import make_call
from gpufleet.devices.simulated.partitioner import SimulatedPartitioner
from gpufleet.kube.client import Client
from gpufleet.kube.objects.metadata import Metadata
from gpufleet.mig.card_state import CardState
from gpufleet.mig.change import (
    Call,
    MakeComputeInstance,
    MakeGpuInstance,
    RemoveComputeInstance,
    RemoveGpuInstance,
    ResetCard,
    SetMode,
)
from gpufleet.mig.wanted import CardLayoutState, LayoutState
from gpufleet.model.identifiers import DeviceId
from gpufleet.model.mig import Layout, MigInstance
from gpufleet.simulation.api_server import ApiServer
from gpufleet.simulation.network import SimulatedTransport
from tests.agent.machine_room import Room, in_room
from tests.mig.mig_cards import H100, at

ONE = "gpus: [{model: H100-80GB}]"


TAKES_S = {
    SetMode: 2.0,
    ResetCard: 10.0,
    MakeGpuInstance: 0.5,
    MakeComputeInstance: 0.25,
    RemoveComputeInstance: 0.125,
    RemoveGpuInstance: 1.0,
}


class KilledError(Exception):
    """The process is gone."""


class CutNode:
    """A node with one card; its kubelet gives what is offered."""

    def __init__(self, room: Room, folder: Path) -> None:
        self.room, self.folder = room, folder
        self.labelled: LabelledLayouts | None = None
        (self.gpu,) = room.machine.gpus.values()
        self.partitioner = SimulatedPartitioner(room.machine)
        self.server = ApiServer(room.clock, Random(1))
        self.server.add({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}})
        self.holders: Holders = ()
        self.before_call: Callable[[Call], None] = lambda _: None
        self.for_claims = False
        self.counts = StepCounts()
        self.layouts = self.new_process()

    def new_process(self) -> NodeLayouts:
        """An agent with what the last one left on the disk."""
        client = Client(
            SimulatedTransport(self.server, "system:masters", Random(2)), self.room.clock, Random(3)
        )
        world = LayoutWorld(
            Topic({}),
            self._ask,
            lambda: True,
            lambda _: self.for_claims,
            self._offer,
            self.room.monitor.list_anew,
        )
        records = ChangesOnDisk(self.folder, "boot-1")
        driver = TimedDriver(self, self.room.clock, self.counts)
        gpus = self.room.monitor.gpus
        self.layouts = NodeLayouts(client, "node-1", gpus, driver, records, lambda: world, self.labelled)
        return self.layouts

    async def _ask(self) -> Holders:
        return self.holders

    async def _offer(self) -> None:
        pass

    async def card_state(self, uuid: DeviceId) -> CardState:
        """As CardDriver."""
        return self.partitioner.card_state(uuid)

    async def make_call(self, uuid: DeviceId, call: Call) -> None:
        """As CardDriver; nothing that is held may be touched by it."""
        self.check_unheld(call)
        self.before_call(call)
        await self.room.clock.sleep(TAKES_S[type(call)])
        make_call(self.partitioner, uuid, call)

    def check_unheld(self, call: Call) -> None:
        """By the machine and the kubelet's list alone."""
        held = {unit for one in self.holders for unit in one.units}
        match call:
            case RemoveComputeInstance(number, _) | RemoveGpuInstance(number):
                gone = {one.uuid for one in self.gpu.instances or () if one.gpu_instance == number}
                assert not gone & held, "an instance that is held is removed"
            case SetMode() | ResetCard():
                assert not held, "a card that is held is switched"

    def take(self, unit: str) -> None:
        """A pod gets a unit."""
        self.holders = (*self.holders, Held("team", f"pod-{unit}", "main", "nvidia.com/gpu", (unit,), unit))

    def offered(self) -> list[str]:
        """The units that the kubelet may give."""
        held = {unit for one in self.holders for unit in one.units}
        units = node_units(self.layouts.offered.topic.value)
        return [unit.id for unit in units.values() if unit.id not in held]

    async def look(self, wanted: list[str] | None) -> CardLayoutState:
        """What the agent says of the card once it has looked."""
        text = json.dumps({self.gpu.uuid: wanted})
        self.layouts.said = Metadata(annotations={"gpufleet.io/mig-layouts": text})
        await self.layouts.look()
        return self.layouts.states[self.gpu.uuid]

    @property
    def layout(self) -> Layout | None:
        """The instances of the card."""
        if self.gpu.instances is None:
            return None
        return tuple(sorted(at(*(f"{one.profile}@{one.start}" for one in self.gpu.instances))))


def on_node(folder: Path, story: Callable[[CutNode], Awaitable[None]]) -> None:
    async def tell(room: Room) -> None:
        node = CutNode(room, folder)
        following = asyncio.ensure_future(follow(node))
        await story(node)
        following.cancel()

    in_room(tell, ONE)


async def follow(node: CutNode) -> None:
    async for _ in node.room.monitor.gpus.follow():
        node.layouts.offered.follow_now()


def test_a_change_says_how_long_each_of_its_steps_took_also_by_the_next_process(tmp_path: Path) -> None:
    async def story(node: CutNode) -> None:
        took = (await node.look(["2g.20gb@2", "3g.40gb@4"])).took
        assert took is not None
        # Two instances, each with a GPU instance of 0.5 s and a compute instance of 0.25 s; 2 s for the mode.
        assert (took.steps.mode_s, took.steps.make_s, took.steps.remove_s) == (2.0, 1.5, None)
        assert (took.ended - took.began).total_seconds() == pytest.approx(3.5 + (took.steps.list_s or 0.0))
        assert took.words.startswith("in ")
        assert "(MIG mode 2.0 s, instances made 1.5 s, devices listed " in took.words
        steps = node.counts.told()
        assert [(steps[one][0], round(steps[one][1], 6)) for one in ("mode", "make")] == [(1, 2.0), (4, 1.5)]
        assert (steps["remove"], steps["list"][0]) == ((0, 0.0), 1)
        assert (await node.look(["2g.20gb@2", "3g.40gb@4"])).took == took, "nothing was changed again"
        text = json.dumps({node.gpu.uuid: ["2g.20gb@2", "3g.40gb@4"]})
        states = msgspec.json.encode(node.layouts.states).decode()
        node.new_process()
        annotations = {"gpufleet.io/mig-layouts": text, "gpufleet.io/mig-layout-states": states}
        node.layouts.said = Metadata(annotations=annotations)
        await node.layouts.look()
        assert node.layouts.states[node.gpu.uuid].took == took

    on_node(tmp_path, story)


def names(layout: Layout) -> list[str]:
    return [f"{one.profile}@{one.start}" for one in layout]


def test_a_card_is_cut_used_and_whole_again(tmp_path: Path) -> None:
    async def story(node: CutNode) -> None:
        assert node.offered() == [node.gpu.uuid]
        seen: list[list[str]] = []
        node.before_call = lambda _: seen.append(node.offered())
        said = await node.look(["2g.20gb@2", "3g.40gb@4"])
        assert (said.state, said.problem) == (LayoutState.SUCCESS, "")
        assert said.layout == ("2g.20gb@2", "3g.40gb@4")
        assert node.layout == at("2g.20gb@2", "3g.40gb@4")
        assert seen
        assert not any(seen), "something was offered while the card changed"
        assert node.offered() == [one.uuid for one in node.gpu.instances or ()]
        node.take(node.offered()[0])
        (held,) = node.holders
        waiting = await node.look(None)
        assert waiting.state is LayoutState.WAITING
        assert "is in use" in waiting.problem
        assert len(node.offered()) == 1, "what is free stays offered while a change waits"
        node.holders = ()
        assert held.units[0] in node.offered()
        assert (await node.look(None)).state is LayoutState.SUCCESS
        assert node.gpu.instances is None
        assert node.offered() == [node.gpu.uuid]

    on_node(tmp_path, story)


def test_what_is_held_stays_over_many_changes_with_kills_and_pods_that_come(tmp_path: Path) -> None:
    """150 changes drawn by chance; ``check_unheld`` judges each call."""
    chance, every = Random(5), [None, *H100.layouts()]
    ends = dict.fromkeys(LayoutState, 0)

    async def story(node: CutNode) -> None:
        def disturb(_: Call) -> None:
            offered = node.offered()
            if offered and chance.random() < 0.1:
                node.take(chance.choice(offered))
            if chance.random() < 0.1:
                raise KilledError

        node.before_call = disturb
        for _ in range(150):
            node.holders = tuple(one for one in node.holders if chance.random() < 0.5)
            for unit in node.offered():
                if chance.random() < 0.15:
                    node.take(unit)
            held = {unit for one in node.holders for unit in one.units}
            kept = {place(one.start, one.profile) for one in node.gpu.instances or () if one.uuid in held}
            fitting = [one for one in every if kept <= set(one or ())]
            wanted = chance.choice(fitting if chance.random() < 0.8 else every)
            while True:
                try:
                    state = await node.look(None if wanted is None else names(wanted))
                    break
                except KilledError:
                    node.new_process()
            if state.state is LayoutState.SUCCESS:
                assert node.layout == wanted
            assert not node.gpu.bare_instances
            ends[state.state] += 1

    on_node(tmp_path, story)
    assert ends[LayoutState.SUCCESS] > 50
    assert ends[LayoutState.WAITING] > 10


def place(start: int | None, profile: str) -> MigInstance:
    assert start is not None
    return MigInstance(start, profile)


@pytest.mark.parametrize(
    ("annotations", "labels", "problem"),
    [
        ({"gpufleet.io/mig-layouts": "all-balanced"}, {}, "no layouts"),
        ({"gpufleet.io/mig-layouts": '{"GPU-a": ["3g.40gb"]}'}, {}, "no instance"),
        (
            {"gpufleet.io/mig-layouts": '{"GPU-a": null}'},
            {"nvidia.com/gpu.deploy.mig-manager": "true"},
            "MIG Manager",
        ),
    ],
)
def test_nothing_changes_where_the_node_says_what_cannot_be(
    tmp_path: Path, annotations: dict[str, str], labels: dict[str, str], problem: str
) -> None:
    async def story(node: CutNode) -> None:
        node.layouts.said = Metadata(annotations=annotations, labels=labels)
        with pytest.raises(LayoutsRefusedError, match=problem):
            await node.layouts.look()
        assert all(problem in one.problem for one in node.layouts.states.values())

    on_node(tmp_path, story)


def test_a_card_that_goes_to_claims_is_left_alone(tmp_path: Path) -> None:
    async def story(node: CutNode) -> None:
        node.for_claims = True
        state = await node.look(["3g.40gb@0"])
        assert state.state is LayoutState.FAILED
        assert state.problem == "the card goes to claims (--dra-cards)"
        assert node.layout is None

    on_node(tmp_path, story)


def test_a_layout_that_the_board_does_not_have_fails(tmp_path: Path) -> None:
    async def story(node: CutNode) -> None:
        state = await node.look(["3g.40gb@0", "4g.40gb@0"])
        assert state.state is LayoutState.FAILED
        assert "overlap" in state.problem
        assert node.layout is None

    on_node(tmp_path, story)
