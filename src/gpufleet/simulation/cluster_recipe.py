"""A small cluster from a seed: nodes with GPUs, and what its users ask for.

Single pods, shares, gangs, pods with volumes, some of them too large; and nodes that are drained.
"""

from random import Random
from typing import Any

import msgspec

from gpufleet.simulation import volume_actors
from gpufleet.simulation.actors import RUNS_FOR, Actors, SimulatedWorkload
from gpufleet.simulation.api_server import ApiServer
from gpufleet.simulation.pod_facts import FRACTION, GANG, GANG_MIN, GPU
from gpufleet.simulation.refusal import JsonObject

NAMESPACE = "team-a"
USER = "system:users:someone"
SHARE_SLOT = "gpufleet.io/gpu-share"
MODELS = ("NVIDIA-A100-SXM4-80GB", "NVIDIA-H100-80GB-HBM3")
MEMORY_MIB = 81_920
"""What a GPU of either model has."""


class Drain(msgspec.Struct, frozen=True):
    """An administrator takes a node out of service, evicts what runs there, and puts it back."""

    node: str


Arrival = JsonObject | SimulatedWorkload | Drain
"""What a user asks for: a pod or claim, pods under a controller, a node drained."""


class Recipe(msgspec.Struct, frozen=True):
    """How much of what. The defaults fill about three quarters of the cluster."""

    nodes: int = 4
    gpus_per_node: int = 4
    single_pods: int = 8
    workloads: int = 3
    gangs: int = 2
    too_large_pods: int = 1
    claims: int = 0
    drains: int = 0
    teams: int = 0
    important_pods: int = 0
    arrive_within_s: float = 20.0
    scheduler_name: str = "gpufleet"


def build(server: ApiServer, recipe: Recipe, random: Random) -> None:
    """Namespaces and nodes, as they are before a scheduler starts."""
    for name in (NAMESPACE, "gpufleet-system"):
        server.add({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    for number in range(recipe.nodes):
        add_node(server, f"node-{number}", recipe.gpus_per_node, random.choice(MODELS))
    if recipe.claims:
        server.add(volume_actors.storage_class())


def add_node(server: ApiServer, name: str, gpus: int, model: str) -> None:
    """A ready node with its report: the first half of its GPUs serve whole, the rest shares too."""
    amounts = {"cpu": "64", "memory": "512Gi", "pods": "110", GPU: str(gpus), SHARE_SLOT: str(10 * gpus)}
    labels = {"kubernetes.io/hostname": name, "nvidia.com/gpu.product": model}
    server.add(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "status": {
                "capacity": amounts,
                "allocatable": amounts,
                "conditions": [
                    {"type": "Ready", "status": "True"},
                    {"type": "gpufleet.io/GPUHealthy", "status": "True", "reason": "AllHealthy"},
                ],
            },
        }
    )
    devices = [
        {
            "id": f"GPU-{name}-{index}",
            "vendor": "nvidia",
            "model": model,
            "memoryMiB": MEMORY_MIB,
            "usableMemoryMiB": MEMORY_MIB,
            "sharing": "mixed",
            "health": "healthy",
        }
        for index in range(gpus)
    ]
    server.add(
        {
            "apiVersion": "gpufleet.io/v1alpha1",
            "kind": "NodeDevices",
            "metadata": {"name": name},
            "spec": {"bootID": f"boot-{name}", "devices": devices, "holders": []},
        }
    )


def pod(name: str, gpus: float, recipe: Recipe, **annotations: str) -> JsonObject:
    """A pod that asks for whole GPUs, or for a share where ``gpus`` is below one."""
    limits: dict[str, Any] = {"cpu": "2", "memory": "8Gi"}
    notes = {key.replace("__", "/"): value for key, value in annotations.items()}
    if 0 < gpus < 1:
        notes[FRACTION] = str(gpus)
        limits[SHARE_SLOT] = "1"
    elif gpus:
        limits[GPU] = str(int(gpus))
    container = {"name": "main", "image": "none", "resources": {"limits": limits}}
    metadata: JsonObject = {"name": name, "namespace": NAMESPACE, "annotations": notes}
    spec = {"schedulerName": recipe.scheduler_name, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def gang_template(name: str, members: int, gpus: int, recipe: Recipe) -> JsonObject:
    """The pods of a gang that needs all its members."""
    template = pod(name, gpus, recipe)
    template["metadata"]["annotations"] |= {GANG: name, GANG_MIN: str(members)}
    return template


def arrivals(recipe: Recipe, random: Random) -> list[tuple[float, Arrival]]:
    """What users ask for, and when: bare pods, workloads under a controller, gangs, claims, drains."""
    found: list[tuple[float, Arrival]] = []

    def at_s() -> float:
        return random.uniform(0.0, recipe.arrive_within_s)

    for number in range(recipe.single_pods):
        one = pod(f"single-{number}", random.choice((0.0, 0.25, 0.5, 1.0)), recipe)
        if random.random() < 0.5:
            # Some end by themselves, so that room comes free within a run.
            one["metadata"]["annotations"][RUNS_FOR] = str(random.randint(5, 40))
        found.append((at_s(), one))
    for number in range(recipe.workloads):
        template = pod(f"set-{number}", random.choice((0.5, 1.0)), recipe)
        found.append((at_s(), SimulatedWorkload(f"set-{number}", template, random.randint(1, 2))))
    for number in range(recipe.gangs):
        members = random.randint(2, 3)
        template = gang_template(f"gang-{number}", members, random.randint(1, 2), recipe)
        found.append((at_s(), SimulatedWorkload(f"gang-{number}", template, members)))
    found.extend(
        (at_s(), pod(f"huge-{number}", recipe.gpus_per_node + 1, recipe))
        for number in range(recipe.too_large_pods)
    )
    for number in range(recipe.claims):
        one = pod(f"stateful-{number}", random.choice((0.0, 1.0)), recipe)
        one["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": f"data-{number}"}}]
        found.extend([(at_s(), volume_actors.claim(f"data-{number}", NAMESPACE)), (at_s(), one)])
    found.extend((at_s(), Drain(f"node-{random.randrange(recipe.nodes)}")) for _ in range(recipe.drains))
    return found


def ask_for(actors: Actors, arrival: Arrival) -> None:
    """Create an object, hand a workload to its controller, or have a node drained."""
    match arrival:
        case SimulatedWorkload():
            actors.add_workload(arrival)
        case Drain(node):
            actors.drain(node)
        case _:
            actors.server.add(arrival, USER)
