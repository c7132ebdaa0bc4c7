"""Claims, devices and pods that use them, for stories in a simulated cluster."""

from typing import Any

from tests.scheduler.world import Object, World

DRIVER = "gpu.example.com"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"


def of_api(kind: str, name: str, *, namespace: str = "", **more: Any) -> Object:
    """An object of the API of claims."""
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": metadata, **more}


def devices(world: World, node: str, *names: str, **more: Any) -> None:
    """A node with these devices for claims; ``more`` are further fields of each."""
    world.node(node, gpus=0)
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    listed = [{"name": name, **more} for name in names]
    spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": listed}
    world.add(of_api("ResourceSlice", node, spec=spec))


def device_class(world: World) -> None:
    """The class of every device of the driver."""
    selectors = [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]
    world.add(of_api("DeviceClass", "gpu", spec={"selectors": selectors}))


def claim(world: World, name: str, *, owner: Object | None = None, **choice: Any) -> None:
    """A claim of a device; made of a template for the pod ``owner``, if one is given."""
    requests = [{"name": "gpus", "exactly": {"deviceClassName": "gpu", **choice}}]
    made = of_api("ResourceClaim", name, namespace="default", spec={"devices": {"requests": requests}})
    if owner is not None:
        of_pod = {"apiVersion": "v1", "kind": "Pod", "controller": True}
        named = {"name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}
        made["metadata"]["ownerReferences"] = [of_pod | named]
    world.add(made)


def pod(world: World, name: str, *claims: str, **more: Any) -> None:
    """A pod of ours with these claims."""
    uses = [{"name": one, "resourceClaimName": one} for one in claims]
    world.pod(name, gpus=0, resourceClaims=uses, **more)


def found(world: World, name: str) -> Object:
    """A claim as the server has it."""
    return next(one for one in world.objects(CLAIMS) if one["metadata"]["name"] == name)


def device_of(world: World, name: str) -> str:
    """The device of a claim as "pool/device", "" where it has none."""
    allocation = found(world, name).get("status", {}).get("allocation")
    if not allocation:
        return ""
    (result,) = allocation["devices"]["results"]
    return f"{result['pool']}/{result['device']}"


def users_of(world: World, name: str) -> list[str]:
    """The pods that may use a claim."""
    return [one["name"] for one in found(world, name).get("status", {}).get("reservedFor") or ()]


def write_status(world: World, name: str, status: Object) -> None:
    """Somebody else writes the status of a claim."""
    assert world.request("PATCH", f"{CLAIMS}/{name}/status", {"status": status}) == 200


def give(world: World, name: str, node: str, device: str, *users: str) -> None:
    """Another scheduler gives a claim a device of a node, for pods of these names."""
    result = {"request": "gpus", "driver": DRIVER, "pool": node, "device": device}
    fields = [{"key": "metadata.name", "operator": "In", "values": [node]}]
    status = {
        "allocation": {
            "devices": {"results": [result]},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": fields}]},
        },
        "reservedFor": [{"resource": "pods", "name": user, "uid": f"{user}-uid"} for user in users],
    }
    write_status(world, name, status)


def say_of_device(world: World, name: str, condition: str, status: str) -> None:
    """A driver writes a condition of the device that a claim has."""
    (result,) = found(world, name)["status"]["allocation"]["devices"]["results"]
    of_device = {key: result[key] for key in ("driver", "pool", "device")}
    said = {"type": condition, "status": status, "message": "by the fabric"}
    write_status(world, name, {"devices": [{**of_device, "conditions": [said]}]})
