"""Random cases of preemption: nodes that are full, and pods that wait for room on them.

Each case has pods of several sizes and priorities on one to four nodes, and one or two of the concerns in
``CONCERNS``. Where two pods wait, the case has a single node, so that what the first one gets decides
nothing but what is left for the second.
"""

from collections.abc import Callable, Mapping

from tests.differential.builder import APPS, HOSTNAME, NAMESPACES, Builder
from tests.differential.cases import CASE_LABEL, Case, Manifest, name_of
from tests.differential.draw import Draw
from tests.differential.preemption.classes import ASKING, PROTECTED, RUNNING, VALUES

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PORT = 8080
GPU = "nvidia.com/gpu"
SERVICES = "services"
"""A scheduler that places what is no work of ours."""
ROOMY = {"cpu": "64", "memory": "256Gi", "pods": "110"}
PODS_A_NODE_MAX = 7


class Fleet:
    """A case under construction: its nodes are filled with units of one resource, or of two."""

    def __init__(self, case: Builder) -> None:
        self.case = case
        self.draw = case.draw
        self.resources = self.draw.one(("cpu",), ("cpu",), (GPU,), (GPU,), ("cpu", GPU))
        if len(case.asked) > 1:
            del case.nodes[1:]
        self.namespaces = self.draw.some(list(NAMESPACES), 1, 2)
        case.running.clear()
        for node in case.nodes:
            self._fill(node)
        values: set[int] = set()
        for pod in case.asked:
            self._ask(pod, values)

    def _fill(self, node: Manifest) -> None:
        """Pods on a node until nearly nothing is left."""
        draw = self.draw
        units = draw.one(2, 4, 4, 8)
        node["status"]["allocatable"] = ROOMY | dict.fromkeys(self.resources, str(units))
        left = units
        for _ in range(PODS_A_NODE_MAX):
            if not left or draw.chance(0.04):
                return
            size = min(left, draw.one(1, 1, 1, 2, 2, 3, 4))
            left -= size
            pod = self.case.one_more_running()
            pod["spec"]["nodeName"] = name_of(node)
            pod["spec"]["priorityClassName"] = draw.one(*RUNNING)
            pod["metadata"]["namespace"] = draw.choice(self.namespaces)
            pod["status"] = {"phase": "Running", "startTime": f"2026-01-0{draw.randint(1, 4)}T00:00:00Z"}
            self._size(pod, size)

    def _ask(self, pod: Manifest, taken: set[int]) -> None:
        """A pod that waits, of another priority than those before it: equals have their turns by chance."""
        draw = self.draw
        name = draw.choice([one for one in ASKING if VALUES[one] not in taken])
        taken.add(VALUES[name])
        pod["spec"]["priorityClassName"] = name
        self._size(pod, draw.one(1, 1, 2, 2, 3, 4))

    def _size(self, pod: Manifest, units: int) -> None:
        draw = self.draw
        amounts = {self.resources[0]: str(units)}
        for resource in self.resources[1:]:
            amounts[resource] = str(draw.randint(0, units))
        # A GPU is a limit first; the request follows from it.
        pod["spec"]["containers"][0]["resources"] = {"limits": amounts, "requests": amounts}


def no_more(_: Fleet) -> None:
    """Room alone decides."""


def budgets(fleet: Fleet) -> None:
    """Disruption budgets, some of which are used up; none selects a pod that another one does."""
    case, draw = fleet.case, fleet.draw
    choices = [(namespace, app) for namespace in fleet.namespaces for app in APPS]
    for number, (namespace, app) in enumerate(draw.some(choices, 1, 3)):
        allowed = draw.one(0, 0, 1, 1, 2)
        case.others.append(
            {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": {"name": f"{case.token}-budget{number}", "namespace": namespace},
                "spec": {
                    "minAvailable": 1,
                    "selector": {"matchLabels": {"app": app, CASE_LABEL: case.token}},
                },
                "status": {
                    "observedGeneration": 1,
                    "disruptionsAllowed": allowed,
                    "currentHealthy": allowed + 1,
                    "desiredHealthy": 1,
                    "expectedPods": allowed + 1,
                },
            }
        )


def ports(fleet: Fleet) -> None:
    """Host ports that pods hold and others wait for."""
    for pod in (*fleet.case.running, *fleet.case.asked):
        if fleet.draw.chance(0.3 if "nodeName" in pod["spec"] else 0.9):
            held_on = {one["spec"]["nodeName"] for one in fleet.case.running if _ports(one)}
            if pod["spec"].get("nodeName") not in held_on:
                pod["spec"]["containers"][0]["ports"] = [{"containerPort": PORT, "hostPort": PORT}]


def _ports(pod: Manifest) -> bool:
    return "ports" in pod["spec"]["containers"][0]


def apart(fleet: Fleet) -> None:
    """Pods that are kept away from a node by pods there, or keep others away."""
    draw = fleet.draw
    asked = fleet.draw.one(True, False)
    pods = fleet.case.asked if asked else fleet.case.running
    zone = f"{fleet.case.token}/zone"
    key = draw.one(HOSTNAME, zone)
    if draw.chance(0.5):
        for node in fleet.case.nodes:
            node["metadata"]["labels"][zone] = "all"
    for pod in pods:
        if asked or draw.chance(0.3):
            app = draw.one(*APPS)
            term = {
                "topologyKey": key,
                "namespaceSelector": {},
                "labelSelector": {"matchLabels": {"app": app, CASE_LABEL: fleet.case.token}},
            }
            pod["spec"].setdefault("affinity", {})["podAntiAffinity"] = {REQUIRED: [term]}


def crowd(fleet: Fleet) -> None:
    """Nodes that take no more pods than they have."""
    for node in fleet.case.nodes:
        there = sum(pod["spec"]["nodeName"] == name_of(node) for pod in fleet.case.running)
        node["status"]["allocatable"]["pods"] = str(max(1, there))


def places(fleet: Fleet) -> None:
    """Nodes that are out of the question whichever pods end."""
    for node in fleet.case.nodes[1:]:
        if fleet.draw.chance(0.5):
            node["spec"]["taints"] = [{"key": "dedicated", "value": "a", "effect": "NoSchedule"}]
        elif fleet.draw.chance(0.3):
            node["spec"]["unschedulable"] = True


def leaving(fleet: Fleet) -> None:
    """Pods that end anyway."""
    for pod in fleet.case.running:
        if fleet.draw.chance(0.25):
            pod["metadata"]["deletionTimestamp"] = "soon"


def services(fleet: Fleet) -> None:
    """Pods of another scheduler, and pods of a class that is never evicted."""
    for pod in fleet.case.running:
        if fleet.draw.chance(0.25):
            pod["spec"]["schedulerName"] = SERVICES
        elif fleet.draw.chance(0.2):
            pod["spec"]["priorityClassName"] = PROTECTED


CONCERNS: Mapping[str, Callable[[Fleet], None]] = {
    "room": no_more,
    "budgets": budgets,
    "ports": ports,
    "apart": apart,
    "crowd": crowd,
    "places": places,
    "leaving": leaving,
    "services": services,
}
WEIGHTS = {"room": 3, "budgets": 3}


def make_case(seed: int, number: int) -> Case:
    """The case of this number."""
    token = f"case-{number}"
    draw = Draw(f"preemption/{seed}/{number}")
    case = Builder(token, draw)
    fleet = Fleet(case)
    weights = [WEIGHTS.get(name, 1) for name in CONCERNS]
    chosen = frozenset(draw.choices(list(CONCERNS), weights, k=draw.one(1, 1, 2)))
    for name, concern in CONCERNS.items():
        if name in chosen:
            concern(fleet)
    origin = f"case {number} of seed {seed}"
    return Case(token, case.objects, tuple(case.asked), tuple(sorted(chosen)), origin)
