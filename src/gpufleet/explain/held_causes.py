"""Causes for which the scheduler does not even look for a place: gates, claims, groups, bad words."""

from gpufleet.cluster.claims.pod_claims import claims_of
from gpufleet.cluster.claims.usable_claims import LookedUp
from gpufleet.cluster.facts import Facts
from gpufleet.cluster.pods.pod_reader import MALFORMED, Held
from gpufleet.explain.answer import Finding
from gpufleet.kube import keys, resources
from gpufleet.kube.codec.field_path import harmless
from gpufleet.kube.codec.waits import WaitReason
from gpufleet.kube.objects.pod import Pod
from gpufleet.kube.objects.storage import PersistentVolumeClaim, StorageClass
from gpufleet.kube.resources import Kind
from gpufleet.model.label_advice import nearest
from gpufleet.model.phrases import listed

# Gates of this domain are Kueue's, which lifts them when it admits the workload.
KUEUE_GATE = "kueue.x-k8s.io/"
# The reasons of a held pod, as causes of an answer.
CAUSE_BY_REASON = {
    MALFORMED: "malformed",
    WaitReason.RESOURCE_CLAIM.value: "resource-claim",
    WaitReason.CLAIM_MISSING.value: "claim-missing",
    WaitReason.CLAIM_LOST.value: "claim-lost",
    WaitReason.CLAIM_DELETED.value: "claim-deleted",
    WaitReason.CLAIM_FOREIGN.value: "claim-foreign",
    WaitReason.CLAIM_UNBOUND.value: "claim-unbound",
    WaitReason.CLASS_MISSING.value: "class-missing",
    WaitReason.VOLUME_MISSING.value: "volume-missing",
    WaitReason.GROUP_MISSING.value: "group-missing",
}


def gates(pod: Pod) -> Finding:
    """Scheduling gates that another controller must lift."""
    names = [gate.name for gate in pod.spec.scheduling_gates]
    why = f"its scheduling gates are closed: {listed(names)}"
    kueues = [name for name in names if name.startswith(KUEUE_GATE)]
    others = [name for name in names if name not in kueues]
    ways = [_kueue_way(pod, kueues)] if kueues else []
    if others:
        gate = f"gate {listed(others)}" if kueues else "gate"
        ways.append(f"the controller that closed the {gate} opens it; no scheduler looks at the pod before")
    return Finding("gated", why, tuple(ways))


def _kueue_way(pod: Pod, kueues: list[str]) -> str:
    queue = pod.metadata.labels.get(keys.KUEUE_QUEUE, "")
    if not queue:
        names_none = f"it names none (label {keys.KUEUE_QUEUE})"
        return f"Kueue opens {listed(kueues)} when a queue admits the pod, and {names_none}"
    return f"Kueue opens {listed(kueues)} when its queue {harmless(queue)} admits it"


def held(facts: Facts, pod: Pod, found: Held) -> Finding:
    """What the scheduler's tracker says of a pod that it does not hand to the engine."""
    cause = CAUSE_BY_REASON.get(found.reason, "held")
    return Finding(cause, found.message, tuple(_ways(facts, pod, cause)))


def _ways(facts: Facts, pod: Pod, cause: str) -> list[str]:
    match cause:
        case "malformed":
            return [
                "correct that field; labels and annotations can be edited, most of a spec only by a new pod"
            ]
        case "resource-claim":
            return claims_of(pod, facts.picture, LookedUp(facts.picture)).ways
        case "claim-missing":
            return _create(facts, pod, _claim_names(pod), resources.PERSISTENT_VOLUME_CLAIMS)
        case "class-missing":
            asked = [claim.storage_class for claim in _claims(facts, pod) if claim.storage_class]
            return _create(facts, pod, asked, resources.STORAGE_CLASSES)
        case "claim-unbound":
            return [way for claim in _claims(facts, pod) if not claim.bound for way in _binding(facts, claim)]
        case "claim-lost" | "volume-missing":
            return ["the data is gone with the volume: delete the claim and make it anew"]
        case "claim-deleted":
            return ["the claim goes when no pod uses it any more: make it anew, or use another"]
        case "claim-foreign":
            return ["rename the pod or its ephemeral volume, or delete the claim of that name"]
        case "group-missing":
            return _group_ways(facts, pod)
    return []


def _claim_names(pod: Pod) -> list[str]:
    sources = [volume.persistent_volume_claim for volume in pod.spec.volumes]
    return [source.claim_name for source in sources if source is not None]


def _claims(facts: Facts, pod: Pod) -> list[PersistentVolumeClaim]:
    namespace = pod.metadata.namespace
    kind = resources.PERSISTENT_VOLUME_CLAIMS
    found = (facts.picture.find(kind, name, namespace) for name in _claim_names(pod))
    return [claim for claim in found if claim is not None]


def _create(facts: Facts, pod: Pod, names: list[str], kind: Kind) -> list[str]:
    namespace = pod.metadata.namespace if kind.namespaced else ""
    known = [key[1] for key in facts.picture.objects.get(kind, {}) if key[0] == namespace]
    ways = []
    for name in names:
        if name in known:
            continue
        meant = nearest(name, known)
        ways += [f"did you mean {harmless(meant)}?"] if meant else []
        ways.append(f"create the {kind.name} {harmless(name)}")
    if known and not any(way.startswith("did") for way in ways):
        ways.append(f"there are {listed(sorted(known))}")
    return ways


def _binding(facts: Facts, claim: PersistentVolumeClaim) -> list[str]:
    name = harmless(claim.metadata.name)
    classes: list[StorageClass] = list(facts.picture.all(resources.STORAGE_CLASSES))
    if not claim.storage_class:
        there = listed(sorted(one.metadata.name for one in classes)) or "none"
        return [f"claim {name} names no storageClassName and got no default class; there are: {there}"]
    found = next((one for one in classes if one.metadata.name == claim.storage_class), None)
    maker = "the volume controller" if found is None else harmless(found.provisioner)
    look = f"kubectl describe pvc {name} -n {harmless(claim.metadata.namespace)}"
    return [f"see why {maker} does not bind it: {look}"]


def _group_ways(facts: Facts, pod: Pod) -> list[str]:
    group = pod.spec.scheduling_group
    if group is None or group.pod_group_name is None:
        return ["create the group that it names, or correct the name"]
    kinds = (resources.POD_GROUPS_V1BETA1, resources.POD_GROUPS_V1ALPHA2)
    kind = next((one for one in kinds if facts.picture.objects.get(one)), kinds[0])
    return _create(facts, pod, [group.pod_group_name], kind)
