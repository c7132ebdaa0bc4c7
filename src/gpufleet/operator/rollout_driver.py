"""The DaemonSet that brings a driver to nodes with its label.

A driver comes by a DaemonSet for each image, whose pods run on nodes with the label ``DRIVER_LABEL`` of this
image: to change a driver is to change that label. The container is started as NVIDIA's driver containers
expect it, so that their images run unchanged: ``tests/operator/oracles/driver_pods.yaml`` holds it against
the pods that NVIDIA's operator makes. ``rollout_actions`` writes this object.
"""

from typing import Any, NamedTuple

from gpufleet.model.fleet_policy import Driver, KernelModules
from gpufleet.operator.node_objects import DRIVER_LABEL
from gpufleet.operator.rollout_objects import (
    NAME_DIGITS,
    READY_FILE,
    VALIDATIONS,
    daemon_set_of,
    image_key,
)

MADE_HERE, FOLDER = "DirectoryOrCreate", "Directory"
FROM_CONTAINER, FROM_HOST = "Bidirectional", "HostToContainer"


class Mount(NamedTuple):
    """A path of the host, and where the container has it: at the same path, unless ``inside`` says another.

    ``kind`` is the type of the hostPath, "" for any; ``propagation`` is "" for none.
    """

    name: str
    path: str
    kind: str = ""
    propagation: str = ""
    inside: str = ""
    read_only: bool = False


# The folder of the host's modules, /lib/modules, is none of these: an image that builds its modules empties
# the folder of the running kernel first, which has to be its own.
MOUNTS = (
    # What the driver's container mounts below it has to be seen by the host and by other containers.
    Mount("run-nvidia", "/run/nvidia", MADE_HERE, FROM_CONTAINER),
    # The fabric manager of NVSwitch systems, and the topology of virtual GPUs, have their sockets here.
    Mount("fabric-manager", "/run/nvidia-fabricmanager", MADE_HERE),
    Mount("topology", "/run/nvidia-topologyd", MADE_HERE),
    Mount("logs", "/var/log"),
    Mount("log-socket", "/dev/log"),
    Mount("os-release", "/etc/os-release", inside="/host-etc/os-release", read_only=True),
    # Modules for RDMA are built against the network driver that another container brought.
    Mount("network-driver", "/run/mellanox/drivers", MADE_HERE, FROM_HOST),
    Mount("network-driver-sources", "/run/mellanox/drivers/usr/src", MADE_HERE, FROM_HOST),
    # The kernel searches the driver's firmware where this file says: in the folder below, which outlives the
    # container, so that a GPU that wakes finds it.
    Mount("firmware-path", "/sys/module/firmware_class/parameters/path"),
    Mount("firmware", "/run/nvidia/driver/lib/firmware", MADE_HERE, inside="/lib/firmware"),
    # Memory of a Grace processor's GPU comes online as the driver says here.
    Mount("system-devices", "/sys/devices/system", FOLDER),
)


def daemon_set_name(image: str) -> str:
    """The name of the DaemonSet of an image."""
    return f"gpufleet-driver-{image_key(image)[:NAME_DIGITS]}"


def daemon_set(namespace: str, driver: Driver, image: str) -> dict[str, Any]:
    """The DaemonSet of a driver's image."""
    label = (DRIVER_LABEL, image_key(image))
    return daemon_set_of(namespace, daemon_set_name(image), "gpufleet-driver", label, _pod(driver, image))


def _pod(driver: Driver, image: str) -> dict[str, Any]:
    container = {
        "name": "nvidia-driver-ctr",
        "image": image,
        "command": ["nvidia-driver"],
        "args": ["init"],
        "env": _environment(driver),
        "securityContext": {"privileged": True, "seLinuxOptions": {"level": "s0"}},
        "volumeMounts": [
            {
                "name": one.name,
                "mountPath": one.inside or one.path,
                **({"mountPropagation": one.propagation} if one.propagation else {}),
                **({"readOnly": True} if one.read_only else {}),
            }
            for one in MOUNTS
        ],
        # NVIDIA's operands wait for the file that this makes. A driver that is built on its node has an
        # hour.
        "startupProbe": _exec(f"nvidia-smi && mkdir -p {VALIDATIONS} && touch {READY_FILE}")
        | {"initialDelaySeconds": 5, "periodSeconds": 10, "failureThreshold": 360, "timeoutSeconds": 60},
        "lifecycle": {"preStop": _exec(f"rm -f {READY_FILE}")},
    }
    return {
        # The node is cordoned while its driver changes, and nodes with GPUs often have taints.
        "tolerations": [{"operator": "Exists"}],
        # Without it no pod with GPUs runs on the node, so no shortage on the node may end it.
        "priorityClassName": "system-node-critical",
        "hostPID": True,
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 120,
        "containers": [container],
        "volumes": [
            {"name": one.name, "hostPath": {"path": one.path, **({"type": one.kind} if one.kind else {})}}
            for one in MOUNTS
        ],
    }


def _environment(driver: Driver) -> list[dict[str, Any]]:
    """Variables that NVIDIA's driver containers read."""
    found: list[dict[str, Any]] = [
        # Where the vendor's runtime is the default one, it would want a driver for this container.
        {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"},
        {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {"name": "NODE_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}},
    ]
    if driver.kernel_modules is not KernelModules.AUTO:
        found.append({"name": "KERNEL_MODULE_TYPE", "value": driver.kernel_modules.value.lower()})
    if driver.kernel_modules is KernelModules.OPEN:
        # What images of before the variable above read.
        found.append({"name": "OPEN_KERNEL_MODULES_ENABLED", "value": "true"})
    return found


def _exec(script: str) -> dict[str, Any]:
    return {"exec": {"command": ["sh", "-c", script]}}
