"""Claims: bound ones with a place, ones that wait for their first pod, limits of drivers, exclusive ones."""

from tests.differential.builder import HOSTNAME, ZONE, Builder
from tests.differential.cases import CASE_LABEL, Manifest, name_of, namespace_of

STORAGE_API = "storage.k8s.io/v1"
DISK_DRIVER = "disk.example.com"
COUNTED_DRIVER = "counted.example.com"
STRICT_DRIVER = "strict.example.com"
"""A driver without which a node gets none of its volumes."""
DRIVERS = (DISK_DRIVER, COUNTED_DRIVER, STRICT_DRIVER)
NO_PROVISIONER = "kubernetes.io/no-provisioner"
LATER = "WaitForFirstConsumer"
OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
SIZES = ("1Gi", "2Gi", "5G")
MODES = ("ReadWriteOnce", "ReadWriteMany", "ReadOnlyMany")


def furnish(case: Builder) -> None:
    """Classes, drivers on nodes, and pods that use volumes already."""
    draw = case.draw
    for node in case.nodes:
        if draw.chance(0.8):
            case.others.append(_csi_node(case, node))
    for pod in case.running:
        if draw.chance(0.4):
            _use(pod, _bound(case, pod, anywhere=True))
            if draw.chance(0.25):
                pod["spec"]["nodeName"] = f"{case.token}-gone"
    if draw.chance(0.3):
        _bound(case, case.asked[0])
    bound = [one for one in case.others if "csi" in one.get("spec", {})]
    if bound and draw.chance(0.5):
        case.others += [_attached(case, number, draw.choice(bound)) for number in range(draw.randint(1, 2))]


def _class(case: Builder, name: str) -> str:
    """The name of one of the case's classes, which is made when it is first spoken of."""
    full = f"{case.token}-{name}"
    if not any(one["kind"] == "StorageClass" and name_of(one) == full for one in case.others):
        provisioner, mode = CLASSES[name]
        found: Manifest = {
            "apiVersion": STORAGE_API,
            "kind": "StorageClass",
            "metadata": {"name": full},
            "provisioner": provisioner,
            "volumeBindingMode": mode,
        }
        if name == "made" and case.draw.chance(0.5):
            found["allowedTopologies"] = _topologies(case)
        case.others.append(found)
        if name == "counted":
            case.others += [_capacity(case, number) for number in range(case.draw.randint(1, 3))]
    return full


CLASSES = {
    "made": (DISK_DRIVER, LATER),
    "local": (NO_PROVISIONER, LATER),
    "counted": (COUNTED_DRIVER, LATER),
    "now": (DISK_DRIVER, "Immediate"),
}


def _topologies(case: Builder) -> list[Manifest]:
    draw = case.draw
    allowed = draw.one((ZONE, sorted({case.zone(), case.zone()})), (f"{case.token}/rack", ["1", "2"]))
    more = [(HOSTNAME, [case.one_node()])] if draw.chance(0.4) else []
    return [{"matchLabelExpressions": [{"key": key, "values": values}]} for key, values in (allowed, *more)]


def ask(case: Builder, pod: Manifest) -> None:
    """A pod with one to three claims of any kind, or one that it shares with a running pod."""
    draw = case.draw
    for _ in range(draw.one(1, 1, 2, 3)):
        kind = draw.random()
        if kind < 0.3:
            _use(pod, _bound(case, pod))
        elif kind < 0.55:
            _use(pod, _local(case, pod))
        elif kind < 0.7:
            _use(pod, _made(case, pod))
        elif kind < 0.82:
            _use(pod, _counted(case, pod))
        elif kind < 0.9:
            _use(pod, _shared(case, pod))
        elif kind < 0.95:
            _own(case, pod)
        else:
            _use(pod, _hopeless(case, pod))


def _use(pod: Manifest, claim: str) -> None:
    volumes = pod["spec"].setdefault("volumes", [])
    name = f"data-{len(volumes)}"
    volumes.append({"name": name, "persistentVolumeClaim": {"claimName": claim}})


def _csi_node(case: Builder, node: Manifest) -> Manifest:
    name = node["metadata"]["name"]
    drivers = []
    for driver in case.draw.some(DRIVERS, 1, 3):
        found: Manifest = {"name": driver, "nodeID": name, "topologyKeys": None}
        if case.draw.chance(0.8):
            found["allocatable"] = {"count": case.draw.one(1, 1, 2)}
        drivers.append(found)
    return {
        "apiVersion": STORAGE_API,
        "kind": "CSINode",
        "metadata": {"name": name},
        "spec": {"drivers": drivers},
    }


def _attached(case: Builder, number: int, volume: Manifest) -> Manifest:
    """A volume that is attached to a node, whether or not a pod uses it there."""
    return {
        "apiVersion": STORAGE_API,
        "kind": "VolumeAttachment",
        "metadata": {"name": f"{case.token}-attached{number}"},
        "spec": {
            "attacher": volume["spec"]["csi"]["driver"],
            "nodeName": case.one_node(),
            "source": {"persistentVolumeName": name_of(volume)},
        },
        "status": {"attached": True},
    }


def _capacity(case: Builder, number: int) -> Manifest:
    draw = case.draw
    found: Manifest = {
        "apiVersion": STORAGE_API,
        "kind": "CSIStorageCapacity",
        "metadata": {"name": f"{case.token}-c{number}", "namespace": "plain"},
        "storageClassName": f"{case.token}-counted",
    }
    of_case = {CASE_LABEL: case.token}
    if draw.chance(0.9):
        labels = draw.one(of_case, of_case | {ZONE: case.zone()}, {HOSTNAME: case.one_node()})
        found["nodeTopology"] = {"matchLabels": labels}
    if draw.chance(0.9):
        found["capacity"] = draw.one("0", "1Gi", "10Gi")
    if draw.chance(0.4):
        found["maximumVolumeSize"] = draw.one("1Gi", "3Gi")
    return found


def _claim(case: Builder, pod: Manifest, class_name: str, phase: str = "Pending", **spec: object) -> Manifest:
    draw = case.draw
    number = sum(one["kind"] == "PersistentVolumeClaim" for one in case.others)
    claim: Manifest = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": f"{case.token}-claim{number}", "namespace": namespace_of(pod)},
        "spec": {
            "accessModes": [draw.one(*MODES)],
            "resources": {"requests": {"storage": draw.one(*SIZES)}},
            "storageClassName": class_name,
            **spec,
        },
        "status": {"phase": phase},
    }
    case.others.append(claim)
    return claim


def _volume(case: Builder, class_name: str, phase: str, **spec: object) -> Manifest:
    draw = case.draw
    number = sum(one["kind"] == "PersistentVolume" for one in case.others)
    name = f"{case.token}-volume{number}"
    source: Manifest = {"hostPath": {"path": "/volume"}}
    if draw.chance(0.75):
        source = {"csi": {"driver": draw.choice(DRIVERS), "volumeHandle": name}}
    volume: Manifest = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "labels": {"tier": draw.one("fast", "slow")}},
        "spec": {
            "capacity": {"storage": draw.one(*SIZES)},
            "accessModes": draw.some(MODES, 1, 3),
            "storageClassName": class_name,
            "persistentVolumeReclaimPolicy": "Retain",
            **source,
            **spec,
        },
        "status": {"phase": phase},
    }
    case.others.append(volume)
    return volume


def _place(case: Builder, volume: Manifest) -> None:
    """Say where a volume can be used: by its affinity, by zone labels as of old, or not at all."""
    draw = case.draw
    if draw.chance(0.6):
        key, values = draw.one(
            (HOSTNAME, [case.one_node()]),
            (ZONE, sorted({case.zone(), case.zone()})),
            (f"{case.token}/rack", ["1", "2"]),
        )
        terms = [
            {"matchExpressions": [{"key": key, "operator": draw.one("In", "In", "NotIn"), "values": values}]}
        ]
        if draw.chance(0.3):
            terms.append(
                {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": [case.one_node()]}]}
            )
        volume["spec"]["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    if draw.chance(0.3):
        zones = draw.one(case.zone(), f"{case.zone()}__{case.zone()}")
        volume["metadata"]["labels"][draw.one(ZONE, ZONE, OLD_ZONE)] = zones


def _bound(case: Builder, pod: Manifest, *, anywhere: bool = False) -> str:
    """A claim that has its volume."""
    draw = case.draw
    volume = _volume(case, "", "Bound")
    claim = _claim(case, pod, "", "Bound", volumeName=volume["metadata"]["name"])
    modes = [draw.one(*MODES, "ReadWriteOncePod", "ReadWriteOncePod")]
    for one in (volume, claim):
        one["spec"]["accessModes"] = modes
    claim["spec"]["resources"]["requests"]["storage"] = "1G"
    metadata = claim["metadata"]
    volume["spec"]["claimRef"] = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": metadata["namespace"],
        "name": metadata["name"],
    }
    if not anywhere:
        _place(case, volume)
    return str(metadata["name"])


def _local(case: Builder, pod: Manifest) -> str:
    """A claim for one of a few volumes that are there already."""
    draw = case.draw
    class_name = _class(case, "local")
    for _ in range(draw.randint(0, 3)):
        volume = _volume(case, class_name, "Available")
        _place(case, volume)
        if draw.chance(0.1):
            volume["spec"]["volumeMode"] = "Block"
    claim = _claim(case, pod, class_name)
    if draw.chance(0.2):
        claim["spec"]["selector"] = {"matchLabels": {"tier": draw.one("fast", "slow")}}
    if draw.chance(0.1):
        claim["spec"]["accessModes"] = ["ReadWriteOncePod"]
    return str(claim["metadata"]["name"])


def _made(case: Builder, pod: Manifest) -> str:
    """A claim for which a volume is made where the pod goes."""
    claim = _claim(case, pod, _class(case, "made"))
    if case.draw.chance(0.2):
        claim["metadata"]["annotations"] = {"volume.kubernetes.io/selected-node": case.one_node()}
    return str(claim["metadata"]["name"])


def _counted(case: Builder, pod: Manifest) -> str:
    """The same by a driver that says how much room it has."""
    return str(_claim(case, pod, _class(case, "counted"))["metadata"]["name"])


def _shared(case: Builder, pod: Manifest) -> str:
    """A claim that a running pod uses, if there is one; the pod moves into its namespace."""
    users = [one for one in case.running if "volumes" in one["spec"]]
    if not users or "volumes" in pod["spec"]:
        return _bound(case, pod)
    user = case.draw.choice(users)
    pod["metadata"]["namespace"] = namespace_of(user)
    volume = case.draw.choice(user["spec"]["volumes"])
    return str(volume["persistentVolumeClaim"]["claimName"])


def _own(case: Builder, pod: Manifest) -> None:
    """A volume that lives and dies with the pod: the claim for it is made by a controller."""
    template = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": case.draw.one(*SIZES)}},
        "storageClassName": _class(case, case.draw.one("made", "counted", "now")),
    }
    volumes = pod["spec"].setdefault("volumes", [])
    name = f"own-{len(volumes)}"
    volumes.append({"name": name, "ephemeral": {"volumeClaimTemplate": {"spec": template}}})


def _hopeless(case: Builder, pod: Manifest) -> str:
    """A claim that nothing will come of, or none at all."""
    draw = case.draw
    match draw.one("missing", "immediate", "no class", "unknown class", "lost", "deleted"):
        case "missing":
            return f"{case.token}-missing"
        case "immediate":
            claim = _claim(case, pod, _class(case, "now"))
        case "no class":
            claim = _claim(case, pod, "")
        case "unknown class":
            claim = _claim(case, pod, f"{case.token}-unknown")
        case "lost":
            claim = _claim(case, pod, "", "Lost", volumeName=f"{case.token}-none")
            claim["metadata"]["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
        case _:
            claim = _claim(case, pod, _class(case, "made"))
            claim["metadata"]["deletionTimestamp"] = "soon"
    return str(claim["metadata"]["name"])
