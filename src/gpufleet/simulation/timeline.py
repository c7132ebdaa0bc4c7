"""The story of a run for people: what users, nodes, the scheduler and the faults did, in order.

Made from the history alone, so the same seed tells the same story.
"""

from collections.abc import Iterator

from gpufleet.model.model_errors import printable
from gpufleet.simulation import pod_facts
from gpufleet.simulation.history import LEASES, NODES, PODS, History
from gpufleet.simulation.object_store import Written
from gpufleet.simulation.refusal import JsonObject
from gpufleet.simulation.scenario import Outcome
from gpufleet.simulation.world import Happened

WORDS_MAX = 160
"""A line of a story is read beside others; longer words of the API server are cut."""


def timeline(outcome: Outcome) -> list[Happened]:
    """The main events of a run."""
    told = [*outcome.happened, *_of_history(outcome.history)]
    return sorted(told, key=lambda one: one.at_s)


def _of_history(history: History) -> Iterator[Happened]:
    tellers = {PODS: _of_pod, LEASES: _of_lease, NODES: _of_node}
    for written in history.writes:
        teller = tellers.get(written.kind)
        for words in () if teller is None else teller(written):
            # Names and messages come from objects of any user, and may hold characters that a terminal would
            # obey.
            yield Happened(written.at_s, _short(words if words.isprintable() else printable(words)))


def _short(words: str) -> str:
    return words if len(words) <= WORDS_MAX else f"{words[: WORDS_MAX - 3]}..."


def _of_pod(written: Written) -> Iterator[str]:
    before, pod = written.before, written.value
    name = f"pod {written.name[1]}"
    if pod is None:
        yield f"{name} is gone"
        return
    if before is None:
        yield f"{name} is created{_gang(pod)}"
    if pod_facts.node_of(pod) and not pod_facts.node_of(before or {}):
        epoch, devices = pod_facts.grant_of(pod)
        given = ", ".join(f"{one.gpu_milli / 1000:g} of {one.device}" for one in devices) or "no device"
        by = "" if epoch is None else f" by epoch {epoch}"
        yield f"{name} is bound to {pod_facts.node_of(pod)}{by}: {given}"
    if "deletionTimestamp" in pod["metadata"] and "deletionTimestamp" not in (before or pod)["metadata"]:
        yield f"{name} is being deleted, as {written.user} asked"
    phase, told = _phase(pod), _waits(pod)
    if phase != _phase(before or {}) and phase not in {"", "Pending"}:
        yield f"{name} is {phase}"
    if told and told != _waits(before or {}):
        yield f"{name} waits: {told}"


def _of_lease(written: Written) -> Iterator[str]:
    before, lease = (_spec(value) for value in (written.before, written.value))
    holder = lease.get("holderIdentity")
    if holder != before.get("holderIdentity"):
        yield f"{holder or 'no process'} leads, epoch {lease.get('leaseTransitions', 0)}"


def _of_node(written: Written) -> Iterator[str]:
    before, node = (bool(_spec(value).get("unschedulable")) for value in (written.before, written.value))
    if written.before is not None and before != node:
        yield f"node {written.name[1]} is {'cordoned' if node else 'back'}"


def _spec(value: JsonObject | None) -> JsonObject:
    spec: JsonObject = (value or {}).get("spec") or {}
    return spec


def _gang(pod: JsonObject) -> str:
    gang = pod_facts.gang_of(pod)
    return "" if gang is None else f", of gang {gang[0]} which needs {gang[1]}"


def _phase(pod: JsonObject) -> str:
    phase: str = (pod.get("status") or {}).get("phase") or ""
    return phase


def _waits(pod: JsonObject) -> str:
    told = pod_facts.condition(pod, "PodScheduled") or {}
    return "" if told.get("status") != "False" else str(told.get("message") or told.get("reason") or "")
