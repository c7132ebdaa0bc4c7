"""Causes that other pods and volumes make."""

from typing import Any

from tests.explain.causes.book import cause, taken
from tests.scheduler.world import World

ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"


def term(value: str, key: str = HOSTNAME, label: str = "app") -> list[dict[str, Any]]:
    """A required term for pods with this label."""
    return [{"topologyKey": key, "labelSelector": {"matchLabels": {label: value}}}]


def required(kind: str, terms: list[dict[str, Any]]) -> dict[str, Any]:
    """Affinity to, or against, other pods."""
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def claim(world: World, name: str, volume: str = "", kind: str = "", mode: str = "ReadWriteOnce") -> None:
    """A claim, bound if a volume is named."""
    annotations = {"pv.kubernetes.io/bind-completed": "yes"} if volume else {}
    spec: dict[str, Any] = {"accessModes": [mode], "resources": {"requests": {"storage": "1Gi"}}}
    spec |= {"volumeName": volume} if volume else {}
    spec |= {"storageClassName": kind}
    world.add(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": "default", "annotations": annotations},
            "spec": spec,
        }
    )


def volume(world: World, name: str, claim_name: str, zone: str = "", driver: str = "") -> None:
    """A volume that is bound to a claim."""
    spec: dict[str, Any] = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "claimRef": {"name": claim_name, "namespace": "default"},
    }
    if zone:
        terms = [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}]
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    if driver:
        spec["csi"] = {"driver": driver, "volumeHandle": name}
    world.add({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec})


def uses(*claims: str) -> dict[str, Any]:
    """The volumes of a pod that uses these claims."""
    return {
        "volumes": [{"name": one, "persistentVolumeClaim": {"claimName": one}} for one in claims],
    }


@cause(
    "volume-affinity",
    why="claim data is on volume pv-1, usable only where topology.kubernetes.io/zone In [b]",
    way="make room on in-b",
)
def a_claim_whose_volume_is_in_another_zone(world: World) -> None:
    world.node("in-a", labels={ZONE: "a"})
    world.node("in-b", gpus=0, devices=False, labels={ZONE: "b"})
    volume(world, "pv-1", "data", zone="b")
    claim(world, "data", "pv-1")
    world.pod("p", **uses("data"))


@cause(
    "volume-in-use",
    why="claim default/data is ReadWriteOncePod, and default/writer uses it",
    way="wait until default/writer ends",
)
def a_claim_for_one_pod_is_in_use(world: World) -> None:
    world.node("a")
    volume(world, "pv-1", "data")
    claim(world, "data", "pv-1", mode="ReadWriteOncePod")
    taken(world, "a", 1, "writer", **uses("data"))
    world.pod("p", **uses("data"))


@cause("volume-limit", why="a: 1 of disk.example.com", way="wait until a pod with a volume there ends")
def a_node_cannot_attach_more_volumes(world: World) -> None:
    world.node("a")
    drivers = [{"name": "disk.example.com", "nodeID": "a", "allocatable": {"count": 1}}]
    world.add(
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSINode",
            "metadata": {"name": "a"},
            "spec": {"drivers": drivers},
        }
    )
    for name in ("one", "two"):
        volume(world, f"pv-{name}", name, driver="disk.example.com")
        claim(world, name, f"pv-{name}")
    taken(world, "a", 1, **uses("one"))
    world.pod("p", **uses("two"))


@cause(
    "volume-unbound",
    why="claim data finds no free volume of class local",
    way="create a PersistentVolume of class local",
)
def a_claim_that_waits_for_a_place_finds_no_volume(world: World) -> None:
    world.node("a")
    world.add(
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": "local"},
            "provisioner": "kubernetes.io/no-provisioner",
            "volumeBindingMode": "WaitForFirstConsumer",
        }
    )
    claim(world, "data", kind="local")
    world.pod("p", **uses("data"))


@cause(
    "ports",
    why="host port 8080 is taken on the 1 node that would do, by default/a-user",
    way="leave hostPort out",
)
def a_host_port_is_taken(world: World) -> None:
    world.node("a")
    port = {"ports": [{"containerPort": 8080, "hostPort": 8080}]}
    container = {"name": "main", "image": "x", **port}
    taken(world, "a", 0, containers=[container])
    world.pod("p", gpus=0, containers=[container])


@cause("pod-affinity", why="no such pod runs", way="start such a pod first")
def no_pod_to_join(world: World) -> None:
    world.node("a")
    world.pod("p", affinity=required("podAffinity", term("cache")))


@cause("pod-affinity", why="app In [cahce]", way="did you mean app: cache?")
def a_misspelt_neighbour(world: World) -> None:
    world.node("a")
    taken(world, "a", 1, labels={"app": "cache"})
    world.pod("p", affinity=required("podAffinity", term("cahce")))


@cause(
    "pod-anti-affinity",
    why="it must not share kubernetes.io/hostname with default/a-user",
    way="wait until default/a-user ends",
)
def it_must_keep_away_from_a_pod(world: World) -> None:
    world.node("a")
    taken(world, "a", 1, labels={"app": "noisy"})
    world.pod("p", affinity=required("podAntiAffinity", term("noisy")))


@cause(
    "others-anti-affinity",
    why="default/a-user must not share a node or domain with it",
    way="wait until default/a-user ends",
)
def a_pod_keeps_it_away(world: World) -> None:
    world.node("a")
    taken(world, "a", 1, affinity=required("podAntiAffinity", term("quiet")))
    world.pod("p", labels={"app": "quiet"})


@cause(
    "spread", why="spread evenly over topology.kubernetes.io/zone with maxSkew 1", way="make room in a domain"
)
def it_would_be_spread_unevenly(world: World) -> None:
    world.node("in-a", labels={ZONE: "a"})
    world.node("in-b", labels={ZONE: "b"}, gpus=0, devices=False)
    taken(world, "in-a", 1, labels={"app": "web"})
    spread = {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    world.pod("p", labels={"app": "web"}, topologySpreadConstraints=[spread])
