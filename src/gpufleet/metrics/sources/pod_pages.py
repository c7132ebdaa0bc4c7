"""Where a pod's page of metrics is."""

import re
from urllib.parse import quote

from gpufleet.kube import keys
from gpufleet.metrics.cluster_objects import PodFacts

PATH_CHARACTERS_MAX = 200
"""Longer ones are no paths of metrics, and would stand in every message."""

_PORT = re.compile("[0-9]{1,5}")


def engine_url(pod: PodFacts) -> str:
    """The page that the pod's annotations name; "" where they name none that may be read.

    A pod in its node's network is left out: its owner could name any port of the node.
    """
    written = pod.metadata.annotations.get(keys.METRICS_PORT, "")
    if not _PORT.fullmatch(written) or not 0 < int(written) < 65_536:
        return ""
    if pod.spec.host_network or not pod.status.pod_ip or pod.has_ended:
        return ""
    path = pod.metadata.annotations.get(keys.METRICS_PATH, "/metrics")
    if not path.startswith("/") or len(path) > PATH_CHARACTERS_MAX:
        return ""
    return f"http://{host_in_url(pod.status.pod_ip)}:{int(written)}{quote(path)}"


def port_named(pod: PodFacts, name: str) -> int:
    """The container port of this name; 0 without one."""
    ports = (port for container in pod.spec.containers for port in container.ports)
    return next((port.container_port for port in ports if port.name == name), 0)


def host_in_url(address: str) -> str:
    """An address as it stands in a URL."""
    return f"[{address}]" if ":" in address else address
