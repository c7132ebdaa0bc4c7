"""The promises of a node, judged by what its containers have: nothing is asked of the agent but its report.

I1 and I14 are judged at each start of a container, I4, I9 and I12 when the run has come to rest.
"""

from collections import Counter
from collections.abc import Iterator

from gpufleet.agent.units.node_units import device_of
from gpufleet.kube import keys
from gpufleet.kube.codec.grant import read_grant
from gpufleet.model.device import WHOLE_GPU_MILLI
from gpufleet.simulation.api_server import ApiServer
from gpufleet.simulation.history import NODE_DEVICES
from gpufleet.simulation.invariants import Broken
from gpufleet.simulation.node.kubelet import Devices, SimulatedKubelet
from gpufleet.simulation.refusal import JsonObject

PROMISES = {
    "alive": "the agent never ends by a mistake of its own, and no part of it fails",
    "I1": "no device is given to running containers beyond what it has",
    "I4": "at rest, containers, kubelet and report agree on each device",
    "I9": "at rest, a pod that is granted free devices starts",
    "I12": "at rest, a container that starts again has its own devices",
    "I14": "a container has devices of the size and number that were granted",
}


def granted_devices(pod: JsonObject) -> Devices:
    """The devices that a pod was granted, with the thousandths of each; none without a grant."""
    text = pod["metadata"].get("annotations", {}).get(keys.GRANT)
    grant = None if text is None else read_grant(text)
    containers = () if grant is None else grant.containers
    return tuple((str(one.id), one.gpu_milli) for part in containers for one in part.devices)


def at_start(kubelet: SimulatedKubelet, uid: str, at_s: float) -> Iterator[Broken]:
    """I1 and I14, when the container of a pod has started."""
    used: Counter[str] = Counter()
    for devices in kubelet.using.values():
        used.update(dict(devices))
    for device, milli in used.items():
        if milli > WHOLE_GPU_MILLI:
            owners = [owner for owner, its in kubelet.using.items() if device in dict(its)]
            yield Broken("I1", at_s, 0, f"{device} is used {milli} thousandths by {owners}")
    granted, has = granted_devices(kubelet.pods[uid]), kubelet.using[uid]
    if granted and sorted(milli for _, milli in granted) != sorted(milli for _, milli in has):
        yield Broken("I14", at_s, 0, f"{uid} was granted {granted} and has {has}")
    # Whole GPUs may be exchanged between pods that were granted as many; a share is on the GPU of its grant.
    if granted and granted[0][1] < WHOLE_GPU_MILLI and set(granted) != set(has):
        yield Broken("I14", at_s, 0, f"{uid} was granted {granted} and has {has}")


def reported_devices(server: ApiServer, node: str) -> dict[str, set[str]]:
    """The devices that the node's report names for each pod, by UID; those of unknown pods under ""."""
    report = server.store.get(NODE_DEVICES, ("", node))
    found: dict[str, set[str]] = {}
    for one in () if report is None else report["spec"].get("holders") or ():
        found.setdefault(one.get("podUID", ""), set()).add(one["device"])
    return found


def at_rest(kubelet: SimulatedKubelet, server: ApiServer, node: str, at_s: float) -> Iterator[Broken]:
    """I4: what the containers have is what the kubelet gave and what the node reports.

    Where the kubelet has lost its allocation of a pod, the report may name the pod's grant, too: an agent
    that died before it wrote down what the kubelet listed has contradicting sources, and both count.
    """
    reported = reported_devices(server, node)
    running = {uid: {device for device, _ in its} for uid, its in kubelet.using.items()}
    for uid in sorted(running.keys() | reported.keys()):
        has, told = running.get(uid, set()), reported.get(uid, set())
        forgotten = uid in running and uid not in kubelet.allocated
        may = has | {device for device, _ in granted_devices(kubelet.pods[uid])} if forgotten else has
        if not has <= told <= may:
            yield Broken("I4", at_s, 0, f"{uid} has {sorted(has)}, and {sorted(told)} is reported")
    for uid, allocation in sorted(kubelet.allocated.items()):
        given = {device_of(unit) for unit in allocation.units}
        if uid not in running:
            yield Broken("I4", at_s, 0, f"the kubelet keeps {sorted(given)} for {uid}, which does not run")
        elif allocation.resource != keys.GPU_SHARE and given != running[uid]:
            yield Broken("I4", at_s, 0, f"{uid} has {sorted(running[uid])}, given {sorted(given)}")


def own_devices(
    kubelet: SimulatedKubelet, uid: str, before: Devices, reported: set[str], at_s: float
) -> Iterator[Broken]:
    """I12: a container that started again at rest has as many devices as before, all of them its own."""
    after = kubelet.using.get(uid, ())
    own = {device for device, _ in before} | reported
    if uid in kubelet.pods and (len(after) != len(before) or not {device for device, _ in after} <= own):
        why = kubelet.failed.get(uid, "")
        yield Broken("I12", at_s, 0, f"{uid} had {before} and has {after} after its restart; {why}")


def was_served(kubelet: SimulatedKubelet, pod: JsonObject, at_s: float) -> Iterator[Broken]:
    """I9: a pod that was granted free devices at rest runs."""
    uid = pod["metadata"]["uid"]
    if uid not in kubelet.using and (uid in kubelet.pods or uid in kubelet.failed):
        yield Broken("I9", at_s, 0, f"{pod['metadata']['name']} does not start: {kubelet.failed.get(uid)}")
