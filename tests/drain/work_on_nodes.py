"""Work of controllers on simulated nodes, for tests that empty these."""

from gpufleet.localkube.access.api import Api, Object
from tests.waiting import until

REPLICA_SETS = "/apis/apps/v1/namespaces/default/replicasets"
PODS = "/api/v1/namespaces/default/pods"


def merge(api: Api, path: str, body: Object) -> None:
    """Change an object."""
    api.call("PATCH", path, body, "application/merge-patch+json")


def template(name: str, gpus: int, annotations: Object | None = None, **spec: object) -> Object:
    """The pods of a controller."""
    container = {"name": "main", "image": "x", "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}
    return {
        "metadata": {"labels": {"app": name}, "annotations": annotations or {}},
        "spec": {"schedulerName": "gpufleet", "containers": [container], **spec},
    }


def service(api: Api, name: str, gpus: int, replicas: int = 1, annotations: Object | None = None) -> None:
    """A ReplicaSet."""
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": {"app": name}},
        "template": template(name, gpus, annotations),
    }
    api.call("POST", REPLICA_SETS, {"metadata": {"name": name}, "spec": spec})


def gang(api: Api, name: str, ranks: int, gpus: int) -> None:
    """Pods of a controller that start together."""
    together = {"gpufleet.io/gang": name, "gpufleet.io/gang-min-members": str(ranks)}
    service(api, name, gpus, ranks, together)
    until(lambda: len(nodes_of(api, name)) == ranks)


def pods_of(api: Api, name: str) -> list[Object]:
    """The pods of a controller that have a node and are not on their way out."""
    found: list[Object] = api.call("GET", f"{PODS}?labelSelector=app%3D{name}")["items"]
    return [
        one
        for one in found
        if "nodeName" in one["spec"] and "deletionTimestamp" not in one["metadata"]
        if one["status"].get("phase") not in ("Failed", "Succeeded")
    ]


def nodes_of(api: Api, name: str) -> list[str]:
    """Where they are."""
    return sorted(one["spec"]["nodeName"] for one in pods_of(api, name))
