"""What NodeOverlays say of a type: its price, and resources of its nodes besides.

The overlay of the highest weight counts; of equal ones Karpenter takes the name that is later in the alphabet
first. One that Karpenter does not apply, as it says in the condition Ready, or of which a requirement is not
understood here, is left out with a note.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction

import msgspec

from gpufleet.kube.codec import selectors
from gpufleet.kube.objects.node_overlays import NodeOverlay
from gpufleet.kube.objects.selectors import SelectorRequirement
from gpufleet.model import gpu_model
from gpufleet.model.labels import Requirement
from gpufleet.model.model_errors import InputError
from gpufleet.model.money import MICRO_UNITS, rounded
from gpufleet.model.quantity import ZERO, parse_quantity
from gpufleet.model.resource_names import AMD_GPU, GPU_RESOURCES, NVIDIA_GPU
from gpufleet.plan.instance_types import GPUS_MAX, InstanceType

_PRICE = re.compile(r"[0-9]{1,10}(\.[0-9]{1,20})?")
_ADJUSTMENT = re.compile(r"(?P<sign>[+-])(?P<amount>[0-9]{0,10}(\.[0-9]{1,20})?)(?P<percent>%?)")
_OPEN_COMPARISONS = {"Gte": ("Gt", -1), "Lte": ("Lt", 1)}
"""Operators that Karpenter has beside those of Kubernetes, by one that means the same of the next integer."""


class Overlay(msgspec.Struct, frozen=True):
    """An overlay, as it is understood. ``adjustment`` is what it says of the price."""

    name: str
    requirements: tuple[Requirement, ...]
    adjustment: str
    amounts: tuple[tuple[str, str], ...]

    def is_about(self, labels: Mapping[str, str]) -> bool:
        """Whether it is about nodes with these labels."""
        return all(one.accepts(labels) for one in self.requirements)


def read_overlays(found: Iterable[NodeOverlay]) -> tuple[tuple[Overlay, ...], tuple[str, ...]]:
    """The overlays that count, the one that goes first in front, and notes about the others."""
    ordered = sorted(found, key=lambda one: one.metadata.name, reverse=True)
    ordered.sort(key=lambda one: one.spec.weight, reverse=True)
    overlays, notes = [], []
    for one in ordered:
        name = one.metadata.name
        if any(said.type == "Ready" and said.status == "False" for said in one.status.conditions):
            notes.append(f"NodeOverlay {name} is not applied: Karpenter says that it is not ready")
            continue
        try:
            requirements = tuple(_requirements(one.spec.requirements))
            adjustment = one.spec.price or one.spec.price_adjustment or ""
            _check(adjustment)
            amounts = tuple(sorted(one.spec.capacity.items()))
            for resource, text in amounts:
                parse_quantity(text, field=f"capacity {resource}")
        except InputError as error:
            notes.append(f"NodeOverlay {name} is left out: {error}")
            continue
        overlays.append(Overlay(name, requirements, adjustment, amounts))
    return tuple(overlays), tuple(notes)


def overlaid(one: InstanceType, labels: Mapping[str, str], overlays: Iterable[Overlay]) -> InstanceType:
    """The type as the overlays that are about it say.

    Raises InputError for a price of 0, a number of GPUs that no node has, and amounts below 0.
    """
    about = [overlay for overlay in overlays if overlay.is_about(labels)]
    price_micro = next(
        (_adjusted(one.price_micro, overlay.adjustment) for overlay in about if overlay.adjustment),
        one.price_micro,
    )
    if price_micro <= 0:
        names = ", ".join(overlay.name for overlay in about if overlay.adjustment)
        expected = "a price above 0: any number of nodes would cost nothing"
        raise InputError(f"makes {one.name} free", field="NodeOverlay", value=names, expected=expected)
    amounts: dict[str, str] = {}
    own = gpu_resource(one)
    for overlay in about:
        for resource, amount in overlay.amounts:
            if resource not in amounts:
                _check_amount(overlay, resource, amount, is_gpu=resource == own)
                amounts[resource] = amount
    gpus = one.gpus if own not in amounts else parse_quantity(amounts.pop(own)).value()
    return msgspec.structs.replace(
        one, price_micro=price_micro, gpus=gpus, amounts=tuple(sorted(amounts.items()))
    )


def gpu_resource(one: InstanceType) -> str:
    """The resource by which the GPUs of the type are counted."""
    model = gpu_model.find(one.gpu_model)
    vendor = "" if model is None else model.vendor.value.lower()
    return {"nvidia": NVIDIA_GPU, "amd": AMD_GPU}.get(vendor, GPU_RESOURCES[0])


def _requirements(found: Iterable[SelectorRequirement]) -> Iterator[Requirement]:
    for one in found:
        operator, step = _OPEN_COMPARISONS.get(one.operator, ("", 0))
        if operator and len(one.values) == 1 and one.values[0].isdecimal():
            value = int(one.values[0]) + step
            compared = SelectorRequirement(one.key, operator, (str(value),))
            # At least 0 is each number that is there.
            yield selectors.requirement(compared if value >= 0 else SelectorRequirement(one.key, "Exists"))
        else:
            yield selectors.requirement(one)


def _check(adjustment: str) -> None:
    if adjustment and not _PRICE.fullmatch(adjustment):
        found = _ADJUSTMENT.fullmatch(adjustment)
        if found is None or not found["amount"]:
            expected = "a price such as 1.5, or a change such as -0.5 or +10%"
            raise InputError("not a price", field="price", value=adjustment, expected=expected)


def _check_amount(overlay: Overlay, resource: str, amount: str, *, is_gpu: bool) -> None:
    """Raises InputError for an amount that a node cannot have."""
    field = f"NodeOverlay {overlay.name}, spec.capacity[{resource}]"
    found = parse_quantity(amount, field=field)
    if is_gpu and not (found.is_whole() and 1 <= found.value() <= GPUS_MAX):
        expected = f"a whole number from 1 to {GPUS_MAX}, or no {resource}"
        raise InputError("not a number of GPUs of a node", field=field, value=amount, expected=expected)
    if found < ZERO:
        raise InputError("a negative amount", field=field, value=amount, expected="0 or more")


def _adjusted(price_micro: int, text: str) -> int:
    """A price as an overlay changes it; never below 0."""
    change = _ADJUSTMENT.fullmatch(text)
    if change is None:
        found = Fraction(text) * MICRO_UNITS
    else:
        amount = Fraction(change["amount"]) * (1 if change["sign"] == "+" else -1)
        found = price_micro * (1 + amount / 100) if change["percent"] else price_micro + amount * MICRO_UNITS
    found = max(Fraction(0), found)
    return rounded(found.numerator, found.denominator)
