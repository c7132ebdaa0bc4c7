"""What the judge reads from a pod, on its own: node, needs, grant, gang.

Deliberately another reading than the scheduler's codec: a mistake there is not repeated here. It knows the
pods that scenarios make; a field that it does not know is not judged.
"""

import json
from typing import Any

import msgspec

from gpufleet.simulation.refusal import JsonObject

GPU = "nvidia.com/gpu"
GANG = "gpufleet.io/gang"
GANG_MIN = "gpufleet.io/gang-min-members"
FRACTION = "gpufleet.io/gpu-fraction"
GRANT = "gpufleet.io/grant"
QUEUE = "gpufleet.io/queue"
GANG_KIND = "gang/"
"""Before the names of gangs that our own annotation makes."""
TERMINAL = {"Succeeded", "Failed"}
UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}


class Needs(msgspec.Struct, frozen=True):
    """What a pod takes of a node. ``gpu_milli`` is below 1000 for a share, else whole devices."""

    cpu_milli: int
    memory_bytes: int
    gpu_milli: int

    def within(self, free: "Needs") -> bool:
        """Whether CPU and memory fit."""
        return self.cpu_milli <= free.cpu_milli and self.memory_bytes <= free.memory_bytes


class Granted(msgspec.Struct, frozen=True):
    """One device of a grant."""

    device: str
    gpu_milli: int
    memory_mib: int


def annotations(value: JsonObject) -> dict[str, str]:
    """The annotations of an object."""
    found: dict[str, str] = value["metadata"].get("annotations") or {}
    return found


def node_of(pod: JsonObject) -> str:
    """The node, "" for none."""
    name: str = (pod.get("spec") or {}).get("nodeName") or ""
    return name


def is_over(pod: JsonObject) -> bool:
    """Whether the pod has ended and holds nothing any more."""
    return (pod.get("status") or {}).get("phase") in TERMINAL


def condition(pod: JsonObject, kind: str) -> JsonObject | None:
    """A condition by its type."""
    conditions: list[JsonObject] = (pod.get("status") or {}).get("conditions") or []
    return next((found for found in conditions if found["type"] == kind), None)


def grant_of(pod: JsonObject) -> tuple[int | None, tuple[Granted, ...]]:
    """Epoch and devices of the grant; None and nothing where there is none that can be read.

    A device that several containers name is held once: containers of one pod may hand it on.
    """
    text = annotations(pod).get(GRANT)
    if text is None:
        return None, ()
    try:
        value: Any = json.loads(text)
        devices = {
            (device["id"], device.get("migStart")): Granted(
                device["id"], device.get("gpuMilli", 1000), device.get("memoryMiB") or 0
            )
            for container in (value.get("containers") or {}).values()
            for device in container
        }
        return int(value["epoch"]), tuple(devices.values())
    except (ValueError, KeyError, TypeError, AttributeError):
        return None, ()


def terms_of(pod: JsonObject) -> dict[str, Any] | None:
    """What a placed pod was bound with, None where its grant does not say it."""
    text = annotations(pod).get(GRANT)
    if text is None or not node_of(pod):
        return None
    try:
        value: Any = json.loads(text)
    except ValueError:
        return None
    terms = value.get("terms") if isinstance(value, dict) else None
    return terms if isinstance(terms, dict) else None


def facts_of(report: JsonObject | None) -> dict[str, dict[str, int]]:
    """What a node reports: thousandths of each device, by the uid of the pod that holds it."""
    found: dict[str, dict[str, int]] = {}
    spec = (report or {}).get("spec")
    for holder in (spec.get("holders") if isinstance(spec, dict) else None) or []:
        held = found.setdefault(holder.get("podUID", ""), {})
        held[holder["device"]] = holder.get("gpuMilli", 1000)
    return found


def needs_of(pod: JsonObject) -> Needs:
    """The requests of all containers together."""
    cpu = memory = gpus = 0
    for container in pod["spec"]["containers"]:
        requests = (container.get("resources") or {}).get("requests") or {}
        cpu += milli(requests.get("cpu", "0"))
        memory += amount(requests.get("memory", "0"))
        gpus += 1000 * int(requests.get(GPU, 0))
    fraction = annotations(pod).get(FRACTION)
    if fraction is not None:
        gpus += round(1000 * float(fraction))
    return Needs(cpu, memory, gpus)


def milli(text: str) -> int:
    """CPU in thousandths."""
    return int(text[:-1]) if text.endswith("m") else 1000 * int(text)


def amount(text: str) -> int:
    """Bytes, in the units that scenarios write."""
    digits = text.rstrip("kMGTi")
    return int(digits) * UNITS[text[len(digits) :]]


def gang_of(pod: JsonObject) -> tuple[str, int] | None:
    """The gang (namespace/name) and the members it needs, None for a pod that stands alone.

    Of a placed pod those count that it was bound with.
    """
    terms = terms_of(pod)
    if terms is not None:
        bound = terms.get("gang")
        return None if bound is None else (bound["name"].removeprefix(GANG_KIND), bound["minMembers"])
    return gang_said(pod)


def gang_said(pod: JsonObject) -> tuple[str, int] | None:
    """The gang (namespace/name) and the members it needs, as the pod says now, whatever it was bound with."""
    found = annotations(pod)
    labels = pod["metadata"].get("labels") or {}
    name, minimum = (found.get(key) or labels.get(key) for key in (GANG, GANG_MIN))
    if not name or not minimum or not minimum.isdecimal():
        return None
    return f"{pod['metadata'].get('namespace', '')}/{name}", int(minimum)


def queue_of(pod: JsonObject) -> str:
    """The queue that a pod names, "" where it names none; of a placed pod the one that it was bound in."""
    terms = terms_of(pod)
    if terms is not None:
        return str(terms["queue"])
    name: str = (pod["metadata"].get("labels") or {}).get(QUEUE) or ""
    return name


def priority_of(pod: JsonObject) -> int:
    """The priority of a pod."""
    return int((pod.get("spec") or {}).get("priority") or 0)


def is_leaving(pod: JsonObject) -> bool:
    """Whether a pod was told to end."""
    return "deletionTimestamp" in pod["metadata"]


def is_controlled(pod: JsonObject) -> bool:
    """Whether a controller makes the pod anew when it is gone."""
    owners = pod["metadata"].get("ownerReferences") or []
    return any(owner.get("controller") for owner in owners)


def claims_of(pod: JsonObject) -> list[str]:
    """The names of the claims that the pod mounts."""
    volumes: list[JsonObject] = (pod.get("spec") or {}).get("volumes") or []
    return [one["persistentVolumeClaim"]["claimName"] for one in volumes if "persistentVolumeClaim" in one]


def nodes_of_volume(volume: JsonObject) -> set[str]:
    """The nodes on which a local volume of ``volume_actors`` can be used."""
    terms = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    return {node for term in terms for one in term["matchExpressions"] for node in one["values"]}
