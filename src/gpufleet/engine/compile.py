"""Compile every kernel now, so that the first decision of a user does not wait for it.

Runs small stories through the engine, one a kind of policy, which calls each kernel with the types
it is used with. Run at set-up and when an image is built: ``python -m gpufleet.engine.compile``.
"""

import shutil
import sys

from gpufleet.engine.compiled import CACHE_FOLDER
from gpufleet.engine.event import (
    BindRefused,
    GangSet,
    NodeRemoved,
    NodeSet,
    PodAdded,
    PodRemoved,
    TargetWorkloadSet,
    TopologySet,
)
from gpufleet.engine.instruction import AnyInstruction, Bind
from gpufleet.engine.learning.study import FIRST_LESSON_ARRIVALS
from gpufleet.engine.policy import POLICIES, Policy
from gpufleet.engine.scheduler import Engine
from gpufleet.model.device import Device
from gpufleet.model.gang import Gang
from gpufleet.model.identifiers import (
    DeviceId,
    GangName,
    GpuModelName,
    NodeName,
    PodUid,
    TopologyLevelName,
)
from gpufleet.model.node import Node
from gpufleet.model.pod import Pod
from gpufleet.model.resources import Resources
from gpufleet.model.shape import GpuRequest, Shape
from gpufleet.model.topology import Topology, TopologyLevel

CACHES_KEPT = 4
RACK = TopologyLevelName("rack")
WHOLE = Shape(Resources(1000, 1), GpuRequest(2, 1000))
SHARE = Shape(Resources(1000, 1), GpuRequest(1, 300))
CPU_ONLY = Shape(Resources(1000, 1))


def small_node(name: str) -> Node:
    """A node with four GPUs in one rack."""
    devices = tuple(
        Device(DeviceId(f"{name}/{index}"), GpuModelName("small"), 1024, link_group=index // 2)
        for index in range(4)
    )
    return Node(NodeName(name), Resources(16_000, 1 << 30, 100), devices, {"rack": "a"})


def story(policy: Policy) -> list[AnyInstruction]:
    """A story in which every kernel is called: pods and gangs that fit and that do not."""
    engine = Engine(policy, seed=1)
    said = engine.step(
        0,
        [
            TopologySet(Topology((TopologyLevel(RACK, "rack"),))),
            TargetWorkloadSet(((SHARE, 2), (WHOLE, 1), (CPU_ONLY, 1))),
            *(NodeSet(small_node(name)) for name in ("a", "b")),
            GangSet(Gang(GangName("racked"), 2, required_level=RACK)),
            GangSet(Gang(GangName("free"), 2)),
        ],
    )
    shapes = (CPU_ONLY, SHARE, WHOLE, SHARE, WHOLE, WHOLE, WHOLE)
    pods = [Pod(PodUid(f"alone-{n}"), shape) for n, shape in enumerate(shapes)]
    for gang in (GangName("racked"), GangName("free")):
        pods += [Pod(PodUid(f"{gang}-{n}"), SHARE, gang=gang) for n in range(2)]
    for at_us, pod in enumerate(pods, start=1):
        said += engine.step(at_us, [PodAdded(pod)])
    bound = next(one.uid for one in said if isinstance(one, Bind))
    said += engine.step(100, [BindRefused(bound), PodRemoved(PodUid("alone-1"))])
    said += engine.step(200, [NodeRemoved(NodeName("b")), NodeSet(small_node("b"))])
    if policy.learns:
        said += engine.step(300, [engine.study()])
    for at_us in range(400, 400 + FIRST_LESSON_ARRIVALS):
        said += engine.step(at_us, [PodAdded(Pod(PodUid(f"late-{at_us}"), SHARE))])
    return said


def sweep_old_caches() -> None:
    """Keep the kernels of a few states of the sources: several checkouts may share the folder."""
    folders = [folder for folder in CACHE_FOLDER.parent.glob("*") if folder.is_dir()]
    folders.sort(key=lambda folder: folder.stat().st_mtime, reverse=True)
    for folder in folders[CACHES_KEPT:]:
        if folder != CACHE_FOLDER:
            shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    """Compile for every policy that ships, with a word about each."""
    sys.stderr.write(f"compiling the engine's kernels into {CACHE_FOLDER}\n")
    for name in sorted(POLICIES):
        story(POLICIES[name])
    sweep_old_caches()


if __name__ == "__main__":
    main()
