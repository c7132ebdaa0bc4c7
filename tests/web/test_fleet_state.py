"""What has changed since it was asked last: only what was heard of is looked at again, and nothing is
missed.
"""

import random
from types import SimpleNamespace
from typing import Any, cast

import msgspec

from gpufleet.kube.objects.pod import Pod
from gpufleet.kube.resources import NODE_DEVICES, NODES, PODS
from gpufleet.overview.readings.readings import Readings
from gpufleet.overview.rows.known import Key, Known
from gpufleet.web.fleet_state import EarlyChanges, FleetState
from gpufleet.web.rights import ALL
from gpufleet.web.view_rows import ViewRows
from tests.overview.known_values import NOW, node, pod, report

NODE_NAMES = ("a", "b", "c")


class World:
    """A fleet whose objects a test changes, and what is followed of it."""

    def __init__(self) -> None:
        self.pods: dict[Key, Pod] = {}
        self.nodes: dict[Key, Any] = {}
        self.devices: dict[Key, Any] = {}
        self.heard = EarlyChanges()
        readings = SimpleNamespace(
            settings=SimpleNamespace(scheduler_name="gpufleet"),
            nodes=SimpleNamespace(objects=self.nodes),
            devices=SimpleNamespace(objects=self.devices),
            all_pods=lambda: self.pods,
            known=self.known,
        )
        self.state = FleetState(cast("Readings", readings), self.heard)

    def known(self) -> Known:
        """Everything as it stands now."""
        return Known(NOW, "gpufleet", pods=self.pods, nodes=self.nodes, devices=self.devices)

    def set_node(self, name: str, *, unwell: int = 0) -> None:
        """A node with its report."""
        self.nodes["", name] = node(name)
        self.devices["", name] = report(name, unwell=unwell)
        self.heard.hear(NODES, ("", name))
        self.heard.hear(NODE_DEVICES, ("", name))

    def set_pod(self, name: str, on: str = "", gpus: int = 1) -> None:
        """A pod."""
        self.pods["team", name] = pod(name, on=on, gpus=gpus, uid=f"uid-{name}")
        self.heard.hear(PODS, ("team", name))

    def remove_pod(self, name: str) -> None:
        """A pod is gone."""
        self.pods.pop(("team", name), None)
        self.heard.hear(PODS, ("team", name))


def test_a_pod_that_is_placed_concerns_itself_and_its_node() -> None:
    world = World()
    world.set_node("a")
    world.set_pod("waits")
    world.state.take()
    world.set_pod("waits", on="a")
    assert world.state.take() == (frozenset({"a"}), frozenset({("team", "waits")}))
    world.remove_pod("waits")
    assert world.state.take() == (frozenset({"a"}), frozenset({("team", "waits")}))
    assert world.state.facts == {}
    assert world.state.placed("a") == []


def test_pods_without_gpus_concern_nothing() -> None:
    world = World()
    world.set_pod("web", on="a", gpus=0)
    assert world.state.take() == (frozenset(), frozenset())


def test_rows_that_follow_are_those_that_are_made_anew() -> None:
    chance = random.Random(3)
    world = World()
    for name in NODE_NAMES:
        world.set_node(name)
    followed = ViewRows(world.state, ALL)
    for _ in range(300):
        name = f"p{chance.randrange(8)}"
        match chance.randrange(4):
            case 0:
                world.set_pod(name)
            case 1:
                world.set_pod(name, on=chance.choice(NODE_NAMES), gpus=chance.randrange(3))
            case 2:
                world.remove_pod(name)
            case _:
                world.set_node(chance.choice(NODE_NAMES), unwell=chance.randrange(2))
        if chance.random() < 0.4:
            followed.update(world.state.take(), has_report=False)
            fresh = ViewRows(world.state, ALL)
            for view, rows in followed.views.items():
                assert sorted(rows.whole()) == sorted(fresh.views[view].whole()), view


def test_a_row_keeps_its_version_while_it_says_the_same() -> None:
    world = World()
    world.set_node("a")
    rows = ViewRows(world.state, ALL)
    rows.update(world.state.take(), has_report=False)
    version = rows.version
    # As a kubelet's heartbeat: another version of the node that says the same.
    world.nodes["", "a"] = msgspec.structs.replace(world.nodes["", "a"])
    world.heard.hear(NODES, ("", "a"))
    rows.update(world.state.take(), has_report=False)
    assert rows.version == version
