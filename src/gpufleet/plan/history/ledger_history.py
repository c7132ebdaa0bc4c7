"""A history out of a file of the cost ledger, or of `gpufleet cost --save`.

The ledger knows what pods held and since when. It does not know what else a pod would have taken, so work is
asked for on the model that it ran on, and what never ran is missing.
"""

from collections.abc import Iterable

from gpufleet.ledger.interval_log import IntervalLog
from gpufleet.ledger.log_file import read_log
from gpufleet.ledger.versions import DevicesVersion, Gone, ObjectKind, PodVersion
from gpufleet.model.device import WHOLE_GPU_MILLI
from gpufleet.model.grant import GrantKind
from gpufleet.model.identifiers import DEFAULT_QUEUE, DeviceId, GangName, GpuModelName
from gpufleet.model.phrases import counted
from gpufleet.model.resources import Resources
from gpufleet.model.shape import GpuRequest, Shape
from gpufleet.plan.history.recorded_work import SeenPod, SeenWork

NOTE = "a ledger tells no other models, nodes or taints that work would take: it stays on the model it ran on"


def work_of_ledger(lines: Iterable[bytes], name: str) -> SeenWork:
    """The work in a file of observations. Raises InputError."""
    log = IntervalLog()
    read_log(lines, name, log)
    pods: dict[str, list[PodVersion]] = {}
    models: dict[DeviceId, str] = {}
    gone_us: dict[str, int] = {}
    for seen in log.seen():
        if isinstance(seen, PodVersion):
            pods.setdefault(seen.uid, []).append(seen)
        elif isinstance(seen, DevicesVersion):
            models.update({one.id: one.model for one in seen.devices if one.model})
        elif isinstance(seen, Gone) and seen.kind is ObjectKind.POD:
            gone_us[seen.uid] = seen.at_us
    work, cut, least = [], 0, {}
    for uid, versions in pods.items():
        last = max(versions, key=lambda one: one.number)
        if any(one.kind not in (GrantKind.WHOLE, GrantKind.SHARE) for one in last.devices):
            cut += 1
            continue
        if not last.devices or last.bound_us is None:
            continue
        pod = _seen_pod(versions, last, models, gone_us.get(uid))
        work.append(pod)
        if pod.gang is not None:
            least[pod.gang] = last.gang_members
    notes = [NOTE]
    if cut:
        notes.append(
            f"{counted(cut, 'pod')} on parts of cut cards: left out, as MIG instances are not planned"
        )
    begin_us = min((pod.created_us for pod in work), default=0)
    return SeenWork(tuple(work), least, begin_us, name, tuple(notes))


def _seen_pod(
    versions: list[PodVersion], last: PodVersion, models: dict[DeviceId, str], gone_us: int | None
) -> SeenPod:
    bound_us = last.bound_us or 0
    # A version without a node is of the time in which the pod waited; its stamps begin with the creation.
    waited_us = [one.at_us for one in versions if not one.node]
    ended_us = last.ended_us if last.ended_us is not None else gone_us
    milli = last.devices[0].gpu_milli if len(last.devices) == 1 else WHOLE_GPU_MILLI
    names = sorted({models[one.device] for one in last.devices if one.device in models})
    gpu = GpuRequest(len(last.devices), milli, None, tuple(map(GpuModelName, names)))
    shape = Shape(resources=Resources(last.cpu_milli, last.memory_bytes), gpu=gpu)
    return SeenPod(
        f"{last.namespace}/{last.name}",
        shape,
        min([*waited_us, bound_us]),
        bound_us,
        ended_us,
        last.queue or DEFAULT_QUEUE,
        gang=GangName(last.gang) if last.gang else None,
    )
