"""Compile every kernel now, so that the first decision of a user does not wait for it.

Runs small stories through the engine, one a kind of policy, which calls each kernel with the types
it is used with. Run at set-up and when an image is built: ``python -m gpufleet.engine.compile``.
"""

import shutil
import sys

from gpufleet.engine.arrays.compiled import CACHE_FOLDER
from gpufleet.engine.event import (
    BindRefused,
    GangSet,
    NodeRemoved,
    NodeSet,
    PodAdded,
    PodRemoved,
    QueueSet,
    TargetWorkloadSet,
    TopologySet,
)
from gpufleet.engine.instruction import AnyInstruction
from gpufleet.engine.learn.study import FIRST_VALUATION_ARRIVALS
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
    QueueName,
    TopologyLevelName,
)
from gpufleet.model.node import Node
from gpufleet.model.pod import Pod
from gpufleet.model.queue import CPU, GPU, GPU_MEMORY, Queue, Quota
from gpufleet.model.resources import Resources
from gpufleet.model.shape import GpuRequest, Shape
from gpufleet.model.topology import Topology, TopologyLevel

CACHES_KEPT = 4
"""Kernels of this many states of the sources are kept, for checkouts and images that share the folder."""
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
    """A story in which every kernel is called."""
    engine, said = story_of_pods(policy)
    said += story_of_gangs(engine) + story_of_losses(engine) + story_of_queues(engine)
    return said + story_of_reclaim(policy)


def story_of_pods(policy: Policy) -> tuple[Engine, list[AnyInstruction]]:
    """Single pods that fit and that do not, one that ends, and a valuation: what any run calls."""
    engine = Engine(policy, seed=1)
    target = TargetWorkloadSet(((SHARE, 2), (WHOLE, 1), (CPU_ONLY, 1)))
    said = engine.step(0, [target, *(NodeSet(small_node(name)) for name in ("a", "b"))])
    shapes = (CPU_ONLY, SHARE, WHOLE, SHARE, WHOLE, WHOLE, WHOLE)
    for number, shape in enumerate(shapes):
        said += engine.step(number, [PodAdded(Pod(PodUid(f"alone-{number}"), shape))])
    said += engine.step(10, [PodRemoved(PodUid("alone-1"))])
    if policy.learns:
        said += engine.step(11, [engine.study()])
    for at_us in range(20, 20 + FIRST_VALUATION_ARRIVALS):
        said += engine.step(at_us, [PodAdded(Pod(PodUid(f"late-{at_us}"), SHARE))])
    return engine, said


def story_of_gangs(engine: Engine) -> list[AnyInstruction]:
    """A gang within a rack and one anywhere, on the engine of ``story_of_pods``."""
    names = (GangName("racked"), GangName("free"))
    gangs = [GangSet(Gang(names[0], 2, required_level=RACK)), GangSet(Gang(names[1], 2))]
    said = engine.step(100, [TopologySet(Topology((TopologyLevel(RACK, "rack"),))), *gangs])
    pods = [Pod(PodUid(f"{gang}-{number}"), CPU_ONLY, gang=gang) for gang in names for number in range(2)]
    return said + engine.step(101, [PodAdded(pod) for pod in pods])


def story_of_losses(engine: Engine) -> list[AnyInstruction]:
    """A refused bind, a node that goes and comes back with its pods, and a gang that does not fit."""
    gang = GangName("large")
    pods = [Pod(PodUid(f"large-{number}"), WHOLE, gang=gang) for number in range(9)]
    said = engine.step(200, [BindRefused(PodUid("alone-0"))])
    said += engine.step(201, [NodeRemoved(NodeName("b")), NodeSet(small_node("b"))])
    return said + engine.step(202, [GangSet(Gang(gang, 9)), *(PodAdded(pod) for pod in pods)])


def story_of_queues(engine: Engine) -> list[AnyInstruction]:
    """A queue that is full, and a pod of it that ends."""
    name = QueueName("team")
    quotas = (Quota(CPU, 2000), Quota(GPU_MEMORY, 10_000))
    said = engine.step(300, [QueueSet(Queue(name, quotas=quotas))])
    pods = [Pod(PodUid(f"queued-{number}"), CPU_ONLY, queue=name) for number in range(3)]
    said += engine.step(301, [PodAdded(pod) for pod in pods])
    return said + engine.step(302, [PodRemoved(pods[0].uid)])


def story_of_reclaim(policy: Policy) -> list[AnyInstruction]:
    """Two queues, one of which takes back what the other borrowed: twice, and by a pod that needs more."""
    engine = Engine(policy, seed=1)
    names = (QueueName("borrower"), QueueName("owner"))
    root = QueueName("all")
    owned = zip(names, (0, 4000), strict=True)
    queues = [Queue(name, parent=root, quotas=(Quota(GPU, amount),)) for name, amount in owned]
    queues.append(Queue(root))
    said = engine.step(0, [NodeSet(small_node("a")), *map(QueueSet, queues)])
    one = Shape(Resources(1000, 1), GpuRequest(1, 1000))
    borrowed = [Pod(PodUid(f"borrowed-{number}"), one, queue=names[0]) for number in range(4)]
    said += engine.step(1, [PodAdded(pod) for pod in borrowed])
    owed = [
        Pod(PodUid(f"owed-{number}"), shape, queue=names[1]) for number, shape in enumerate((one, one, WHOLE))
    ]
    said += engine.step(2_000_000, [PodAdded(pod) for pod in owed])
    return said + engine.step(3_000_000, [PodRemoved(pod.uid) for pod in borrowed])


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
