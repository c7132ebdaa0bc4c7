"""Parts of the GPU stack with pods that crash, cannot pull their image, or do not get ready.

One check for drivers and toolkits, one for device plugins, one for feature discovery and MIG managers.
"""

import datetime as dt
from collections.abc import Iterator

from gpufleet.doctor.check import Check, Failure, Good, Layer, Point, Remedy, listed
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.objects.pods import PodView, logs_command
from gpufleet.doctor.views.stack import Daemon, Stack, StackPart, stack_of
from gpufleet.doctor.views.waiting import held_up_by

SLOW_S = 30 * 60.0
"""A driver that is built on the node takes twenty minutes."""

# Reasons of waiting that do not pass by themselves.
_STUCK = frozenset(
    {
        "CrashLoopBackOff",
        "ImagePullBackOff",
        "ErrImagePull",
        "ErrImageNeverPull",
        "InvalidImageName",
        "CreateContainerConfigError",
        "CreateContainerError",
        "RunContainerError",
    }
)
# Their conditions tell why a part of the stack does not come up.
_OPERATORS = ("ClusterPolicy", "NVIDIADriver")


def failures_of(
    facts: Facts, part: StackPart, others: frozenset[StackPart] = frozenset()
) -> Iterator[Failure | Good]:
    """Each DaemonSet of a part of the stack with pods that do not get up; ``others`` are left out."""
    stack = stack_of(facts)
    daemons = [one for one in stack.having(part) if not others & one.parts]
    failed = False
    # Where the kubelet is silent, nothing that it last said of a pod can be believed.
    down = {one.name for one in facts.nodes if not one.is_ready}
    for daemon in daemons:
        pods = [one for one in daemon.pods if one.node not in down]
        sick = {one.title: why for one in pods if (why := trouble_of(one, facts.now))}
        if sick:
            failed = True
            yield _failure(facts, stack, daemon, part, sick)
    if daemons and not failed:
        yield Good(f"the pods of {listed(one.title for one in daemons)} are well")


def trouble_of(pod: PodView, now: dt.datetime) -> str:
    """What keeps a pod from getting up; empty if nothing does, or it has not had the time yet."""
    for one in pod.containers:
        if one.waits_for in _STUCK:
            last = f", last end {one.last_end}" if one.last_end else ""
            said = f": {one.message}" if one.message else ""
            return f"container {one.name}: {one.waits_for}{last}{said}"
    if pod.phase == "Failed":
        reason, message = (pod.root.text_at("status", one) or "" for one in ("reason", "message"))
        return f"Failed {reason}: {message}"
    if pod.is_ready or pod.is_leaving or pod.has_ended:
        return ""
    ready = pod.conditions.get("Ready")
    since_s = pod.age_s(now) if ready is None or ready.since is None else (now - ready.since).total_seconds()
    if since_s < SLOW_S:
        return ""
    told = pod.verdict or (f"{ready.reason} {ready.message}".strip() if ready else "") or "nothing says why"
    return f"not ready for {since_s / 60:.0f} minutes: {told}"


def _failure(facts: Facts, stack: Stack, daemon: Daemon, part: StackPart, sick: dict[str, str]) -> Failure:
    pods = [one for one in daemon.pods if one.title in sick]
    names = {one.node for one in pods if one.node}
    nodes = [one for one in facts.nodes if one.name in names]
    first = pods[0]
    logs = logs_command(first)
    # What starts after this part suffers from it, and so does every pod on a GPU there.
    above = {
        one
        for other in stack.daemons
        if other is not daemon
        for one in (other.title, *_titles_on(other, names))
    }
    above |= {pod.title for name in names for pod in facts.pods_by_node.get(name, ()) if _starts_on_gpu(pod)}
    return Failure(
        f"{daemon.title}: the {part.value} does not get up on {listed(sorted(names)) or 'any node'}",
        (daemon.title, *sick),
        tuple(f"{title}: {why}" for title, why in sick.items()),
        (
            *((Remedy("read its last words", logs),) if logs else ()),
            Remedy(
                "read what the kubelet says of it",
                f"kubectl describe pod -n {first.namespace} {first.manifest.name}",
            ),
        ),
        frozenset({daemon.title, *sick, *(one.title for one in nodes), *above})
        | {one.title for one in facts.of_kind(*_OPERATORS)}
        | held_up_by(facts, [one for one in nodes if not one.offers]),
    )


def _starts_on_gpu(pod: PodView) -> bool:
    return pod.asks_for_gpu and not pod.is_ready


def _titles_on(daemon: Daemon, names: set[str]) -> Iterator[str]:
    """Pods of another part on the same nodes: what stands on this one fails with it."""
    return (pod.title for pod in daemon.pods if pod.node in names)


def drivers(facts: Facts) -> Iterator[Failure | Good]:
    """DaemonSets that bring the driver, and those that bring the container toolkit alone."""
    yield from failures_of(facts, StackPart.DRIVER)
    yield from failures_of(facts, StackPart.TOOLKIT, frozenset({StackPart.DRIVER}))


def plugins(facts: Facts) -> Iterator[Failure | Good]:
    """Device plugins."""
    yield from failures_of(facts, StackPart.PLUGIN)


def discovery(facts: Facts) -> Iterator[Failure | Good]:
    """DaemonSets that discover features or lay out MIG, and are no device plugin at the same time."""
    yield from failures_of(facts, StackPart.FEATURES, frozenset({StackPart.PLUGIN}))
    yield from failures_of(facts, StackPart.MIG_MANAGER, frozenset({StackPart.PLUGIN, StackPart.FEATURES}))


CHECKS = (
    Check(
        "driver-failing",
        Point.STACK,
        Layer.DRIVER,
        "Drivers and toolkits that run as pods are well",
        "Without driver and toolkit no other part of the stack sees a GPU.",
        drivers,
        ("DaemonSet", "Pod"),
    ),
    Check(
        "plugin-failing",
        Point.STACK,
        Layer.STACK,
        "Device plugins are well",
        "While the plugin of a node is down, the kubelet gives none of its GPUs to new pods.",
        plugins,
        ("DaemonSet", "Pod"),
    ),
    Check(
        "discovery-failing",
        Point.STACK,
        Layer.STACK,
        "Feature discovery and MIG managers are well",
        "Selectors match labels that discovery writes; without it new nodes have none.",
        discovery,
        ("DaemonSet", "Pod"),
    ),
)
