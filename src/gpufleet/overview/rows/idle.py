"""Lines of the view of idle GPUs: held by pods that compute nothing, and free ones of nodes that take work.

A pod counts as idle while its GPUs were busy for less than ``IDLE_BELOW`` of their time. One that has memory
in use may be a model that waits for requests: it is said to be holding, so that nothing is ended by its line
alone.
"""

from gpufleet.explain.answer import State
from gpufleet.overview.rows.known import Known
from gpufleet.overview.rows.lines import IdleLine, NodeLine
from gpufleet.overview.rows.nodes import READY_STATE
from gpufleet.overview.rows.pod_facts import MILLI, PodFact
from gpufleet.overview.rows.use import pod_use

IDLE_BELOW = 0.05
"""As in the alert on idle GPUs."""

# A driver's own context on a card is smaller; a loaded program has more.
HOLDING_BYTES = 1 << 30


def idle_lines(known: Known, facts: list[PodFact], nodes: list[NodeLine]) -> list[IdleLine]:
    """Pods first, then nodes."""
    held = (_held(fact, known) for fact in facts if known.shows(fact.pod.metadata.namespace))
    return [*(line for line in held if line is not None), *_free(nodes)]


def _held(fact: PodFact, known: Known) -> IdleLine | None:
    """The line of a pod that runs and was measured to be idle; what was not measured is no idle pod."""
    pod, node = fact.pod, fact.pod.spec.node_name
    key = (pod.metadata.namespace, pod.metadata.name)
    if fact.state is not State.RUNS:
        return None
    use = pod_use(key, known.use.get(node), known.before.get(node))
    if use.used_ratio is None or use.used_ratio >= IDLE_BELOW:
        return None
    memory_bytes = use.memory_used_bytes
    since_s = known.quiet_since_s.get(key)
    return IdleLine(
        *key,
        "?" if memory_bytes is None else "holding" if memory_bytes >= HOLDING_BYTES else "empty",
        node,
        fact.queue,
        None if fact.gpus_milli is None else fact.gpus_milli / MILLI,
        None if since_s is None else max(0.0, known.now.timestamp() - since_s),
        use.used_ratio,
        memory_bytes,
        use.power_watts,
    )


def _free(nodes: list[NodeLine]) -> list[IdleLine]:
    """Nodes with GPUs that nothing holds; unwell ones and those that take no work are no idle money."""
    found = []
    for line in nodes:
        if line.state != READY_STATE or line.gpus is None or line.gpus_held is None:
            continue
        free = line.gpus - line.gpus_held
        if free > 0:
            found.append(IdleLine("", line.name, "free", line.name, gpus=free))
    return found
