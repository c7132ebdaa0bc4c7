"""Cards are cut for pods that wait, used, and made whole: a scheduler, a server, and an agent that cuts."""

import asyncio
import datetime as dt
import json
from collections import Counter
from typing import Any

import msgspec

from gpufleet.kube.transport import Request
from gpufleet.mig.demand import DemandRules
from gpufleet.mig.wanted import DEMAND_ANNOTATION, LAYOUTS_ANNOTATION, STATES_ANNOTATION
from tests.scheduler.test_automatic_moves import explained
from tests.scheduler.world import World, in_world

NODE = "/api/v1/nodes/n"
REPORT = "/apis/gpufleet.io/v1alpha1/nodedevices/n"
PROFILE = {"nvidia.com/mig-2g.20gb": "1"}
RULES = DemandRules(idle=dt.timedelta(minutes=1))
CARDS = ["GPU-n-0", "GPU-n-1"]
Written = dict[str, Any]


def read(world: World, path: str) -> Written:
    found: Written = msgspec.json.decode(world.server.answer(Request("GET", path), "system:masters").body)
    return found


def annotation(world: World, key: str) -> Written:
    """What the Node says under a key."""
    found: Written = json.loads(read(world, NODE)["metadata"].get("annotations", {}).get(key, "{}"))
    return found


class CuttingAgent:
    """The agent of the node: cuts a card in three seconds, and offers what it has. It knows no planner."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.layouts: dict[str, list[str] | None] = dict.fromkeys(CARDS)
        self.states: Written = {}
        self.broken = False
        self.work = asyncio.create_task(self._run())
        world.others.append(self.work)

    async def _run(self) -> None:
        self._write()
        while True:
            await asyncio.sleep(1)
            for card, layout in annotation(self.world, LAYOUTS_ANNOTATION).items():
                if self.layouts[card] != layout:
                    await self._cut(card, layout)

    async def _cut(self, card: str, layout: list[str] | None) -> None:
        gone = set(self.layouts[card] or [card]) - set(layout or [card])
        assert not gone & self._held(card), "something in use is cut"
        self.states[card] = {"state": "failed" if self.broken else "pending", "layout": layout}
        self._write()
        if self.broken:
            return
        await asyncio.sleep(3)
        self.layouts[card] = layout
        self.states[card] = {"state": "success", "layout": layout}
        self._write()

    def _held(self, card: str) -> set[str]:
        """What the pods of the node were granted of a card, or all of it where they say no place."""
        pods = [one for one in self.world.objects("/api/v1/pods") if one["spec"].get("nodeName")]
        asked = [one["spec"]["containers"][0]["resources"]["limits"] for one in pods]
        profiles = {name.partition("mig-")[2] for limits in asked for name in limits if "mig-" in name}
        held = {place for place in self.layouts[card] or () if place.partition("@")[0] in profiles}
        granted = {device for one in pods for device in self._granted(one)}
        return held | ({card} & granted)

    def _granted(self, pod: Written) -> list[str]:
        grant = json.loads(pod["metadata"].get("annotations", {}).get("gpufleet.io/grant", "{}"))
        return [one["id"] for devices in grant.get("containers", {}).values() for one in devices]

    def _write(self) -> None:
        """The report, the kubelet's counts, and the states."""
        counts = Counter(place.partition("@")[0] for one in self.layouts.values() for place in one or ())
        whole = sum(one is None for one in self.layouts.values())
        parts = {f"nvidia.com/mig-{one}": str(counts[one]) for one in ("2g.20gb", "7g.80gb")}
        allocatable = {"nvidia.com/gpu": str(whole), **parts}
        devices = read(self.world, REPORT)["spec"]["devices"]
        for one in devices:
            layout = self.layouts[one["id"]]
            pairs = [place.split("@") for place in layout or ()]
            one["sharing"] = "whole" if layout is None else "mig"
            one["migInstances"] = [{"profile": profile, "start": int(start)} for profile, start in pairs]
        states = {STATES_ANNOTATION: json.dumps(self.states)}
        for path, body in (
            (REPORT, {"spec": {"devices": devices}}),
            (f"{NODE}/status", {"status": {"allocatable": allocatable}}),
            (NODE, {"metadata": {"annotations": states}}),
        ):
            code = self.world.request("PATCH", path, body)
            assert code == 200, (path, code)


def test_a_card_is_cut_for_a_pod_and_whole_again_for_another() -> None:
    async def story(world: World) -> None:
        world.node("n", gpus=2)
        agent = CuttingAgent(world)
        await world.settle(5)
        world.pod("small", gpus=0, resources=PROFILE)
        await world.settle(25)
        assert annotation(world, LAYOUTS_ANNOTATION) == {}, "others may give an instance back"
        await world.settle(7)
        assert "of node n is being cut for it into 2g.20gb@" in await explained(world, "small")
        await world.settle(18)
        assert world.node_of("small") == "n"
        (cut,) = annotation(world, LAYOUTS_ANNOTATION)
        assert annotation(world, DEMAND_ANNOTATION)[cut]["pods"] == ["default/small"]
        # The other card stayed whole, and takes whole work.
        world.pod("whole", gpus=1)
        await world.settle(5)
        assert world.devices_of("whole") == [card for card in CARDS if card != cut]
        world.pod("both", gpus=2)
        await world.settle(400)
        assert agent.layouts[cut] is not None, "the instance is in use"
        world.delete("small")
        await world.settle(45)
        assert agent.layouts[cut] is not None, "it may be wanted again"
        world.delete("whole")
        await world.settle(60)
        assert agent.layouts == dict.fromkeys(CARDS)
        assert world.node_of("both") == "n"

    in_world(story, mig_demand=RULES)


def test_what_is_cut_for_a_pod_is_kept_for_it_while_its_next_card_is_cut() -> None:
    """The pod wants an instance on each of two cards, which are cut one after the other; others want one."""

    async def story(world: World) -> None:
        world.node("n", gpus=2)
        agent = CuttingAgent(world)
        world.pod("wide", gpus=0, resources={"nvidia.com/mig-7g.80gb": "2"})
        await world.settle(35)
        assert annotation(world, LAYOUTS_ANNOTATION).keys() == set(CARDS)
        one = {"nvidia.com/mig-7g.80gb": "1"}
        world.pod("small", gpus=0, resources=one)
        world.pod("urgent", gpus=0, resources=one, priority=5)
        while sum(layout is not None for layout in agent.layouts.values()) < 1:
            await world.settle(0.5)
        await world.settle(2)
        assert [world.node_of(name) for name in ("wide", "small", "urgent")] == ["", "", ""]
        await world.settle(10)
        assert [world.node_of(name) for name in ("wide", "small", "urgent")] == ["n", "", ""]
        world.delete("wide")
        await world.settle(5)
        assert world.node_of("urgent") == world.node_of("small") == "n", "what is not wanted any more is free"

    in_world(story, mig_demand=RULES)


def test_cards_are_cut_for_a_gang_all_or_none_and_it_starts_as_a_whole() -> None:
    async def story(world: World) -> None:
        world.node("n", gpus=2)
        CuttingAgent(world)
        words = {"gpufleet.io/gang": "g", "gpufleet.io/gang-min-members": "3"}
        one = {"nvidia.com/mig-7g.80gb": "1"}
        for number in range(3):
            world.pod(f"g-{number}", gpus=0, resources=one, annotations=words)
        await world.settle(60)
        assert annotation(world, LAYOUTS_ANNOTATION) == {}, "two cards would not start it"
        for number in range(3):
            world.delete(f"g-{number}")
        words["gpufleet.io/gang-min-members"] = "2"
        for number in range(2):
            world.pod(f"g-{number}", gpus=0, resources=one, annotations=words)
        await world.settle(34)
        world.pod("small", gpus=0, resources=one)
        await world.settle(20)
        assert [world.node_of(name) for name in ("g-0", "g-1", "small")] == ["n", "n", ""]

    in_world(story, mig_demand=RULES)


def test_no_card_is_cut_unasked() -> None:
    async def story(world: World) -> None:
        world.node("n", gpus=2)
        CuttingAgent(world)
        world.pod("small", gpus=0, resources=PROFILE)
        await world.settle(120)
        assert annotation(world, LAYOUTS_ANNOTATION) == {}

    in_world(story)


def test_a_scheduler_that_starts_anew_cuts_nothing_twice() -> None:
    """Its first write does not arrive, and it ends after the second."""

    async def story(world: World) -> None:
        world.node("n", gpus=2)
        agent = CuttingAgent(world)
        world.pod("small", gpus=0, resources=PROFILE)
        await world.settle(5)
        world.loses("PATCH", f"{NODE}/status", times=1)
        await world.settle(36)
        assert annotation(world, LAYOUTS_ANNOTATION), "the card is being cut"
        await world.stop()
        world.start()
        await world.settle(60)
        assert world.node_of("small") == "n"
        assert sum(one is not None for one in agent.layouts.values()) == 1

    in_world(story, mig_demand=RULES)


def test_where_a_card_cannot_be_cut_another_is_and_whole_work_gets_the_first() -> None:
    async def story(world: World) -> None:
        world.node("n", gpus=2)
        agent = CuttingAgent(world)
        await world.settle(2)
        agent.broken = True
        world.pod("small", gpus=0, resources=PROFILE)
        await world.settle(60)
        assert len(annotation(world, LAYOUTS_ANNOTATION)) == 2
        world.pod("both", gpus=2)
        await world.settle(10)
        assert world.node_of("both") == "n", "a cut that failed keeps no card"

    in_world(story, mig_demand=RULES)
