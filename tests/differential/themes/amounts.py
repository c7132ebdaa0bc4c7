"""Resources: every way in which a pod asks for them, on nodes that have too little of some."""

from collections.abc import Mapping

from tests.differential.builder import Builder
from tests.differential.cases import Manifest, name_of
from tests.differential.draw import Draw

GPUS = ("nvidia.com/gpu", "amd.com/gpu")
EXTENDED = ("example.com/licence", "example.com/port", *GPUS)
HUGE = "hugepages-2Mi"
RUNTIME_CLASSES = ("heavy", "picky")
STORAGE = "ephemeral-storage"

Amounts = dict[str, str]


def furnish(case: Builder) -> None:
    """Nodes of little room, partly in use."""
    draw = case.draw
    for node in case.nodes:
        allocatable: Amounts = {
            "cpu": draw.one("500m", "1500m", "2", "4", "8"),
            "memory": draw.one("1Gi", "2G", "3Gi", "2147483648", "3.5Gi", "8Gi"),
            "pods": draw.one("2", "3", "110", "110"),
            STORAGE: draw.one("1Gi", "4Gi", "4Gi"),
        }
        # No machine has GPUs of two vendors.
        other_vendor = draw.choice(GPUS)
        for name in draw.some([name for name in EXTENDED if name != other_vendor], 0, 3):
            allocatable[name] = draw.one("0", "1", "2", "4")
        if draw.chance(0.3):
            allocatable[HUGE] = draw.one("0", "64Mi", "128Mi")
        if draw.chance(0.1):
            del allocatable[draw.choice(sorted(allocatable))]
        node["status"]["allocatable"] = allocatable
        if draw.chance(0.2):
            node["metadata"]["labels"]["runtime"] = "picky"
    for pod in case.running:
        if draw.chance(0.7):
            ask(case, pod, init=0.2)
            _drop_what_the_node_lacks(case, pod)
            if draw.chance(0.3):
                pod["status"] = _resizing(draw, pod["spec"])


def _drop_what_the_node_lacks(case: Builder, pod: Manifest) -> None:
    """No kubelet would have let the pod run there with GPUs that it does not have."""
    node = next((one for one in case.nodes if name_of(one) == pod["spec"]["nodeName"]), None)
    lacking = set(GPUS) - (set() if node is None else node["status"]["allocatable"].keys())
    for container in (*pod["spec"]["containers"], *pod["spec"].get("initContainers", ())):
        for side in container["resources"].values():
            for name in lacking & side.keys():
                del side[name]


def ask(case: Builder, pod: Manifest, init: float = 0.5) -> None:
    """The containers of a pod, and what stands beside them."""
    draw, spec = case.draw, pod["spec"]
    spec["containers"] = [_container(draw, f"main-{number}") for number in range(draw.one(1, 1, 2))]
    if draw.chance(init):
        spec["initContainers"] = [_container(draw, f"init-{number}") for number in range(draw.one(1, 2, 3))]
        for container in spec["initContainers"]:
            if draw.chance(0.5):
                container["restartPolicy"] = "Always"
    if draw.chance(0.3):
        spec["runtimeClassName"] = draw.one(*RUNTIME_CLASSES)
    if draw.chance(0.25):
        spec["resources"] = _pod_level(draw, spec)


def _container(draw: Draw, name: str) -> Manifest:
    requests: Amounts = {}
    limits: Amounts = {}
    for resource, amounts in _CHOICES.items():
        if draw.chance(0.4):
            least, most = sorted(draw.sample(range(len(amounts)), 2))
            if draw.chance(0.8):
                requests[resource] = amounts[least]
            if draw.chance(0.4):
                limits[resource] = amounts[most]
    for resource in EXTENDED:
        if draw.chance(0.08):
            limits[resource] = draw.one("0", "1", "2", "3")
            if draw.chance(0.5):
                requests[resource] = limits[resource]
    if draw.chance(0.08):
        limits[HUGE] = draw.one("2Mi", "64Mi", "66Mi")
        # Huge pages are only let in beside cpu or memory.
        requests["cpu"] = requests.get("cpu", "0")
    return {"name": name, "image": "none", "resources": {"requests": requests, "limits": limits}}


def _resizing(draw: Draw, spec: Manifest) -> Manifest:
    """The status of a running pod whose containers were given other amounts than its spec says now."""
    found = []
    for container in spec["containers"]:
        status: Manifest = {"name": container["name"], "image": "none", "imageID": "", "ready": True}
        status |= {"restartCount": 0, "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}
        if draw.chance(0.6):
            status["allocatedResources"] = _some_amounts(draw)
        if draw.chance(0.6):
            status["resources"] = {"requests": _some_amounts(draw)}
        found.append(status)
    conditions = []
    if draw.chance(0.3):
        reason = draw.one("Infeasible", "Deferred")
        conditions = [{"type": "PodResizePending", "status": "True", "reason": reason}]
    return {"phase": "Running", "containerStatuses": found, "conditions": conditions}


def _some_amounts(draw: Draw) -> Amounts:
    return {"cpu": draw.one("100m", "1", "2"), "memory": draw.one("128Mi", "1Gi", "2Gi")}


_CHOICES: Mapping[str, tuple[str, ...]] = {
    # Each from small to large, so that a request never exceeds its limit.
    "cpu": ("0", "1m", "100m", "0.25", "500m", "0.75", "1", "1500m", "2"),
    "memory": ("0", "1", "100M", "128Mi", "256Mi", "500e6", "512Mi", "1Gi", "1.5Gi"),
    STORAGE: ("0", "10Mi", "64Mi", "100M", "1G", "1Gi"),
}


def _pod_level(draw: Draw, spec: Manifest) -> Manifest:
    """Amounts of the pod as a whole, which no container may exceed."""
    found: Manifest = {}
    for resource, amounts in (("cpu", ("8", "9", "10")), ("memory", ("6Gi", "8Gi"))):
        if draw.chance(0.6):
            found.setdefault("limits", {})[resource] = amounts[-1]
        if draw.chance(0.4):
            found.setdefault("requests", {})[resource] = draw.choice(amounts)
    if not found:
        found = {"requests": {"cpu": "7"}}
    small = draw.chance(0.7)
    if small:
        # What the containers ask for is left out: the pod's amount alone decides.
        for container in (*spec["containers"], *spec.get("initContainers", ())):
            for amounts_of in ("requests", "limits"):
                kept = container["resources"][amounts_of]
                for resource in ("cpu", "memory", HUGE):
                    kept.pop(resource, None)
        for side in found.values():
            for resource in side:
                side[resource] = draw.one("1", "2") if resource == "cpu" else draw.one("512Mi", "1Gi")
        limits, requests = found.get("limits", {}), found.get("requests", {})
        for resource in limits.keys() & requests.keys():
            limits[resource] = requests[resource]
    return found
