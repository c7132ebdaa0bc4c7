"""Work of no queue that makes room by priority: pods that fill the cluster, and more important work later.

What comes first are pods of one GPU of low priorities under controllers, so that pods that were evicted come
back and wait. Later come single pods and gangs of higher priorities, of which some end again, and a pod of
the highest priority for which no pod may be evicted.
"""

from random import Random

from gpufleet.simulation.actors import RUNS_FOR, SimulatedWorkload
from gpufleet.simulation.cluster_recipe import Arrival, Recipe, gang_template, pod
from gpufleet.simulation.refusal import JsonObject

LOW = (0, 1, 2)
HIGH = (10, 20, 30)


def priority_arrivals(recipe: Recipe, random: Random) -> list[tuple[float, Arrival]]:
    """Which work comes when."""
    found: list[tuple[float, Arrival]] = []
    if not recipe.important_pods:
        return found
    for number in range(recipe.nodes * recipe.gpus_per_node):
        template = _of(random.choice(LOW), pod(f"low-{number}", 1, recipe))
        found.append((random.uniform(0.0, 3.0), SimulatedWorkload(f"low-{number}", template, 1)))
    for number in range(recipe.important_pods):
        one = _of(random.choice(HIGH), pod(f"high-{number}", random.randint(1, 3), recipe))
        if random.random() < 0.5:
            one["metadata"]["annotations"][RUNS_FOR] = str(random.randint(10, 40))
        found.append((_later(recipe, random), one))
    for number in range(recipe.important_pods // 4):
        members = random.randint(2, 3)
        gang = gang_template(f"high-gang-{number}", members, random.randint(1, 2), recipe)
        workload = SimulatedWorkload(f"high-gang-{number}", _of(random.choice(HIGH), gang), members)
        found.append((_later(recipe, random), workload))
    gentle = _of(100, pod("gentle", 2, recipe))
    # The highest priority of all and no right to evict: one that waits while all others make room for
    # themselves.
    gentle["spec"]["preemptionPolicy"] = "Never"
    found.append((_later(recipe, random), gentle))
    return found


def _later(recipe: Recipe, random: Random) -> float:
    return random.uniform(8.0, recipe.arrive_within_s)


def _of(priority: int, template: JsonObject) -> JsonObject:
    template["spec"]["priority"] = priority
    return template
