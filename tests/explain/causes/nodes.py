"""Causes of nodes that do not suit: models, counts, labels, taints, cordons."""

from typing import Any

from gpufleet.simulation.admission_policies import SCHEDULER_USER
from tests.explain.causes.book import cause, report, taken
from tests.scheduler.world import Object, World

SLOT = {"gpufleet.io/gpu-share": "1"}


@cause("gpu-model", why="no node has a GPU of the model", way="H100-80GB (8)")
def a_model_that_the_cluster_has_not(world: World) -> None:
    world.node("a")
    world.pod("p", annotations={"nvidia.com/use-gputype": "B200"})


@cause("gpu-model", why="no node has a GPU of the model H10-80GB", way="did you mean H100-80GB?")
def a_misspelt_model(world: World) -> None:
    world.node("a")
    world.pod("p", annotations={"nvidia.com/use-gputype": "H10-80GB"})


@cause("no-gpu", why="no node of the cluster has a GPU", way="device plugin")
def a_cluster_without_gpus(world: World) -> None:
    world.node("a", gpus=0, devices=False)
    world.pod("p")


@cause("gpu-count", why="it asks for 16 GPUs on one node, and the largest have 8", way="at most 8 in one pod")
def more_gpus_than_any_node_has(world: World) -> None:
    world.node("a")
    for number in range(5):
        world.node(f"cpu-{number}", gpus=0, devices=False)
    world.pod("p", gpus=16)


@cause("gpu-count", why="besides, 1 node would do, but for a taint", way="at most 8")
def too_many_gpus_behind_a_taint(world: World) -> None:
    world.node("a", taints=[{"key": "gpu", "value": "true", "effect": "NoSchedule"}])
    world.node("cpu", gpus=0, devices=False)
    world.pod("p", gpus=16)


@cause(
    "taint",
    why="nvidia.com/gpu=present:NoSchedule",
    way='{key: nvidia.com/gpu, operator: Equal, value: "present", effect: NoSchedule}',
)
def a_pool_is_tainted(world: World) -> None:
    for number in range(3):
        world.node(f"cpu-{number}", gpus=0, devices=False)
    world.node("a", taints=[{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}])
    world.pod("p")


@cause(
    "taint",
    why="1 node would do, but for a taint that it does not tolerate: gpu=true:NoSchedule",
    way='add to its tolerations: {key: gpu, operator: Equal, value: "true", effect: NoSchedule}',
)
def the_node_that_the_selector_chose_is_tainted_and_full(world: World) -> None:
    taints = [{"key": "gpu", "value": "true", "effect": "NoSchedule"}]
    world.node("a", gpus=1, taints=taints, labels={"pool": "a"})
    world.node("b", labels={"pool": "b"})
    world.pod("holder", nodeName="a")
    world.pod("p", nodeSelector={"pool": "a"})


@cause(
    "selector",
    why="on a (pool In [a]), a node with fewer GPUs than asked for, where it does not tolerate gpu=true",
    way='add to its tolerations: {key: gpu, operator: Equal, value: "true", effect: NoSchedule}',
)
def the_node_that_the_selector_chose_is_tainted_and_too_small(world: World) -> None:
    taints = [{"key": "gpu", "value": "true", "effect": "NoSchedule"}]
    world.node("a", gpus=1, taints=taints, labels={"pool": "a"})
    world.node("b", labels={"pool": "b"})
    world.pod("p", gpus=2, nodeSelector={"pool": "a"})


@cause("rejects-pods", why="the kubelet of a turned several pods away", way="the pods that it turned away")
def a_node_is_left_alone(world: World) -> None:
    world.node("a")
    words = "its kubelet turned pods away; x until 2099-01-01T00:00:00Z; the next pause lasts 120 s"
    left_alone = {"type": "gpufleet.io/PodsRejected", "status": "True", "reason": "x", "message": words}
    path = "/api/v1/nodes/a/status"
    assert world.request("PATCH", path, {"status": {"conditions": [left_alone]}}) == 200
    world.pod("p")


@cause("node-not-ready", why="a would do, but is not ready", way="kubectl describe node a")
def a_node_is_not_ready(world: World) -> None:
    world.node("a", taints=[{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}])
    world.pod("p")


@cause("cordoned", why="a would do, but is cordoned", way="kubectl uncordon a")
def a_node_is_cordoned(world: World) -> None:
    taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    world.node("a", unschedulable=True, taints=[taint])
    world.node("cpu", gpus=0, devices=False)
    world.pod("p")


@cause("selector", why="no node has gpu-type In [nvdia-a100]", way="did you mean gpu-type: nvidia-a100?")
def a_misspelt_value_in_a_selector(world: World) -> None:
    world.node("a", labels={"gpu-type": "nvidia-a100"})
    world.pod("p", nodeSelector={"gpu-type": "nvdia-a100"})


@cause("selector", why="no node has acelerator In [nvidia-a100]", way="did you mean the label accelerator")
def a_misspelt_label_in_a_selector(world: World) -> None:
    world.node("a", labels={"accelerator": "nvidia-a100"})
    world.pod("p", nodeSelector={"acelerator": "nvidia-a100"})


@cause("selector", why="it may only run on cpu", way="let it also run on a")
def a_selector_that_picks_nodes_without_gpus(world: World) -> None:
    world.node("a", labels={"node-type": "gpu"})
    world.node("cpu", gpus=0, devices=False, labels={"node-type": "cpu"})
    world.pod("p", nodeSelector={"node-type": "cpu"})


@cause(
    "selector",
    why="no node has topology.kubernetes.io/zone In [c]",
    way="nodes have topology.kubernetes.io/zone as a and b",
)
def an_affinity_to_a_zone_that_is_not_there(world: World) -> None:
    for zone in ("a", "b"):
        world.node(f"node-{zone}", labels={"topology.kubernetes.io/zone": zone})
    term = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["c"]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [term]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    world.pod("p", affinity=affinity)


@cause(
    "no-agent",
    why="it asks for parts of GPUs, which gpufleet's agent gives out, and a has no agent",
    way="run gpufleet's agent there",
)
def a_fraction_where_no_agent_reports_devices(world: World) -> None:
    world.node("a", devices=False, shares=True)
    world.pod("p", gpus=0, annotations={"gpufleet.io/gpu-fraction": "0.5"}, resources=SLOT)


@cause("selector", why="no node has gpu-type In [nvidia-a10]", way="nodes have gpu-type as nvidia-a100")
def a_selector_of_another_model(world: World) -> None:
    world.node("a", labels={"gpu-type": "nvidia-a100"})
    world.pod("p", nodeSelector={"gpu-type": "nvidia-a10"})


@cause("gpu-sharing", why="the GPUs of a are given out whole only", way="no node gives out parts of GPUs")
def a_fraction_where_gpus_are_given_out_whole(world: World) -> None:
    world.node("a", devices=False, shares=True)
    report(world, "a", [{"id": "GPU-a-0", "model": "H100-80GB", "sharing": "whole"}])
    world.pod("p", gpus=0, annotations={"gpufleet.io/gpu-fraction": "0.5"}, resources=SLOT)


@cause("no-nodes", why="the cluster has no nodes", way="gpufleet up")
def a_cluster_without_nodes(world: World) -> None:
    world.pod("p")


@cause("gpu-unreported", why="spec.devices[0].sharing: unknown, found 'half'", way="correct that field")
def the_only_node_has_a_report_that_cannot_be(world: World) -> None:
    world.node("a", devices=False)
    report(world, "a", [{"id": "GPU-a-0", "model": "H100-80GB", "sharing": "half"}])
    world.pod("p")


@cause("no-nodes", why="status.allocatable[cpu]: not a quantity", way="correct that field")
def the_only_node_has_an_amount_that_cannot_be(world: World) -> None:
    world.node("a", devices=False)
    node = {**world.objects("/api/v1/nodes")[0], "status": {"allocatable": {"cpu": "many"}}}
    world.server.store.put(("", "nodes"), ("", "a"), node, at_s=0.0, user="older-server")
    world.pod("p")


def holds(world: World, node: str, *ids: str) -> None:
    """A pod that runs there and was granted these whole GPUs."""
    devices = ",".join(f'{{"id":"{one}","kind":"whole","gpuMilli":1000}}' for one in ids)
    grant = f'{{"v":1,"epoch":0,"containers":{{"main":[{devices}]}}}}'
    limits = {"nvidia.com/gpu": str(len(ids))}
    spec = {"nodeName": node, "schedulerName": "gpufleet"}
    container = {"name": "main", "image": "x", "resources": {"limits": limits}}
    metadata = {"name": f"{node}-user", "annotations": {"gpufleet.io/grant": grant}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {**spec, "containers": [container]},
    }
    world.server.add(pod, SCHEDULER_USER)


@cause("gpu-unreported", why="there is no NodeDevices of that name", way="see whether gpufleet's agent runs")
def the_report_of_the_only_node_was_deleted(world: World) -> None:
    world.node("a", devices=False)
    holds(world, "a", "GPU-a-0")
    world.pod("p")


@cause("gpu-unreported", why="the server does not serve nodedevices", way="helm upgrade")
def the_kind_of_reports_was_deleted(world: World) -> None:
    world.server.withdraw("gpufleet.io", "nodedevices")
    world.node("a", devices=False)
    holds(world, "a", "GPU-a-0")
    world.pod("p")


@cause("gpu-unreported", why="there is no NodeDevices of that name", way="gpufleet.io/GPUHealthy")
def the_agent_of_the_only_node_does_not_report(world: World) -> None:
    world.node("a", devices=False)
    told = {"type": "gpufleet.io/GPUHealthy", "status": "True", "reason": "AllHealthy"}
    world.request("PATCH", "/api/v1/nodes/a/status", {"status": {"conditions": [told]}})
    world.pod("p")


@cause("gpu-busy", why="a", way="a-user")
def a_node_with_a_report_is_full_and_another_has_none(world: World) -> None:
    world.node("a", gpus=1)
    holds(world, "a", "GPU-a-0")
    world.node("b", devices=False)
    holds(world, "b", "GPU-b-0")
    world.pod("p")


@cause("feature", why="declares UserNamespacesHostNetworkSupport", way="upgrade the kubelets")
def a_field_that_the_kubelet_does_not_know(world: World) -> None:
    world.node("a")
    world.pod("p", hostNetwork=True, hostUsers=False)


def needing(image: str) -> dict[str, Any]:
    """The containers of a pod with one GPU and this image."""
    container = {"name": "main", "image": image, "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    return {"containers": [container]}


@cause(
    "cuda-driver",
    why="it needs CUDA 13.0.1 (image nvidia/cuda:13.0.1-base), and the driver of a (470.82.01) is too old",
    way="update the driver to 580.65.06 or newer",
)
def an_image_that_the_driver_does_not_run(world: World) -> None:
    world.node("a", labels={"nvidia.com/cuda.driver-version.full": "470.82.01"})
    world.node("cpu", gpus=0, devices=False)
    world.pod("p", **needing("nvidia/cuda:13.0.1-base"))


@cause(
    "cuda-driver",
    why="CUDA 12.4 (annotation gpufleet.io/cuda-version), and the drivers of a (390.157) and b (390.157)",
    way='gpufleet.io/cuda-version: "any"',
)
def an_annotation_for_a_newer_cuda(world: World) -> None:
    for name in ("a", "b"):
        world.node(name, labels={"nvidia.com/cuda.driver-version.full": "390.157"})
    world.pod("p", annotations={"gpufleet.io/cuda-version": "12.4"})


@cause("gpu-withheld", why="the kubelet of a counts no GPU", way="see whether gpufleet's agent runs there")
def a_kubelet_that_counts_no_gpu(world: World) -> None:
    world.node("a", gpus=0, devices=False)
    world.report("a", gpus=2)
    world.pod("p")


def node_with_devices(world: World, name: str, allocatable: dict[str, str], *devices: Object) -> None:
    """A node and what its agent reports of it."""
    room = {"cpu": "64", "memory": "512Gi", "pods": "110", **allocatable}
    labels = {"kubernetes.io/hostname": name}
    world.add(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "status": {"allocatable": room},
        }
    )
    world.add(
        {
            "apiVersion": "gpufleet.io/v1alpha1",
            "kind": "NodeDevices",
            "metadata": {"name": name},
            "spec": {"devices": list(devices)},
        }
    )


def cut_node(world: World, name: str) -> None:
    """A node with one GPU, all of it given out as MIG instances."""
    device = {
        "id": f"GPU-{name}-0",
        "vendor": "NVIDIA",
        "model": "NVIDIA-H100-80GB-HBM3",
        "memoryMiB": 81559,
        "sharing": "mig",
        "migInstances": [{"profile": "1g.10gb", "start": start} for start in range(7)],
    }
    node_with_devices(world, name, {"nvidia.com/mig-1g.10gb": "7"}, device)


def hold_instances(world: World, name: str, *starts: int) -> None:
    """A program of the machine runs in the instances that begin there."""
    device = {"device": f"GPU-{name}-0", "kind": "mig", "migProfile": "1g.10gb"}
    holders = [{**device, "migStart": start, "foreign": "a program of the machine"} for start in starts]
    path = f"/apis/gpufleet.io/v1alpha1/nodedevices/{name}"
    assert world.request("PATCH", path, {"spec": {"holders": holders}}, "system:masters") == 200


def amd_node(world: World, name: str, gpus: int) -> None:
    """A node with whole GPUs of AMD."""
    device = {"vendor": "amd", "model": "AMD Instinct MI300X", "memoryMiB": 196592, "sharing": "whole"}
    devices = ({"id": f"{name}-{index}", **device} for index in range(gpus))
    node_with_devices(world, name, {"amd.com/gpu": str(gpus)}, *devices)


@cause(
    "gpu-withheld",
    why="the GPUs of a are given out as nvidia.com/mig-1g.10gb, and none whole",
    way="ask for nvidia.com/mig-1g.10gb",
)
def a_whole_gpu_where_all_are_cut(world: World) -> None:
    cut_node(world, "a")
    world.pod("p")


@cause(
    "other-resource",
    why="that would do offers is 5; 2 instances are in foreign hands",
    way="end what holds instances there",
)
def more_instances_than_a_program_of_the_machine_leaves(world: World) -> None:
    cut_node(world, "a")
    hold_instances(world, "a", 0, 4)
    world.pod("p", gpus=0, resources={"nvidia.com/mig-1g.10gb": "6"})


@cause(
    "other-resource",
    why="offers is 0; 7 instances are in foreign hands",
    way="end what holds instances there",
)
def instances_that_a_program_of_the_machine_holds_all(world: World) -> None:
    cut_node(world, "a")
    hold_instances(world, "a", *range(7))
    world.pod("p", gpus=0, resources={"nvidia.com/mig-1g.10gb": "1"})


@cause(
    "other-resource",
    why="a has the most left, 0; 1 instance is in foreign hands",
    way="end what holds instances",
)
def an_instance_that_a_program_holds_beside_those_of_pods(world: World) -> None:
    cut_node(world, "a")
    hold_instances(world, "a", 6)
    taken(world, "a", 0, resources={"nvidia.com/mig-1g.10gb": "6"})
    world.pod("p", gpus=0, resources={"nvidia.com/mig-1g.10gb": "1"})


@cause(
    "gpu-vendor",
    why="no node has GPUs that are asked for as gpu.intel.com/xe; the cluster has H100-80GB (9)",
    way="ask for nvidia.com/gpu",
)
def another_makers_gpu_where_all_are_cut(world: World) -> None:
    cut_node(world, "a")
    world.node("b")
    world.pod("p", gpus=0, resources={"gpu.intel.com/xe": "1"})


@cause(
    "gpu-count",
    why="it asks for 3 GPUs on one node, and the largest have 2",
    way="ask for at most 2 in one pod",
)
def more_gpus_than_a_node_of_the_vendor_has_beside_another_vendor(world: World) -> None:
    for name in "ab":
        amd_node(world, name, 2)
    world.node("c", gpus=4)
    world.pod("p", gpus=0, resources={"amd.com/gpu": "3"})


@cause("gpu-withheld", why="GPU-a-0 on a ('a program of the machine')", way="end what holds it")
def a_gpu_that_a_program_of_the_machine_holds(world: World) -> None:
    world.node("a", gpus=1, devices=False)
    device = {"id": "GPU-a-0", "model": "NVIDIA-H100-80GB-HBM3", "memoryMiB": 81559, "sharing": "whole"}
    holder = {"device": "GPU-a-0", "foreign": "a program of the machine"}
    world.add(
        {
            "apiVersion": "gpufleet.io/v1alpha1",
            "kind": "NodeDevices",
            "metadata": {"name": "a"},
            "spec": {"devices": [device], "holders": [holder]},
        }
    )
    world.pod("p")


@cause(
    "gpu-vendor",
    why="no node has GPUs that are asked for as gpu.intel.com/i915",
    way="ask for gpu.intel.com/xe",
)
def the_other_driver_of_the_same_vendor_beside_another_vendor(world: World) -> None:
    device = {"id": "a-0", "vendor": "intel", "model": "Max 1550", "memoryMiB": 131072, "sharing": "whole"}
    node_with_devices(world, "a", {"gpu.intel.com/xe": "1"}, device)
    world.node("b")
    world.pod("p", gpus=0, resources={"gpu.intel.com/i915": "1"})


@cause(
    "selector",
    why="no node has nvidia.com/gpu.memory Gt [90000]",
    way="nodes have nvidia.com/gpu.memory as 15360 and 81920",
)
def more_memory_than_any_node_says_of_its_gpus(world: World) -> None:
    world.node("a", labels={"nvidia.com/gpu.memory": "81920"})
    world.node("b", labels={"nvidia.com/gpu.memory": "15360"})
    greater = {"key": "nvidia.com/gpu.memory", "operator": "Gt", "values": ["90000"]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [greater]}]}
    world.pod("p", affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}})


@cause(
    "gpu-vendor",
    why="it needs a part of a GPU that is counted as nvidia.com/gpu, and no node has one",
    way="add a node with such a GPU",
)
def a_part_of_nvidias_gpu_where_only_another_vendors_are_shared(world: World) -> None:
    device = {"id": "a-0", "vendor": "amd", "model": "AMD Instinct MI300X", "memoryMiB": 196592}
    slots = {"amd.com/gpu": "1", "gpufleet.io/gpu-share": "10"}
    node_with_devices(world, "a", slots, {**device, "sharing": "mixed", "maxShares": 10})
    limits = {"gpufleet.io/gpu-share": "1", "nvidia.com/gpumem": "3000"}
    world.pod("p", gpus=0, resources=limits)


@cause(
    "gpu-withheld",
    why="the GPUs of a are given out as nvidia.com/mig-1g.10gb, and none in shares",
    way="have a GPU given out in shares there",
)
def a_share_where_all_are_cut(world: World) -> None:
    cut_node(world, "a")
    slots = {"nvidia.com/mig-1g.10gb": "7", "gpufleet.io/gpu-share": "10"}
    path = "/api/v1/nodes/a/status"
    assert world.request("PATCH", path, {"status": {"allocatable": slots}}) == 200
    world.pod("p", gpus=0, annotations={"gpufleet.io/gpu-fraction": "0.5"}, resources=SLOT)


@cause(
    "gpu-model",
    why="no node has a GPU of the model B200; the cluster has MI300X (4) and H100-80GB (2)",
    way="ask for H100-80GB (2), or for any model",
)
def a_model_is_offered_instead_by_the_name_that_the_pod_uses(world: World) -> None:
    amd_node(world, "a", 4)
    world.node("b", gpus=2)
    world.pod("p", annotations={"gpufleet.io/gpu-models": "B200"})


@cause(
    "other-resource",
    why="it needs 1 of rdma/hca, and b has the most left, 0",
    way="b-user",
)
def a_card_for_the_network_is_taken_beside_a_node_that_never_had_one(world: World) -> None:
    world.node("a")
    device = {"id": "b-0", "vendor": "nvidia", "model": "H100", "memoryMiB": 81559, "sharing": "whole"}
    node_with_devices(world, "b", {"nvidia.com/gpu": "1", "rdma/hca": "1"}, device)
    taken(world, "b", 0, resources={"rdma/hca": "1"})
    world.pod("p", resources={"rdma/hca": "1"})
