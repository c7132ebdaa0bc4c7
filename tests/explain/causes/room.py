"""Causes of room: GPUs in use or in pieces, memory of GPUs, CPU, memory, pods, other resources."""

from tests.explain.causes.book import cause, report, taken
from tests.scheduler.world import World

SLOT = {"gpufleet.io/gpu-share": "1"}
LINKED = {"gpufleet.io/gpus-within": "link-group"}


def linked(world: World, name: str, groups: list[int]) -> None:
    """A node whose GPUs are in these groups of fast links, each on a NUMA node of its own."""
    world.node(name, gpus=len(groups), devices=False)
    card = {"vendor": "nvidia", "model": "NVIDIA-H100-80GB-HBM3", "sharing": "whole", "health": "healthy"}
    devices = [
        {**card, "id": f"GPU-{index}", "linkGroup": group, "numaNode": index}
        for index, group in enumerate(groups)
    ]
    report(world, name, devices)


@cause("gpu-apart", why="4 GPUs on one fast link, and no node that would do has more than 2", way="at most 2")
def a_link_for_more_gpus_than_any_has(world: World) -> None:
    linked(world, "a", [0, 0, 1, 1])
    world.pod("p", gpus=4, annotations=LINKED)


@cause("gpu-apart", why="on one NUMA node", way="leave gpufleet.io/gpus-within out")
def a_numa_node_with_fewer_gpus(world: World) -> None:
    linked(world, "a", [0, 0])
    world.pod("p", gpus=2, annotations={"volcano.sh/numa-topology-policy": "single-numa-node"})


@cause(
    "gpu-fragmented", why="2 GPUs of a are free, but at most 1 on one fast link", way="on a when default/user"
)
def gpus_that_are_free_but_apart(world: World) -> None:
    linked(world, "a", [0, 1, 0])
    world.pod("user", gpus=1, priority=9)
    world.pod("p", gpus=2, annotations=LINKED)


@cause("gpu-busy", why="of the 4 GPUs of the 1 node that would do 1 is free", way="a-user")
def all_gpus_are_in_use(world: World) -> None:
    world.node("a", gpus=4)
    taken(world, "a", 3)
    world.pod("p", gpus=2)


@cause("gpu-busy", why="0 are free", way="of another scheduler, ends")
def pods_of_another_scheduler_hold_the_gpus(world: World) -> None:
    world.node("a", gpus=2)
    taken(world, "a", 2, "theirs", schedulerName="default-scheduler")
    world.pod("p", gpus=1)


@cause(
    "gpu-busy",
    why="6 GPUs are free on the 3 nodes that would do, but at most 2 on one",
    way="on a when default/a-user (2 GPUs) ends",
)
def enough_gpus_in_sum_but_not_on_one_node(world: World) -> None:
    for name in ("a", "b", "c"):
        world.node(name, gpus=4)
        taken(world, name, 2)
    world.pod("p", gpus=4)


@cause("gpu-fragmented", why="in pieces", way="ask for at most 0.4 of a GPU")
def enough_of_a_gpu_in_sum_but_in_pieces(world: World) -> None:
    world.node("a", gpus=2, shares=True)
    for number in range(2):
        world.pod(f"share-{number}", gpus=0, annotations={"gpufleet.io/gpu-fraction": "0.6"}, resources=SLOT)
    world.pod("p", gpus=0, annotations={"gpufleet.io/gpu-fraction": "0.5"}, resources=SLOT, priority=-1)


@cause("gpu-memory", why="the largest have 80000 MiB", way="ask for at most 80000 MiB")
def more_memory_than_any_gpu_has(world: World) -> None:
    world.node("a", gpus=2, shares=True)
    world.pod("p", gpus=0, annotations={"gpufleet.io/gpu-memory": "90000"}, resources=SLOT)


@cause("gpu-memory", why="the most that one has left is 20000 MiB", way="ask for at most 20000 MiB")
def a_shares_memory_is_in_use(world: World) -> None:
    world.node("a", gpus=1, shares=True)
    world.pod("user", gpus=0, annotations={"gpufleet.io/gpu-memory": "60000"}, resources=SLOT, priority=9)
    world.pod("p", gpus=0, annotations={"gpufleet.io/gpu-memory": "30000"}, resources=SLOT)


@cause("cpu", why="gpu-node has the most left, 4 cores", way="ask for at most 4 cores")
def cpu_is_short_on_the_nodes_with_gpus(world: World) -> None:
    world.node("gpu-node", gpus=8)
    world.node("cpu-node", gpus=0, devices=False)
    taken(world, "gpu-node", 1, "greedy", resources={"cpu": "60"})
    world.pod("p", gpus=1, resources={"cpu": "16"})


@cause("cpu", why="64 cores of CPU when it is empty", way="ask for at most 64 cores")
def more_cpu_than_any_node_has(world: World) -> None:
    world.node("a")
    world.pod("p", gpus=1, resources={"cpu": "200"})


@cause("memory", why="a has the most left, 12 GiB", way="ask for at most 12 GiB of memory")
def memory_is_short(world: World) -> None:
    world.node("a")
    taken(world, "a", 1, resources={"memory": "500Gi"})
    world.pod("p", gpus=1, resources={"memory": "64Gi"})


def offering(world: World, name: str, **amounts: str) -> None:
    """A node with these amounts beside those of every node."""
    allocatable = {"cpu": "64", "memory": "512Gi", "pods": "110"} | amounts
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
    world.add({**node, "status": {"allocatable": allocatable}})


@cause("storage", why="a has the most left, 30 GiB of local storage", way="default/a-user ends")
def local_storage_is_short(world: World) -> None:
    offering(world, "a", **{"ephemeral-storage": "100Gi"})
    taken(world, "a", 0, resources={"ephemeral-storage": "70Gi"})
    world.pod("p", gpus=0, resources={"ephemeral-storage": "50Gi"})


@cause("pods", why="run as many pods as they may (at most 1)", way="maxPods")
def a_node_runs_as_many_pods_as_it_may(world: World) -> None:
    offering(world, "a", pods="1")
    taken(world, "a", 0)
    world.pod("p", gpus=0)


@cause(
    "other-resource",
    why="it needs 1 of example.com/nic, and a has the most left, 0",
    way="a when default/a-user ends",
)
def the_network_cards_are_in_use(world: World) -> None:
    offering(world, "a", **{"example.com/nic": "2"})
    taken(world, "a", 0, resources={"example.com/nic": "2"})
    world.pod("p", gpus=0, resources={"example.com/nic": "1"})


@cause("unknown-resource", why="no node offers nvidia.com/mig-1g.10gb", way="MIG instances")
def a_mig_profile_that_no_node_offers(world: World) -> None:
    world.node("a")
    world.pod("p", gpus=0, resources={"nvidia.com/mig-1g.10gb": "1"})


@cause("unknown-resource", why="no node offers nvidia.com/gpus", way="did you mean nvidia.com/gpu?")
def a_misspelt_resource(world: World) -> None:
    world.node("a")
    world.pod("p", gpus=0, resources={"nvidia.com/gpus": "1"})


@cause(
    "gpu-busy",
    why="goes to 1 pod that comes first: default/urgent",
    way="PriorityClass",
    scheduler=False,
)
def a_pod_of_higher_priority_comes_first(world: World) -> None:
    world.node("a", gpus=1)
    world.pod("urgent", gpus=1, priority=1000)
    world.pod("p", gpus=1)


@cause(
    "no-leader",
    why="there is room for it, on a, but no gpufleet scheduler has ever led",
    way="gpufleet scheduler",
    scheduler=False,
)
def no_scheduler_runs(world: World) -> None:
    world.node("a", gpus=1)
    world.pod("p", gpus=1)


@cause("gpu-sick", why="GPU-a-0 on a ('Xid 79')", way="see to the GPU of a")
def devices_are_not_healthy(world: World) -> None:
    world.node("a", gpus=1, devices=False)
    sick = {"id": "GPU-a-0", "model": "H100-80GB", "memoryMiB": 80000, "health": "unhealthy"}
    report(world, "a", [{**sick, "healthReason": "Xid 79"}])
    world.pod("p", gpus=1)


@cause("unknown-resource", why="no node offers nvidia.com/gpu.shared", way="renameByDefault: true")
def shares_in_time_where_no_node_shares_its_gpus(world: World) -> None:
    world.node("a")
    world.pod("p", gpus=0, resources={"nvidia.com/gpu.shared": "1"})


@cause("unknown-resource", why="no node offers hugepages-2Mi", way="reserve huge pages of 2Mi")
def huge_pages_that_no_node_reserves(world: World) -> None:
    world.node("a")
    world.pod("p", gpus=1, resources={"hugepages-2Mi": "64Mi"})
