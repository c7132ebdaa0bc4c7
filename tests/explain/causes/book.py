"""The corpus of causes: each is a small cluster, what is asked, and what must be said first.

    @cause("taint", why="nvidia.com/gpu=present:NoSchedule", way="add to its tolerations")
    def a_pool_is_tainted(world: World) -> None: ...

The label stands in the decorator: the cause's name, a part of why, a part of the way out. Who asks asks about
the pod ``p`` unless ``asks`` says otherwise.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from tests.scheduler.world import World

Build = Callable[[World], None]


class Cause(msgspec.Struct, frozen=True):
    """One labelled case. ``scheduler`` False leaves nobody to schedule."""

    name: str
    build: Build
    cause: str
    why: str
    way: str
    asks: str = "p"
    scheduler: bool = True


CAUSES: list[Cause] = []


def cause(
    name: str, *, why: str, way: str, asks: str = "p", scheduler: bool = True
) -> Callable[[Build], Build]:
    """Label a case."""

    def keep(build: Build) -> Build:
        CAUSES.append(Cause(build.__name__, build, name, why, way, asks, scheduler))
        return build

    return keep


def taken(world: World, node: str, gpus: int, name: str = "", **more: Any) -> None:
    """A pod of ours that has its node already."""
    world.pod(name or f"{node}-user", gpus=gpus, nodeName=node, **more)


def report(world: World, name: str, devices: list[dict[str, object]]) -> None:
    """A node's report of its devices, as written here."""
    world.add(
        {
            "apiVersion": "gpufleet.io/v1alpha1",
            "kind": "NodeDevices",
            "metadata": {"name": name},
            "spec": {"devices": devices},
        }
    )
