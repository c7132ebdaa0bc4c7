"""What autoscalers are told by an installed chart, and who has the groups of metrics."""

import msgspec

from gpufleet.localkube.cluster import LocalCluster
from tests.metrics.running_apis import CUSTOM

API_SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"


def registered(cluster: LocalCluster) -> dict[str, tuple[object, set[str]]]:
    """What each APIService of metrics says, and who ever wrote to it."""
    with cluster.api() as api:
        found = api.call("GET", API_SERVICES)["items"]
    return {
        one["metadata"]["name"]: (one["spec"], {its["manager"] for its in one["metadata"]["managedFields"]})
        for one in found
        if one["spec"].get("group", "").endswith(".metrics.k8s.io")
    }


def used_ratio(cluster: LocalCluster, pod: str) -> tuple[int, str]:
    """The status and the value that the metrics APIs tell of a pod."""
    path = f"{CUSTOM}/namespaces/default/pods/{pod}/gpufleet_pod_gpu_used_ratio"
    with cluster.api() as api:
        status, body = api.request("GET", path)
    return status, msgspec.json.decode(body)["items"][0]["value"] if status == 200 else body.decode()
