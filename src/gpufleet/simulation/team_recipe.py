"""Teams that share a cluster: queues, work that borrows first, and work that is owed what was borrowed.

One team fills the cluster with pods of one GPU under controllers, so that each victim frees what one pod
needs. The others come later, with single pods and gangs, and with some work of higher priority of the first
team's own.
"""

from random import Random

from gpufleet.simulation.actors import SimulatedWorkload
from gpufleet.simulation.api_server import ApiServer
from gpufleet.simulation.cluster_recipe import NAMESPACE, Arrival, Recipe, gang_template, pod
from gpufleet.simulation.pod_facts import QUEUE
from gpufleet.simulation.refusal import JsonObject

BORROWER = "team-0"
GUARDED = {"guarded": "yes"}
LEAST_OF_GUARDED = 1
"""The budget allows evictions while two or more run, and refuses that of the last."""


def build_teams(server: ApiServer, recipe: Recipe) -> None:
    """A tree of queues to which all GPUs of the cluster are owed, and one disruption budget."""
    if not recipe.teams:
        return
    total = recipe.nodes * recipe.gpus_per_node
    server.add(_queue("fleet", None, 0))
    for number in range(recipe.teams):
        # The first queues get what does not divide evenly, so that all GPUs of the cluster are owed to some
        # queue.
        nominal = total // recipe.teams + (number < total % recipe.teams)
        server.add(_queue(f"team-{number}", "fleet", nominal))
    metadata = {"name": "guard", "namespace": NAMESPACE}
    spec = {"selector": {"matchLabels": GUARDED}, "minAvailable": LEAST_OF_GUARDED}
    server.add({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec})


def _queue(name: str, parent: str | None, gpus: int) -> JsonObject:
    spec: JsonObject = {"quotas": [{"resource": "gpu", "nominal": gpus}]}
    if parent is not None:
        spec["parent"] = parent
    kind = {"apiVersion": "gpufleet.io/v1alpha1", "kind": "FleetQueue"}
    return {**kind, "metadata": {"name": name}, "spec": spec}


def team_arrivals(recipe: Recipe, random: Random) -> list[tuple[float, Arrival]]:
    """Which work comes when: first the borrower's, for all GPUs of the cluster, later that of the queues that
    are owed some.
    """
    found: list[tuple[float, Arrival]] = []
    if not recipe.teams:
        return found
    total = recipe.nodes * recipe.gpus_per_node
    for number in range(total):
        template = _of(BORROWER, pod(f"lent-{number}", 1, recipe))
        if number % 3 == 0:
            template["metadata"]["labels"] |= GUARDED
        found.append((random.uniform(0.0, 3.0), SimulatedWorkload(f"lent-{number}", template, 1)))
    for team in range(1, recipe.teams):
        owed = total // recipe.teams
        members = min(owed, random.randint(2, 3))
        gang = _of(f"team-{team}", gang_template(f"owed-gang-{team}", members, 1, recipe))
        found.append((_later(recipe, random), SimulatedWorkload(f"owed-gang-{team}", gang, members)))
        for number in range(owed - members):
            one = _of(f"team-{team}", pod(f"owed-{team}-{number}", 1, recipe))
            found.append((_later(recipe, random), one))
    urgent = _of(BORROWER, pod("urgent", 1, recipe))
    urgent["spec"]["priority"] = 100
    found.append((_later(recipe, random), urgent))
    return found


def _later(recipe: Recipe, random: Random) -> float:
    return random.uniform(12.0, recipe.arrive_within_s)


def _of(queue: str, template: JsonObject) -> JsonObject:
    template["metadata"]["labels"] = {QUEUE: queue}
    return template
