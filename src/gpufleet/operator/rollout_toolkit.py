"""The DaemonSet that brings the vendor's container toolkit to nodes with its label.

The toolkit installs its runtime below ``INSTALLED``, makes it the default one of containerd and tells
containerd to read its configuration again, as its container does under NVIDIA's operator; when it ends it
takes that back. Paths are those of containerd on the host, so that its defaults hold. It waits for a driver,
of an image or of the host. ``rollout_actions`` writes this object.
"""

from typing import Any

from gpufleet.operator.node_objects import TOOLKIT_LABEL
from gpufleet.operator.rollout_objects import (
    NAME_DIGITS,
    READY_FILE,
    VALIDATIONS,
    daemon_set_of,
    image_key,
)

INSTALLED = "/usr/local/nvidia"
RUNTIME_CONFIGURATION, RUNTIME_SOCKET = "/etc/containerd", "/run/containerd"
DRIVER_ROOT = "/run/nvidia/driver"
PID_FILE = "/run/nvidia/toolkit/toolkit.pid"
HOST_DRIVER = "/host/usr/bin/nvidia-smi"

_INSTALL = f"""set -e
until test -e {READY_FILE} || test -e {HOST_DRIVER}; do sleep 2; done
export NVIDIA_DRIVER_ROOT=/ DRIVER_ROOT_CTR_PATH=/host
if test -e {READY_FILE}; then export NVIDIA_DRIVER_ROOT={DRIVER_ROOT} DRIVER_ROOT_CTR_PATH={DRIVER_ROOT}; fi
exec nvidia-toolkit {INSTALLED}"""


def toolkit_daemon_set_name(image: str) -> str:
    """The name of the DaemonSet of a toolkit's image."""
    return f"gpufleet-toolkit-{image_key(image)[:NAME_DIGITS]}"


def toolkit_daemon_set(namespace: str, image: str) -> dict[str, Any]:
    """The DaemonSet of a toolkit's image."""
    label = (TOOLKIT_LABEL, image_key(image))
    return daemon_set_of(namespace, toolkit_daemon_set_name(image), "gpufleet-toolkit", label, _pod(image))


def _pod(image: str) -> dict[str, Any]:
    mounts = [
        ("installed", INSTALLED, INSTALLED, None),
        ("configuration", RUNTIME_CONFIGURATION, RUNTIME_CONFIGURATION, None),
        ("socket", RUNTIME_SOCKET, RUNTIME_SOCKET, None),
        ("pid", "/run/nvidia/toolkit", "/run/nvidia/toolkit", None),
        ("validations", VALIDATIONS, VALIDATIONS, None),
        ("cdi", "/var/run/cdi", "/var/run/cdi", None),
        # The driver of an image is mounted after this pod has started.
        ("driver", DRIVER_ROOT, DRIVER_ROOT, "HostToContainer"),
        ("host", "/", "/host", "HostToContainer"),
    ]
    container = {
        "name": "nvidia-container-toolkit-ctr",
        "image": image,
        "command": ["sh", "-c", _INSTALL],
        "env": [
            {"name": name, "value": value}
            for name, value in (
                ("ROOT", INSTALLED),
                ("RUNTIME", "containerd"),
                ("TOOLKIT_PID_FILE", PID_FILE),
                # Pods name no RuntimeClass for it, so it has to be the default.
                ("NVIDIA_RUNTIME_SET_AS_DEFAULT", "true"),
                # This container itself gets no device.
                ("NVIDIA_VISIBLE_DEVICES", "void"),
            )
        ],
        "securityContext": {"privileged": True, "seLinuxOptions": {"level": "s0"}},
        "volumeMounts": [
            {
                "name": name,
                "mountPath": inside,
                **({"mountPropagation": propagation} if propagation else {}),
                **({"readOnly": True} if name == "host" else {}),
            }
            for name, _, inside, propagation in mounts
        ],
        # Ready once containerd has the runtime: a check that came before would say nothing of it. The driver
        # it waits for may be built for an hour.
        "startupProbe": {
            "exec": {"command": ["grep", "-rqs", f"{INSTALLED}/toolkit", RUNTIME_CONFIGURATION]},
            "periodSeconds": 5,
            "failureThreshold": 720,
            "timeoutSeconds": 10,
        },
    }
    return {
        "tolerations": [{"operator": "Exists"}],
        "priorityClassName": "system-node-critical",
        # It signals the runtime, which is a process of the host.
        "hostPID": True,
        "automountServiceAccountToken": False,
        "containers": [container],
        "volumes": [
            {"name": name, "hostPath": {"path": path, "type": "" if path == "/" else "DirectoryOrCreate"}}
            for name, path, _, _ in mounts
        ],
    }
