"""Pods that need no engine to be explained: those that have a node, or ended.

Those that are another scheduler's are explained in ``foreign_pods``.
"""

from gpufleet.cluster.facts import Facts
from gpufleet.cluster.mig_layouts.managed_cards import cut_times
from gpufleet.cluster.pods.effective_terms import ignored_note
from gpufleet.explain.answer import DeviceRow, Finding, Placement
from gpufleet.kube import keys, resources
from gpufleet.kube.codec.field_path import harmless
from gpufleet.kube.codec.grant import read_grant
from gpufleet.kube.codec.moved import Moved, read_moved
from gpufleet.kube.kube_errors import ObjectError
from gpufleet.kube.objects.node_devices import NodeDevices
from gpufleet.kube.objects.pod import Pod
from gpufleet.model.gpu_unit import GpuUnit, unit_of
from gpufleet.model.grant import GrantKind
from gpufleet.model.identifiers import DeviceId
from gpufleet.model.model_errors import printable
from gpufleet.model.phrases import counted


def placement(facts: Facts, pod: Pod) -> Placement:
    """A placed pod's node and the devices of its grant."""
    node = pod.spec.node_name
    text = pod.metadata.annotations.get(keys.GRANT)
    if text is None:
        return Placement(node)
    try:
        grant = read_grant(text)
    except ObjectError:
        return Placement(node)
    report: NodeDevices | None = facts.picture.find(resources.NODE_DEVICES, node)
    models = {} if report is None else {device.id: device.model for device in report.spec.devices}
    rows = tuple(
        DeviceRow(
            part.container,
            device.id,
            device.kind.value,
            harmless(models.get(device.id, "")),
            device.gpu_milli,
            device.memory_mib,
        )
        for part in grant.containers
        for device in part.devices
    )
    return Placement(node, rows)


def placed_words(facts: Facts, pod: Pod) -> str:
    """Where a pod is, and which scheduler placed it there."""
    doing = (
        "runs" if pod.status.phase == "Running" else f"is placed ({harmless(pod.status.phase or 'Pending')})"
    )
    with_gpus = _with_gpus(placement(facts, pod).devices)
    ours = pod.spec.scheduler_name == facts.settings.scheduler_name
    by = "" if ours else f", placed by {harmless(pod.spec.scheduler_name)}"
    return f"{doing} on {harmless(pod.spec.node_name)}{with_gpus}{by}"


def _with_gpus(rows: tuple[DeviceRow, ...]) -> str:
    count = len({row.id for row in rows})
    if not count:
        return ""
    if rows[0].kind == GrantKind.WHOLE.value:
        units = {unit_of(DeviceId(row.id)) for row in rows}
        return f" with {counted(count, units.pop() if len(units) == 1 else GpuUnit.GPU)}"
    part = f"{rows[0].gpu_milli / 1000:g}" if rows[0].gpu_milli else f"{rows[0].memory_mib} MiB"
    return f" with {part} of {'a GPU' if count == 1 else f'{count} GPUs'}"


def placed_notes(facts: Facts, pod: Pod) -> list[str]:
    """What is odd about a placed pod."""
    notes = []
    text = pod.metadata.annotations.get(keys.GRANT)
    if text is not None:
        try:
            read_grant(text)
        except ObjectError as problem:
            notes.append(f"its grant cannot be read, its GPUs are counted as unknown ones: {problem}")
    entry = facts.entry(pod)
    if entry is not None and entry.ignored:
        notes.append(ignored_note(entry.ignored))
    moved = read_moved(pod)
    if moved is not None:
        notes.append(_moved_words(moved))
    node = facts.picture.find(resources.NODES, pod.spec.node_name)
    notes += cut_times(pod, node)
    if node is None:
        notes.append(f"its node {harmless(pod.spec.node_name)} is gone")
    if pod.status.phase == "Pending" and pod.status.start_time is not None:
        told = f"kubectl describe pod {harmless(pod.metadata.name)} -n {harmless(pod.metadata.namespace)}"
        notes.append(f"its containers do not run yet; {told} shows what its kubelet waits for")
    if pod.metadata.deletion_timestamp is not None:
        notes.append("it is being deleted and holds its room until it has ended")
    return notes


def _moved_words(moved: Moved) -> str:
    """Which moved pod a pod replaces, and why that one had to leave."""
    kind, _, name = moved.beneficiary.partition(" ")
    whom = f"{kind} {harmless(name)}" if kind in {"pod", "gang"} else harmless(moved.beneficiary)
    what_for = f"so that {whom} could start" if moved.beneficiary else "to put room together"
    left, node = harmless(moved.pod), harmless(moved.node)
    lost = f"{moved.lost_gpu_s / 60:.1f} GPU-minutes"
    away = f"it came in place of {left}, which was moved away from {node} {what_for}"
    return f"{away}; that cost {lost} of work"


def ended(pod: Pod) -> Finding:
    """How a pod ended."""
    turned_away = pod.rejection
    if turned_away:
        why = f"the kubelet of {harmless(pod.spec.node_name)} turned it away: {turned_away}"
        return Finding("rejected", why, ("its controller makes another; a bare pod must be made anew",))
    reason = f" ({printable(pod.status.reason)})" if pod.status.reason else ""
    return Finding("ended", f"it ended: {pod.status.phase}{reason}")
