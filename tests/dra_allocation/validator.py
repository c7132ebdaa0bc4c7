"""Judges an allocation from the objects alone, with no code of the allocator: may it be written?

It reads the objects as they are on the wire. Only expressions of selectors are judged by
``device_selectors``, which has a reference of its own.
"""

import re
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from gpufleet.device_selectors.selector import Attribute, DeviceView, Features, selector
from gpufleet.device_selectors.values import Version
from gpufleet.model.quantity import parse_quantity

Written = dict[str, Any]
Id = tuple[str, str, str]
SUFFIXES: dict[str, Fraction | int] = {
    "": 1,
    "m": Fraction(1, 1000),
    "k": 10**3,
    "M": 10**6,
    "G": 10**9,
    "E": 10**18,
}
SUFFIXES |= {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
DEVICES_MAX = 32


def amount(text: str) -> Fraction:
    """A quantity, exactly."""
    parts = re.fullmatch(r"([0-9.]+)([a-zA-Z]*)", text)
    assert parts is not None, text
    return Fraction(parts.group(1)) * SUFFIXES[parts.group(2)]


def problems(question: Written, allocations: list[Written]) -> list[str]:
    """All that is wrong with allocations of the claims of a question."""
    return list(_Judge(question, allocations).problems())


class _Judge:
    def __init__(self, question: Written, allocations: list[Written]) -> None:
        self.question = question
        self.node = question["node"]["metadata"]
        self.allocations = allocations
        self.classes = {one["metadata"]["name"]: one["spec"] for one in question["classes"] or ()}
        self.held = [
            result
            for holder in question["holders"]
            for result in holder["status"]["allocation"]["devices"]["results"]
            if not result.get("adminAccess")
        ]
        self.pools: dict[tuple[str, str], list[Written]] = {}
        for one in question["slices"] or ():
            self.pools.setdefault((one["spec"]["driver"], one["spec"]["pool"]["name"]), []).append(
                one["spec"]
            )
        for key, specs in self.pools.items():
            newest = max(spec["pool"]["generation"] for spec in specs)
            self.pools[key] = [spec for spec in specs if spec["pool"]["generation"] == newest]

    def problems(self) -> Iterator[str]:
        claims = self.question["claims"] or []
        if len(claims) != len(self.allocations):
            yield "not one allocation for each claim"
            return
        for claim, allocation in zip(claims, self.allocations, strict=True):
            results = allocation["devices"].get("results", [])
            if len(results) > DEVICES_MAX:
                yield "too many devices"
            for result in results:
                yield from self._device(result)
            yield from self._requests(claim, results)
            yield from self._constraints(claim, results)
            yield from self._nodes(allocation)
        yield from self._together()

    def _found(self, result: Written) -> tuple[Written, Written] | None:
        """The slice and the device that a result names."""
        for spec in self.pools.get((result["driver"], result["pool"]), ()):
            for device in spec.get("devices") or ():
                if device["name"] == result["device"] and self._reaches(spec, device):
                    return spec, device
        return None

    def _reaches(self, spec: Written, device: Written) -> bool:
        of = device if spec.get("perDeviceNodeSelection") else spec
        if of.get("nodeName"):
            return bool(of["nodeName"] == self.node["name"])
        if of.get("allNodes"):
            return True
        return any(self._meets(term) for term in (of.get("nodeSelector") or {}).get("nodeSelectorTerms", ()))

    def _meets(self, term: Written) -> bool:
        expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
        labels = self.node.get("labels") or {}
        for one in expressions:
            value, values = labels.get(one["key"]), one.get("values") or ()
            verdicts = {
                "In": value in values,
                "NotIn": value not in values,
                "Exists": value is not None,
                "DoesNotExist": value is None,
            }
            if not verdicts[one["operator"]]:
                return False
        for one in fields:
            if (self.node["name"] in one["values"]) != (one["operator"] == "In"):
                return False
        return bool(expressions or fields)

    def _device(self, result: Written) -> Iterator[str]:
        name = f"{result['pool']}/{result['device']}"
        if self._found(result) is None:
            yield f"{name} is not there, or not for this node"
        specs = self.pools.get((result["driver"], result["pool"]), [])
        if not specs or len(specs) != specs[0]["pool"]["resourceSliceCount"]:
            yield f"the pool of {name} is not complete"
        here = [
            device["name"]
            for spec in specs
            if any(self._reaches(spec, one) for one in spec.get("devices") or ())
            for device in spec.get("devices") or ()
        ]
        if len(here) != len(set(here)):
            yield f"the pool of {name} has devices of one name"

    def _requests(self, claim: Written, results: list[Written]) -> Iterator[str]:
        left = list(results)
        for request in claim["spec"]["devices"]["requests"]:
            names = {request["name"]: request["exactly"]} if request.get("exactly") else {}
            names |= {f"{request['name']}/{one['name']}": one for one in request.get("firstAvailable") or ()}
            chosen = {one["request"] for one in left if one["request"] in names}
            if len(chosen) != 1:
                yield f"request {request['name']} has devices of {len(chosen)} choices"
                continue
            name = chosen.pop()
            mine = [one for one in left if one["request"] == name]
            left = [one for one in left if one["request"] != name]
            yield from self._choice(names[name], mine)
        if left:
            yield "devices for no request"

    def _choice(self, choice: Written, mine: list[Written]) -> Iterator[str]:
        ids = [(one["driver"], one["pool"], one["device"]) for one in mine]
        if len(ids) != len(set(ids)):
            yield "a device twice for one request"
        for result in mine:
            found = self._found(result)
            if found is None:
                continue
            if not self._selected(choice, *found):
                yield f"{result['device']} is not what its request selects"
            if any(not self._tolerated(choice, taint) for taint in found[1].get("taints") or ()):
                yield f"{result['device']} has a taint that is not tolerated"
            if bool(result.get("adminAccess")) != bool(choice.get("adminAccess")):
                yield f"{result['device']} has another access than was asked for"
            yield from self._amounts(choice, result, found[1])
        if choice.get("allocationMode") == "All":
            every = [
                (spec["driver"], spec["pool"]["name"], device["name"])
                for specs in self.pools.values()
                for spec in specs
                for device in spec.get("devices") or ()
                if self._reaches(spec, device)
                and self._selected(choice, spec, device)
                and _could_serve(choice, device)
            ]
            if sorted(every) != sorted(ids):
                yield "not all devices"
        elif len(mine) != (choice.get("count") or 1):
            yield "another number of devices than was asked for"

    def _selected(self, choice: Written, spec: Written, device: Written) -> bool:
        expressions = [
            one["cel"]["expression"]
            for listed in (self.classes[choice["deviceClassName"]].get("selectors"), choice.get("selectors"))
            for one in listed or ()
        ]
        capacity = {
            name: parse_quantity(one["value"]) for name, one in (device.get("capacity") or {}).items()
        }
        attributes = {name: _value(one) for name, one in (device.get("attributes") or {}).items()}
        view = DeviceView(spec["driver"], attributes, capacity, bool(device.get("allowMultipleAllocations")))
        features = Features(has_list_attributes=self.question["lists"])
        return all(selector(text, features).verdict(view).is_match for text in expressions)

    def _tolerated(self, choice: Written, taint: Written) -> bool:
        if taint["effect"] not in {"NoSchedule", "NoExecute"}:
            return True
        return any(
            one.get("effect") in {None, "", taint["effect"]}
            and one.get("key") in {None, "", taint["key"]}
            and (one.get("operator") == "Exists" or one.get("value", "") == taint.get("value", ""))
            for one in choice.get("tolerations") or ()
        )

    def _amounts(self, choice: Written, result: Written, device: Written) -> Iterator[str]:
        if not _could_serve(choice, device):
            yield f"{result['device']} has not the capacity that is asked for"
        if not device.get("allowMultipleAllocations"):
            if result.get("consumedCapacity"):
                yield f"{result['device']} is whole and says what of it is taken"
            return
        asked = (choice.get("capacity") or {}).get("requests") or {}
        for name, has in (device.get("capacity") or {}).items():
            taken = amount(result.get("consumedCapacity", {}).get(name, "0"))
            if name in asked and taken < amount(asked[name]):
                yield f"less of {name} than was asked for"
            if not _is_valid(taken, has):
                yield f"an amount of {name} that the device does not give"

    def _constraints(self, claim: Written, results: list[Written]) -> Iterator[str]:
        for one in claim["spec"]["devices"].get("constraints") or ():
            name = one.get("matchAttribute") or one["distinctAttribute"]
            named = one.get("requests") or ()
            values = []
            for result in results:
                if named and result["request"] not in named and result["request"].split("/")[0] not in named:
                    continue
                found = self._found(result)
                if found is not None:
                    values.append(_attribute(found[1], result["driver"], name))
            if any(not one for one in values):
                yield f"a device without {name}"
            elif one.get("matchAttribute"):
                if values and not set.intersection(*values):
                    yield f"devices with different {name}"
            elif sum(len(one) for one in values) != len(set().union(*values)):
                yield f"devices with the same {name}"

    def _nodes(self, allocation: Written) -> Iterator[str]:
        selected = allocation.get("nodeSelector")
        if selected and not any(self._meets(term) for term in selected["nodeSelectorTerms"]):
            yield "an allocation for other nodes"
        for result in allocation["devices"].get("results", []):
            found = self._found(result)
            if found is None:
                continue
            of = found[1] if found[0].get("perDeviceNodeSelection") else found[0]
            if (of.get("nodeName") or found[1].get("bindsToNode")) and not (
                selected and selected["nodeSelectorTerms"][0].get("matchFields")
            ):
                yield "an allocation for all nodes of a device of one node"

    def _together(self) -> Iterator[str]:
        new = [
            result
            for allocation in self.allocations
            for result in allocation["devices"].get("results", [])
            if not result.get("adminAccess")
        ]
        whole: Counter[Id] = Counter()
        shared: dict[tuple[Id, str], Fraction] = {}
        for result in (*self.held, *new):
            key = (result["driver"], result["pool"], result["device"])
            if result.get("shareID") is None:
                whole[key] += 1
            else:
                whole.setdefault(key, 0)
            for name, text in (result.get("consumedCapacity") or {}).items():
                shared[key, name] = shared.get((key, name), Fraction(0)) + amount(text)
        for result in new:
            key = (result["driver"], result["pool"], result["device"])
            if whole[key] > (0 if result.get("shareID") else 1):
                yield f"{result['device']} is held"
            found = self._found(result)
            for name, has in ((found or ({}, {}))[1].get("capacity") or {}).items():
                if shared.get((key, name), 0) > amount(has["value"]):
                    yield f"{result['device']} has not so much {name}"
        yield from self._counters(new, set(whole))

    def _counters(self, new: list[Written], keys: set[Id]) -> Iterator[str]:
        touched = set()
        shared = {(one["driver"], one["pool"], one["device"]) for one in self.held if one.get("shareID")}
        for result in new:
            if (result["driver"], result["pool"], result["device"]) in shared:
                continue
            found = self._found(result)
            for use in (found or ({}, {}))[1].get("consumesCounters") or ():
                touched |= {
                    (result["driver"], result["pool"], use["counterSet"], name)
                    for name in use.get("counters") or {}
                }
        for driver, pool in {(one[0], one[1]) for one in touched}:
            specs = self.pools[driver, pool]
            left: dict[tuple[str, str], Fraction] = {}
            for spec in specs:
                for one in spec.get("sharedCounters") or ():
                    for name, has in one["counters"].items():
                        left[one["name"], name] = amount(has["value"])
            names = set()
            for spec in specs:
                for device in spec.get("devices") or ():
                    names.add(device["name"])
                    if (driver, pool, device["name"]) not in keys:
                        continue
                    for use in device.get("consumesCounters") or ():
                        for name, has in use["counters"].items():
                            left[use["counterSet"], name] -= amount(has["value"])
            if any(key[:2] == (driver, pool) and key[2] not in names for key in keys):
                yield f"counters of pool {pool}, of which a device is held that is gone"
            for one in touched:
                if one[:2] == (driver, pool) and left[one[2], one[3]] < 0:
                    yield f"counter {one[3]} of {one[2]} is overbooked"


def _value(one: Written) -> Attribute:
    ((kind, value),) = one.items()
    if kind == "version":
        return Version.parse(value)
    found: Attribute = [Version.parse(text) for text in value] if kind == "versions" else value
    return found


def _attribute(device: Written, driver: str, name: str) -> set[tuple[str, Any]]:
    attributes = device.get("attributes") or {}
    domain, _, bare = name.partition("/")
    one = attributes.get(name) or (attributes.get(bare) if domain == driver else None)
    if one is None:
        return set()
    ((kind, value),) = one.items()
    listed = value if isinstance(value, list) else [value]
    return {(kind.rstrip("s"), each) for each in listed}


def _could_serve(choice: Written, device: Written) -> bool:
    """True if the device has what is asked for, with nothing of it taken."""
    capacity = device.get("capacity") or {}
    for name, text in ((choice.get("capacity") or {}).get("requests") or {}).items():
        if name not in capacity or amount(text) > amount(capacity[name]["value"]):
            return False
        policy = capacity[name].get("requestPolicy") or {}
        most = (policy.get("validRange") or {}).get("max")
        if most is not None and amount(text) > amount(most):
            return False
        if policy.get("validValues") and amount(text) > amount(policy["validValues"][-1]):
            return False
        valid = policy.get("validRange")
        if valid and valid.get("step"):
            steps = -(-(amount(text) - amount(valid["min"])) // amount(valid["step"]))
            rounded = amount(valid["min"]) + max(0, steps) * amount(valid["step"])
            if rounded > amount(most or capacity[name]["value"]) or rounded > amount(capacity[name]["value"]):
                return False
    return True


def _is_valid(taken: Fraction, has: Written) -> bool:
    policy = has.get("requestPolicy")
    if policy is None or taken == amount(policy.get("default") or "0"):
        return True
    if policy.get("validValues"):
        return taken in {amount(text) for text in policy["validValues"]}
    valid = policy.get("validRange")
    if not valid:
        return True
    least, most = amount(valid["min"]), amount(valid.get("max") or has["value"])
    step = amount(valid["step"]) if valid.get("step") else None
    return least <= taken <= most and (step is None or (taken - least) % step == 0)
