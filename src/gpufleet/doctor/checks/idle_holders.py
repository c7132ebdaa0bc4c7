"""GPU pods that hold GPUs and do not run: their image does not come, or they crash again and again."""

from collections.abc import Iterator

from gpufleet.doctor.check import Check, Failure, Good, Layer, Point, Remedy, listed
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.objects.pods import ContainerState, PodView
from gpufleet.model.phrases import counted, none_of

# Reasons of waiting, each with another way out.
_PULLING = frozenset({"ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull"})
_CONFIGURATION = frozenset({"CreateContainerConfigError"})
_CRASHING = frozenset({"CrashLoopBackOff"})
_KILLED = "OOMKilled"


def judge(facts: Facts) -> Iterator[Failure | Good]:
    """Each workload with such pods, by what keeps them from running."""
    found: dict[tuple[str, str], list[tuple[PodView, ContainerState]]] = {}
    running = 0
    for pod in facts.pods:
        if not pod.asks_for_gpu or not pod.node or pod.has_ended or pod.template.is_gpu_infrastructure:
            continue
        running += 1
        workload = facts.gpu_workload_above(pod.manifest)
        for state in pod.containers:
            if why := _why(state):
                title = workload.title if workload is not None else pod.title
                found.setdefault((title, why), []).append((pod, state))
                # One such container is enough: the pod counts once.
                break
    for (title, why), group in found.items():
        yield _failure(title, why, group)
    if running and not found:
        yield Good(f"{none_of(running, 'GPU pod')} on nodes is stuck at its image or crashes again and again")


def _why(state: ContainerState) -> str:
    if state.waits_for in _PULLING:
        return "its image does not come"
    if state.waits_for in _CONFIGURATION:
        return "what its container refers to is not there"
    # What ends for want of memory is told apart, with its limit.
    return "it crashes again and again" if state.waits_for in _CRASHING and state.last_end != _KILLED else ""


def _failure(title: str, why: str, group: list[tuple[PodView, ContainerState]]) -> Failure:
    pods = [pod for pod, _ in group]
    gpus = sum(pod.template.device_count for pod in pods)
    first, state = group[0]
    named = f"-n {first.namespace} {first.manifest.name}"
    is_crash = state.waits_for in _CRASHING
    if is_crash:
        mend = Remedy("read why it ended", f"kubectl logs {named} -c {state.name} --previous")
    else:
        does = "mend what the message names: image, registry, pull secret, key"
        mend = Remedy(does, f"kubectl describe pod {named}")
    seen = (
        f"{pod.title}: container {one.name} {one.waits_for}, {counted(one.restarts, 'restart')}"
        # What a program wrote as it ended may be anything, also what not every reader may see.
        + (f": {one.message}" if one.message and not is_crash else "")
        for pod, one in group
    )
    where = listed(dict.fromkeys(pod.node for pod in pods))
    return Failure(
        f"{title}: holds {counted(gpus, 'GPU')} on {where} and does not run, {why}",
        (title,),
        tuple(seen),
        (mend,),
        frozenset({title, *(pod.title for pod in pods)}),
    )


CHECK = Check(
    "gpus-held-by-broken",
    Point.UPGRADES,
    Layer.RUNNING,
    "What holds GPUs runs",
    "A pod holds its GPUs from the moment it has a node, whether or not it ever starts.",
    judge,
    ("Pod",),
)
