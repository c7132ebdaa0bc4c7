"""What Kubernetes' own compiler of selectors is asked: expressions (``expressions.txt``) of three devices.

In an expression, ``$A`` and ``$C`` stand for the attributes and the capacity of the driver's domain. Loops
over maps of several keys are left out, since Go walks them in any order and their cost differs from run to
run.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpufleet.device_selectors.selector import Attribute, DeviceView
from gpufleet.device_selectors.values import Version
from gpufleet.model.quantity import parse_quantity

HERE = Path(__file__).parent
ANSWERS = HERE / "reference_answers.json"
SHORT = {"$A": 'device.attributes["dra.example.com"]', "$C": 'device.capacity["dra.example.com"]'}
GPU: dict[str, dict[str, Any]] = {
    "b": {"bool": True},
    "n": {"int": 3},
    "s": {"string": "fish"},
    "v": {"version": "1.2.3"},
    "name": {"string": "NVIDIA H100 80GB"},
    "other.example.com/x": {"int": 7},
}
ODD: dict[str, dict[str, Any]] = {
    "b": {"bool": False},
    "n": {"int": -1},
    "s": {"string": ""},
    "v": {"version": "0.0.1-rc.1+b"},
    "name": {"string": "x"},
}


@dataclass(frozen=True)
class Device:
    """A device as a ResourceSlice has it."""

    attributes: dict[str, dict[str, Any]]
    capacity: dict[str, str]
    multiple: bool | None = None

    def written(self) -> dict[str, Any]:
        """For the reference."""
        capacity = {name: {"value": amount} for name, amount in self.capacity.items()}
        found = {"driver": "dra.example.com", "attributes": self.attributes, "capacity": capacity}
        return found if self.multiple is None else {**found, "allowMultipleAllocations": self.multiple}

    def view(self) -> DeviceView:
        """For gpufleet."""
        attributes: dict[str, Attribute] = {}
        for name, value in self.attributes.items():
            ((kind, held),) = value.items()
            attributes[name] = Version.parse(held) if kind == "version" else held
        capacity = {name: parse_quantity(amount) for name, amount in self.capacity.items()}
        return DeviceView("dra.example.com", attributes, capacity, bool(self.multiple))


DEVICES = (
    Device(GPU, {"mem": "80Gi", "cores": "132"}),
    Device({}, {}),
    Device(ODD, {"mem": "1500m", "cores": "0"}, multiple=True),
)
WITH_LISTS = (False, True)


def expressions() -> list[str]:
    """All expressions, written out."""
    found = []
    for line in (HERE / "expressions.txt").read_text(encoding="utf-8").splitlines():
        text = line
        for short, long in SHORT.items():
            text = text.replace(short, long)
        found.append(text)
    return found


def answers() -> dict[str, list[list[Any]]]:
    """What the reference said of each expression: of each device without lists, then with them."""
    found: dict[str, list[list[Any]]] = json.loads(ANSWERS.read_text(encoding="utf-8"))
    return found
