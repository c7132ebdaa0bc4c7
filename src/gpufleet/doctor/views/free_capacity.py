"""How much pods ask for and nodes have: CPU, memory and devices, as schedulers count them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache

from gpufleet.kube.meanings.gpu_resources import is_device
from gpufleet.lint.objects.amounts import amount
from gpufleet.lint.objects.cluster import ClusterNode
from gpufleet.lint.objects.pods import PodTemplate

CPU = "cpu"
MEMORY = "memory"
NANO = 1_000_000_000


@dataclass(frozen=True)
class Amounts:
    """Amounts by resource (CPU, memory, devices), in billionths of a unit, so that they add up exactly."""

    items: frozenset[tuple[str, int]]

    @cached_property
    def by_name(self) -> dict[str, int]:
        """The amounts by name, in the order of the names."""
        return dict(sorted(self.items))

    def of(self, name: str) -> int:
        """How much of one resource; 0 of what is not among them."""
        return self.by_name.get(name, 0)

    def lacks(self, asked: "Amounts") -> tuple[str, ...]:
        """The resources of which there is less than is asked for."""
        return tuple(name for name, count in asked.by_name.items() if self.of(name) < count)

    def less(self, taken: Iterable["Amounts"]) -> "Amounts":
        """What is left of these amounts without those that are taken."""
        left = dict(self.items)
        for one in taken:
            for name, count in one.items:
                left[name] = left.get(name, 0) - count
        return amounts(left)

    @cached_property
    def devices(self) -> "Amounts":
        """The amounts of devices alone, without CPU and memory."""
        return Amounts(frozenset(one for one in self.items if is_device(one[0])))


def amounts(by_name: Mapping[str, int]) -> Amounts:
    """Amounts of a mapping by resource."""
    return Amounts(frozenset(by_name.items()))


def asked_by(template: PodTemplate) -> Amounts:
    """What a pod asks for of CPU, memory and devices."""
    return _counted(tuple((name, one.nano) for name, one in template.requests.items()))


# Of thousands of pods a few ask for something else.
@lru_cache(maxsize=4096)
def _counted(asked: tuple[tuple[str, int], ...]) -> Amounts:
    return amounts({name: nano for name, nano in asked if nano and _counts(name)})


def offered_by(node: ClusterNode) -> Amounts:
    """What pods may have of a node."""
    fields = node.manifest.root.at("status", "allocatable").entries()
    return amounts({name: _nano(field.text) for name, field in fields if _counts(name)})


def offered_when_well(node: ClusterNode) -> Amounts:
    """What pods may have of a node once all devices that its kubelet knows of are in service.

    Of a resource of which the kubelet offers none now, none counts: its plugin is away, and not a card.
    """
    fields = node.manifest.root.at("status", "capacity").entries()
    there = {name: _nano(field.text) for name, field in fields if is_device(name)}
    now = offered_by(node).by_name
    return amounts({**now, **{name: max(count, now[name]) for name, count in there.items() if now.get(name)}})


def shown(name: str, nano: int) -> str:
    """An amount as people say it."""
    if name == CPU:
        return f"{nano / NANO:g} CPU"
    if name == MEMORY:
        return f"{nano / NANO / 2**30:.1f} GiB of memory"
    return f"{nano // NANO} {name}"


def _counts(name: str) -> bool:
    return name in {CPU, MEMORY} or is_device(name)


def _nano(text: str | None) -> int:
    found = amount(text)
    return 0 if found is None else found.nano
