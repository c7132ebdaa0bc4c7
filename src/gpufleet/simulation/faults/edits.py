"""People who change their mind: about pods that wait, nodes, and what both depend on."""

import asyncio
from random import Random

from gpufleet.kube import keys
from gpufleet.simulation import pod_facts
from gpufleet.simulation.actors import ADMIN, SimulatedWorkload
from gpufleet.simulation.cluster_recipe import NAMESPACE, USER, gang_template, pod
from gpufleet.simulation.faults.interference import Fault
from gpufleet.simulation.history import NODES, PODS
from gpufleet.simulation.refusal import JsonObject, Refusal
from gpufleet.simulation.world import World

PAUSE_S = (0.2, 2.0)
RACK = "example.com/rack"
RACKS: tuple[str | None, ...] = ("a", "b", "c", None)
WORDS: tuple[tuple[str, str, tuple[str | None, ...]], ...] = (
    ("annotations", keys.GANG, ("another", "third", None)),
    ("annotations", keys.GANG_MIN_MEMBERS, ("1", "2", "3", "many", None)),
    ("annotations", keys.GANG_ROLE, ("leader", "worker", None)),
    ("annotations", keys.GPU_FRACTION, ("0.25", "1.5", None)),
    ("annotations", keys.KUEUE_TOPOLOGY_REQUIRED, (RACK, "kubernetes.io/hostname", None)),
    ("annotations", keys.RUN_TIME, ("30s", "forever", None)),
    ("labels", keys.QUEUE, ("team-0", "team-1", "nowhere", None)),
    ("labels", "app", ("red", "blue", None)),
)
"""What a tenant may write on a pod that waits: where, which key, and the words to choose from."""

LATE = "late"
"""What the names of work begin with that the recipe does not make."""

ACTS = (2, 1, 1, 1, 2, 1)
"""How often each is done: words are changed and work comes more often than the rest."""

TAINT: JsonObject = {"key": "example.com/maintenance", "effect": "NoSchedule"}


class RandomEdits(Fault):
    """Pods that wait are edited and deleted, nodes tainted, cordoned and labelled, claims made late."""

    name = "random-edits"
    lasts_s = 60.0

    def __init__(self, random: Random) -> None:
        super().__init__(random)
        self._made = 0
        self._reworded: set[str] = set()

    async def drive(self, world: World) -> None:
        acts = (self._reword, self._drop, self._node, self._rack, self._ask, self._guard)
        while True:
            await asyncio.sleep(self.random.uniform(*PAUSE_S))
            self.random.choices(acts, weights=ACTS)[0](world)
            self.acted += 1

    async def undo(self, world: World) -> None:
        for node in _nodes(world):
            self._patch_node(world, node, {"spec": {"taints": None, "unschedulable": None}})
        # What is left of late work and of words that make no sense is withdrawn: the judges of rest know the
        # work of the recipe alone.
        for name in [name for name in world.actors.workloads if name.startswith(LATE)]:
            del world.actors.workloads[name]
        for (_, name), one in sorted(world.server.store.all(PODS).items()):
            reworded = name in self._reworded and not pod_facts.node_of(one)
            if (reworded or name.startswith(LATE)) and not pod_facts.is_leaving(one):
                world.actors.ask(USER, "DELETE", _path(one))

    def _waiting(self, world: World) -> list[JsonObject]:
        pods = [one for _, one in sorted(world.server.store.all(PODS).items())]
        return [
            one
            for one in pods
            if one["metadata"]["namespace"] == NAMESPACE
            and not pod_facts.node_of(one)
            and not pod_facts.is_leaving(one)
        ]

    def _reword(self, world: World) -> None:
        waiting = self._waiting(world)
        if not waiting:
            return
        one = self.random.choice(waiting)
        where, key, words = self.random.choice(WORDS)
        change = {"metadata": {where: {key: self.random.choice(words)}}}
        world.actors.ask(USER, "PATCH", _path(one), change)
        self._reworded.add(one["metadata"]["name"])

    def _drop(self, world: World) -> None:
        waiting = self._waiting(world)
        if waiting:
            world.actors.ask(USER, "DELETE", _path(self.random.choice(waiting)))

    def _some_node(self, world: World) -> str | None:
        names = _nodes(world)
        return self.random.choice(names) if names else None

    def _node(self, world: World) -> None:
        taints = self.random.choice(([TAINT], None))
        closed = self.random.choice((True, None))
        self._patch_node(world, self._some_node(world), {"spec": {"taints": taints, "unschedulable": closed}})

    def _rack(self, world: World) -> None:
        labels = {RACK: self.random.choice(RACKS)}
        self._patch_node(world, self._some_node(world), {"metadata": {"labels": labels}})

    def _patch_node(self, world: World, node: str | None, change: JsonObject) -> None:
        if node is not None:
            world.actors.ask(ADMIN, "PATCH", f"/api/v1/nodes/{node}", change)

    def _ask(self, world: World) -> None:
        """Work of some kind that the recipe does not make."""
        self._made += 1
        number, recipe = self._made, world.plan.recipe
        one = pod(f"{LATE}-{number}", self.random.choice((0, 0.5, 1)), recipe)
        spec, metadata = one["spec"], one["metadata"]
        metadata["labels"] = {"app": self.random.choice(("red", "blue"))}
        spec["priority"] = self.random.choice((0, 0, 10, 100))
        match self.random.randrange(8):
            case 0:
                spec["nodeSelector"] = {RACK: "a"}
            case 1:
                spec["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 8080}]
            case 2:
                selector = {"labelSelector": {"matchLabels": {"app": "red"}}}
                term = {**selector, "topologyKey": "kubernetes.io/hostname"}
                required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
                kind = self.random.choice(("podAffinity", "podAntiAffinity"))
                spec["affinity"] = {kind: required}
            case 3:
                spec["volumes"] = [{"name": "d", "persistentVolumeClaim": {"claimName": f"{LATE}-{number}"}}]
            case 4:
                spec["tolerations"] = [{"key": TAINT["key"], "operator": "Exists"}]
            case 5:
                spread = {"maxSkew": 1, "topologyKey": RACK, "whenUnsatisfiable": "DoNotSchedule"}
                spread["labelSelector"] = {"matchLabels": {"app": "red"}}
                spec["topologySpreadConstraints"] = [spread]
            case 6:
                spec["schedulingGates"] = [{"name": "example.com/later"}]
            case _:
                name, members = f"{LATE}-gang-{number}", self.random.randint(2, 3)
                template = gang_template(name, members, 1, recipe)
                if self.random.random() < 0.5:
                    template["metadata"]["annotations"][keys.KUEUE_TOPOLOGY_REQUIRED] = RACK
                made = members + self.random.choice((-1, 0, 0, 1))
                world.actors.add_workload(SimulatedWorkload(name, template, made))
                return
        self._add(world, one)

    def _guard(self, world: World) -> None:
        """A disruption budget comes or goes."""
        name = self.random.choice(("guard-red", "guard-blue"))
        path = f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets/{name}"
        if world.actors.ask(ADMIN, "DELETE", path) == 200:
            return
        spec = {"selector": {"matchLabels": {"app": name.removeprefix("guard-")}}, "minAvailable": 1}
        metadata = {"name": name, "namespace": NAMESPACE}
        self._add(
            world,
            {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec},
        )

    def _add(self, world: World, value: JsonObject) -> None:
        try:
            world.server.add(value, USER)
        except Refusal:
            # A name that is taken: nothing is asked for this time.
            self.acted -= 1


def _nodes(world: World) -> list[str]:
    """The nodes of the recipe; what another fault has added stays as closed as that fault needs it."""
    made = {f"node-{number}" for number in range(world.plan.recipe.nodes)}
    return [name for _, name in sorted(world.server.store.all(NODES)) if name in made]


def _path(one: JsonObject) -> str:
    return f"/api/v1/namespaces/{one['metadata']['namespace']}/pods/{one['metadata']['name']}"
