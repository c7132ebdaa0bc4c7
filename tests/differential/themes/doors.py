"""Host ports, scheduling gates, node features and limits of pods: small things that rule nodes out."""

from tests.differential.builder import Builder
from tests.differential.cases import Manifest

ADDRESSES = ("", "0.0.0.0", "127.0.0.1", "10.0.0.1", "::", "::1")  # noqa: S104  (nobody listens)
PROTOCOLS = ("TCP", "UDP", "SCTP")
PORTS = (80, 443)
FEATURES = (
    "RestartAllContainersOnContainerExits",
    "UserNamespacesHostNetworkSupport",
    "VolumeBindMountOptions",
)


def furnish_ports(case: Builder) -> None:
    """Pods that hold ports."""
    case.one_more_running()
    for pod in case.running:
        _take_ports(case, pod)


def ask_ports(case: Builder, pod: Manifest) -> None:
    """A pod that wants ports, at times in the network of its host."""
    _take_ports(case, pod)


def _take_ports(case: Builder, pod: Manifest) -> None:
    draw, spec = case.draw, pod["spec"]
    doors = [(port, protocol) for port in PORTS for protocol in PROTOCOLS]
    ports = []
    for port, protocol in draw.some(doors, 1, 2):
        found: Manifest = {"containerPort": port, "hostPort": port, "protocol": protocol}
        address = draw.one(*ADDRESSES)
        if address:
            found["hostIP"] = address
        ports.append(found)
    containers = spec["containers"]
    if draw.chance(0.3):
        init = {"name": "helper", "image": "none"}
        if draw.chance(0.6):
            init["restartPolicy"] = "Always"
        spec["initContainers"] = [*spec.get("initContainers", ()), init]
        containers = [init]
    containers[0]["ports"] = ports
    if draw.chance(0.15):
        spec["hostNetwork"] = True


def furnish_features(case: Builder) -> None:
    """Nodes whose kubelets say what they can do."""
    for node in case.nodes:
        if case.draw.chance(0.8):
            node["status"]["declaredFeatures"] = sorted(case.draw.some(FEATURES, 0, 3))


def ask_features(case: Builder, pod: Manifest) -> None:
    """A pod that only works where its node has a feature."""
    draw, spec = case.draw, pod["spec"]
    container = spec["containers"][0]
    match draw.one(*FEATURES, ""):
        case "RestartAllContainersOnContainerExits":
            codes = {"operator": "In", "values": [42]}
            rule = {"action": "RestartAllContainers", "exitCodes": codes}
            container |= {"restartPolicy": "Never", "restartPolicyRules": [rule]}
        case "UserNamespacesHostNetworkSupport":
            spec |= {"hostNetwork": True, "hostUsers": False}
        case "VolumeBindMountOptions":
            spec["volumes"] = [{"name": "scratch", "emptyDir": {}}]
            mount = {"name": "scratch", "mountPath": "/scratch", "bindMountOptions": ["noexec"]}
            container["volumeMounts"] = [mount]
        case _:
            pass


def furnish_crowd(case: Builder) -> None:
    """Pods that ended, pods on their way out, and nodes full of pods."""
    draw = case.draw
    for node in case.nodes:
        node["status"]["allocatable"]["pods"] = draw.one("1", "1", "2")
    case.one_more_running()
    for pod in case.running:
        fate = draw.random()
        if fate < 0.2:
            pod["status"] = {"phase": draw.one("Succeeded", "Failed")}
        elif fate < 0.4:
            pod["status"] = {"phase": "Running"}
        elif fate < 0.6:
            pod["metadata"]["deletionTimestamp"] = "soon"


def ask_gates(case: Builder, pod: Manifest) -> None:
    """A pod that perhaps nobody may place yet."""
    if case.draw.chance(0.4):
        pod["spec"]["schedulingGates"] = [{"name": "example.com/quota"}]
