"""Random small fleets with claims, as objects of the API: the same ones for one seed on every machine.

A fleet has one node that is asked about and two others, drivers with pools of every kind of node selection,
whole, shareable and partitioned devices, taints, conditions, and holders of some of the devices. Few of them
are in disorder: pools that are being changed, names that come twice, devices that are held but gone.
"""

import random
from collections.abc import Sequence
from typing import Any, TypeVar

Item = TypeVar("Item")
Written = dict[str, Any]

NODE = {"metadata": {"name": "node-1", "labels": {"zone": "a", "disk": "ssd"}}}
GPU, NIC = "gpu.example.com", "nic.example.com"
DRIVERS = (GPU, NIC)
CLASSES: dict[str, list[str]] = {
    "any": [],
    "gpu": [f'device.driver == "{GPU}"'],
    "nic": [f'device.driver == "{NIC}"'],
    "large": [f'device.attributes["{GPU}"].?model.orValue("none") == "large"'],
    "shared": ["device.allowMultipleAllocations"],
    "numbered": [f'device.driver == "{GPU}"', f'device.attributes["{GPU}"].index < 3'],
}
SELECTORS = (
    f'device.attributes["{GPU}"].?index.orValue(0) > 1',
    f'device.attributes["{GPU}"].?model.orValue("small").startsWith("s")',
    'device.attributes["example.org"].?numa.orValue(0) == 0',
    f'device.attributes["{GPU}"].index >= 0',
    f'device.capacity["{GPU}"].?memory.orValue(quantity("0")).compareTo(quantity("20Gi")) >= 0',
    f'device.attributes["{NIC}"].?firmware.orValue(semver("0.1.0")).isGreaterThan(semver("1.0.0"))',
)
ATTRIBUTES = ("example.org/numa", f"{GPU}/model", f"{GPU}/parent", f"{NIC}/fast", f"{GPU}/index")
PARTITIONS = ((0, 1), (1, 1), (2, 1), (3, 1), (0, 2), (2, 2), (0, 4))
"""Start and size of the parts of a partitioned device."""


class Dice:
    """Chance that is the same for one seed with every version of Python: only ``random`` is promised so."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def below(self, bound: int) -> int:
        """A number from 0 up to below the bound."""
        return int(self._random.random() * bound)

    def among(self, first: int, last: int) -> int:
        """A number from the first to the last."""
        return first + self.below(last - first + 1)

    def one(self, items: Sequence[Item]) -> Item:
        """One of the items."""
        return items[self.below(len(items))]

    def falls(self, percent: int) -> bool:
        """True in so many of a hundred cases."""
        return self.below(100) < percent

    def some(self, items: Sequence[Item], percent: int) -> list[Item]:
        """Each item in so many of a hundred cases."""
        return [one for one in items if self.falls(percent)]


def random_question(seed: int) -> Written:
    """A fleet, holders, and the claims of one pod."""
    dice = Dice(seed)
    slices: list[Written] = []
    for driver in DRIVERS[: dice.among(1, 2)]:
        for number in range(dice.among(2, 3)):
            slices += pool(dice, driver, f"pool-{number}")
    if dice.falls(3):
        slices.remove(dice.one(slices))
    return {
        "node": NODE,
        "classes": [device_class(dice, name) for name in CLASSES],
        "slices": dice_order(dice, slices),
        "claims": [claim(dice, number) for number in range(dice.one((1, 1, 1, 1, 2, 2, 3)))],
        "holders": holders(dice, slices),
        "lists": False,
        "groups": False,
    }


def dice_order(dice: Dice, items: list[Item]) -> list[Item]:
    """The items in any order."""
    left, found = list(items), []
    while left:
        found.append(left.pop(dice.below(len(left))))
    return found


def device_class(dice: Dice, name: str) -> Written:
    """A class, with a configuration now and then."""
    spec: Written = {"selectors": [{"cel": {"expression": text}} for text in CLASSES[name]]}
    if dice.falls(20):
        spec["config"] = [{"opaque": {"driver": GPU, "parameters": {"of": name}}}]
    return {"metadata": {"name": name}, "spec": spec}


def pool(dice: Dice, driver: str, name: str) -> list[Written]:
    """The slices of a pool, of one kind of node selection and one kind of devices."""
    kind = dice.one(("here", "here", "here", "here", "there", "all", "zone", "each", "mixed"))
    is_partitioned = dice.falls(35)
    count = dice.among(1, 2)
    generation = dice.among(1, 3)
    parts: list[Written] = []
    for number in range(count):
        own = kind if kind != "mixed" else dice.one(("here", "there", "zone"))
        devices = [] if is_partitioned else plain_devices(dice, driver, number)
        parts.append({"devices": devices, **reach(dice, own)})
    if is_partitioned:
        parts += partitioned(dice, driver, parts.pop(), kind)
    wanted = len(parts) + (1 if dice.falls(1) else 0)
    made = []
    for number, part in enumerate(parts):
        if part.get("perDeviceNodeSelection"):
            for device in part.get("devices", ()):
                device.update(reach(dice, dice.one(("here", "there", "all", "zone"))))
        at = {"name": name, "generation": generation, "resourceSliceCount": wanted}
        slice_name = f"{driver}-{name}-{(number * 7 + generation) % 10}-{number}"
        made.append({"metadata": {"name": slice_name}, "spec": {"driver": driver, "pool": at, **part}})
    if dice.falls(3):
        at = {"name": name, "generation": generation + dice.one((-1, 1)), "resourceSliceCount": 1}
        spec = {"driver": driver, "pool": at, "devices": [{"name": "old"}], **reach(dice, "here")}
        made.append({"metadata": {"name": f"{driver}-{name}-old"}, "spec": spec})
    return made


def reach(dice: Dice, kind: str) -> Written:
    """Fields that say which nodes reach a slice or a device."""
    if kind == "all":
        return {"allNodes": True}
    if kind == "zone":
        terms = [{"key": "zone", "operator": "In", "values": [dice.one(("a", "a", "b"))]}]
        if dice.falls(30):
            terms.append({"key": "disk", "operator": dice.one(("Exists", "DoesNotExist"))})
        return {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": terms}]}}
    if kind == "each":
        return {"perDeviceNodeSelection": True}
    return {"nodeName": "node-2" if kind == "there" else "node-1"}


def plain_devices(dice: Dice, driver: str, number: int) -> list[Written]:
    """Whole and shareable devices."""
    made = []
    for index in dice_order(dice, list(range(dice.among(1, 4)))):
        device: Written = {"name": f"dev-{number}-{index}", "attributes": attributes(dice, driver, index)}
        if dice.falls(40):
            device["capacity"] = {"memory": {"value": dice.one(("10Gi", "20Gi", "40Gi"))}}
        if dice.falls(35):
            share(dice, device)
        decorate(dice, device)
        made.append(device)
    if made and dice.falls(2):
        made.append({"name": made[0]["name"]})
    return made


def attributes(dice: Dice, driver: str, index: int) -> Written:
    """What a device says of itself, not always all of it."""
    found: Written = {}
    if dice.falls(90):
        found["example.org/numa"] = {"int": dice.below(2)}
    if driver == GPU:
        if dice.falls(98):
            found["index"] = {"int": index}
        if dice.falls(90):
            found[dice.one(("model", f"{GPU}/model"))] = {"string": dice.one(("small", "large"))}
        found["parent"] = {"string": f"gpu-{index // 2}"}
    elif dice.falls(80):
        found["fast"] = {"bool": dice.falls(50)}
        found["firmware"] = {"version": dice.one(("0.9.0", "1.2.0", "2.0.0-rc.1"))}
    return found


def share(dice: Dice, device: Written) -> None:
    """Make the device one for many."""
    device["allowMultipleAllocations"] = True
    policy = dice.one(
        (
            None,
            {"default": "1Gi", "validRange": {"min": "1Gi", "step": "1Gi"}},
            {"default": "2Gi", "validRange": {"min": "1Gi", "max": "8Gi", "step": "512Mi"}},
            {"default": "4Gi", "validValues": ["2Gi", "4Gi", "8Gi"]},
        )
    )
    memory: Written = {"value": dice.one(("8Gi", "10Gi", "20Gi"))}
    device["capacity"] = {"memory": memory | ({} if policy is None else {"requestPolicy": policy})}
    if dice.falls(50):
        part = {"default": "100m", "validRange": {"min": "50m", "step": "50m"}}
        device["capacity"]["compute"] = {"value": "1", "requestPolicy": part}


def decorate(dice: Dice, device: Written) -> None:
    """Taints, conditions and the like, now and then."""
    if dice.falls(12):
        effect = dice.one(("NoSchedule", "NoExecute", "None"))
        device["taints"] = [{"key": dice.one(("sick", "old")), "value": "yes", "effect": effect}]
    if dice.falls(5):
        device["bindingConditions"] = ["ready"]
        device["bindingFailureConditions"] = ["failed"]
    if dice.falls(5):
        device["bindsToNode"] = True


def partitioned(dice: Dice, driver: str, part: Written, kind: str) -> list[Written]:
    """Slices of counters and of the parts of one or two devices."""
    boards = dice.among(1, 2)
    sets = [
        {"name": f"board-{board}", "counters": {"memory": {"value": "40Gi"}, **slots(0, 4)}}
        for board in range(boards)
    ]
    devices = []
    for board in range(boards):
        for start, size in dice.some(PARTITIONS, 75) or [PARTITIONS[0]]:
            unknown = {"slot-9": {"value": "1"}} if dice.falls(1) and dice.falls(30) else {}
            memory = {"value": f"{size * 10}Gi"}
            device: Written = {
                "name": f"board-{board}-{size}-at-{start}",
                "attributes": attributes(dice, driver, board),
                "capacity": {"memory": memory},
                "consumesCounters": [
                    {
                        "counterSet": f"board-{board}",
                        "counters": {"memory": memory, **slots(start, size), **unknown},
                    }
                ],
            }
            if dice.falls(15):
                share(dice, device)
            decorate(dice, device)
            devices.append(device)
    half = len(devices) // 2 if dice.falls(40) else len(devices)
    made = [{**part, "devices": []} | {"sharedCounters": sets}, {**part, "devices": devices[:half]}]
    made[0].pop("devices")
    if kind == "mixed":
        made[1] = {"devices": devices[:half], **reach(dice, dice.one(("here", "there")))}
    if half < len(devices):
        made.append({**made[1], "devices": devices[half:]})
    return made


def slots(start: int, size: int) -> Written:
    """Counters of the slots of a board."""
    return {f"slot-{number}": {"value": "1"} for number in range(start, start + size)}


def claim(dice: Dice, number: int) -> Written:
    """A claim with one to three requests."""
    requests = [request(dice, f"r{place}") for place in range(dice.one((1, 1, 1, 2, 2, 3)))]
    names = [one["name"] for one in requests]
    for one in requests:
        names += [f"{one['name']}/{choice['name']}" for choice in one.get("firstAvailable", ())]
    devices: Written = {"requests": requests}
    if dice.falls(35):
        devices["constraints"] = [constraint(dice, names) for _ in range(dice.among(1, 2))]
    if dice.falls(20):
        devices["config"] = [
            {"requests": dice.some(names, 40), "opaque": {"driver": GPU, "parameters": {"n": number}}}
        ]
    return {"metadata": {"namespace": "team", "name": f"claim-{number}"}, "spec": {"devices": devices}}


def request(dice: Dice, name: str) -> Written:
    """A request, one in four with alternatives."""
    if dice.falls(25):
        choices = [choice(dice) | {"name": f"s{place}"} for place in range(dice.among(1, 3))]
        return {"name": name, "firstAvailable": choices}
    exactly = choice(dice)
    if dice.falls(5):
        exactly["adminAccess"] = True
    return {"name": name, "exactly": exactly}


def choice(dice: Dice) -> Written:
    """Devices of a class."""
    name = dice.one(("any", "any", "any", "gpu", "gpu", "gpu", "nic", "large", "shared", "numbered"))
    if dice.falls(1):
        name = "missing"
    made: Written = {"deviceClassName": name}
    if dice.falls(7):
        made["allocationMode"] = "All"
    else:
        made |= {"allocationMode": "ExactCount", "count": dice.one((1, 1, 1, 1, 1, 2, 2, 3))}
    if dice.falls(25):
        made["selectors"] = [{"cel": {"expression": dice.one(SELECTORS)}}]
    if dice.falls(20):
        made["tolerations"] = [dice.one(({"operator": "Exists"}, {"key": "sick", "operator": "Exists"}))]
        if dice.falls(30):
            made["tolerations"] = [{"key": "old", "operator": "Equal", "value": "yes", "effect": "NoExecute"}]
    if dice.falls(12):
        asked = {"memory": dice.one(("1Gi", "1500Mi", "3Gi", "8Gi", "12Gi"))}
        if dice.falls(20):
            asked["compute"] = dice.one(("120m", "500m", "900m"))
        made["capacity"] = {"requests": asked}
    return made


def constraint(dice: Dice, names: list[str]) -> Written:
    """A condition over some of the requests, or all."""
    kind = dice.one(("matchAttribute", "matchAttribute", "distinctAttribute"))
    chosen = dice.some(names, 60) if dice.falls(40) else []
    return {kind: dice.one(ATTRIBUTES)} | ({"requests": chosen} if chosen else {})


def holders(dice: Dice, slices: list[Written]) -> list[Written]:
    """Claims that have devices: some of those that are offered, and now and then one that is gone."""
    percent = dice.one((0, 0, 15, 30, 50))
    held = []
    used: dict[tuple[str, str, str], set[str]] = {}
    for one in slices:
        spec = one["spec"]
        for device in spec.get("devices", ()):
            if not dice.falls(percent):
                continue
            at = {
                "request": "r",
                "driver": spec["driver"],
                "pool": spec["pool"]["name"],
                "device": device["name"],
            }
            slots_of = {
                (spec["driver"], spec["pool"]["name"], use["counterSet"]): set(use["counters"]) - {"memory"}
                for use in device.get("consumesCounters", ())
            }
            if not dice.falls(3) and any(used.get(key, set()) & own for key, own in slots_of.items()):
                continue
            for key, own in slots_of.items():
                used.setdefault(key, set()).update(own)
            held += held_parts(dice, device, at)
    if slices and dice.falls(3):
        spec = dice.one(slices)["spec"]
        at = {"request": "r", "driver": spec["driver"], "pool": spec["pool"]["name"], "device": "gone"}
        held.append(at)
    return [
        {
            "metadata": {"namespace": "other", "name": f"holder-{number}"},
            "spec": {"devices": {}},
            "status": {"allocation": {"devices": {"results": [result]}}},
        }
        for number, result in enumerate(held)
    ]


def held_parts(dice: Dice, device: Written, at: Written) -> list[Written]:
    """The device as one or two claims hold it."""
    if not device.get("allowMultipleAllocations"):
        return [at | ({"adminAccess": True} if dice.falls(8) else {})]
    made = []
    for number in range(dice.among(1, 2)):
        taken = {"memory": dice.one(("1Gi", "2Gi", "4Gi"))}
        if "compute" in device["capacity"]:
            taken["compute"] = dice.one(("100m", "400m"))
        uid = f"00000000-0000-4000-8000-00000000000{number}"
        made.append(at | {"shareID": uid, "consumedCapacity": taken})
    return made
