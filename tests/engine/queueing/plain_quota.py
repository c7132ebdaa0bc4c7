"""Quota the plain way: Kueue's formula as it is written down, by recursion over a dictionary.

Nothing here is shared with the engine. Usage is a list of charges by queue, so that moves and undo
are list operations and no sum is ever kept.
"""

import math
from dataclasses import dataclass, field

from gpufleet.model.device import Device
from gpufleet.model.queue import Queue, Quota
from gpufleet.model.shape import Shape

Amounts = dict[str, int]


@dataclass
class PlainQuota:
    """Queues by name, and what is charged to each: one entry a pod, of those that nobody may evict in
    ``protected`` too. ``gone`` are those of the queues that nobody describes any more.
    """

    queues: dict[str, Queue]
    charges: list[tuple[str, Amounts]] = field(default_factory=list)
    protected: list[tuple[str, Amounts]] = field(default_factory=list)
    gone: frozenset[str] = frozenset()

    def parent(self, name: str) -> str | None:
        """The parent, None for a root or an undescribed queue."""
        return self.queues[name].parent if name in self.queues else None

    def children(self, name: str) -> list[str]:
        """The queues right below."""
        return [one for one, queue in self.queues.items() if queue.parent == name]

    def quota(self, name: str, resource: str) -> Quota | None:
        """What the queue itself states."""
        stated = self.queues[name].quotas if name in self.queues else ()
        return next((one for one in stated if one.resource == resource), None)

    def path(self, name: str) -> list[str]:
        """The queue and those above it."""
        above = self.parent(name)
        return [name, *([] if above is None else self.path(above))]

    def limited(self, name: str, resource: str) -> bool:
        """True if the queue or one above it names the resource."""
        return any(self.quota(one, resource) for one in self.path(name))

    def pooled(self, name: str, resource: str) -> bool:
        """True if the queue, one above it or one below it names the resource."""
        below = any(self.named_below(one, resource) for one in self.children(name))
        return self.limited(name, resource) or below

    def named_below(self, name: str, resource: str) -> bool:
        """True if the queue or one below it names the resource."""
        below = any(self.named_below(one, resource) for one in self.children(name))
        return self.quota(name, resource) is not None or below

    def subtree(self, name: str, resource: str) -> int:
        """Nominal and what the children lend."""
        quota = self.quota(name, resource)
        nominal = quota.nominal if quota else 0
        return nominal + sum(self.lent_by(child, resource) for child in self.children(name))

    def lent_by(self, name: str, resource: str) -> int:
        """What a queue puts into the pool of its parent."""
        return self.subtree(name, resource) - self.guaranteed(name, resource)

    def guaranteed(self, name: str, resource: str) -> int:
        """What it keeps to itself."""
        quota = self.quota(name, resource)
        if quota is None or quota.lending_limit is None:
            return 0
        return max(0, self.subtree(name, resource) - quota.lending_limit)

    def counted(self, name: str, resource: str) -> int:
        """Usage as the formula counts it."""
        own = sum(amounts.get(resource, 0) for queue, amounts in self.charges if queue == name)
        return own + sum(
            max(0, self.counted(child, resource) - self.guaranteed(child, resource))
            for child in self.children(name)
            if self.pooled(child, resource)
        )

    def total(self, name: str, resource: str) -> int:
        """Usage of the queue and everything below it."""
        own = sum(amounts.get(resource, 0) for queue, amounts in self.charges if queue == name)
        return own + sum(self.total(child, resource) for child in self.children(name))

    def by_formula(self, name: str, resource: str) -> int:
        """Kueue's available, before hard limits."""
        subtree, counted = self.subtree(name, resource), self.counted(name, resource)
        parent = self.parent(name)
        if parent is None:
            return subtree - counted
        guaranteed = self.guaranteed(name, resource)
        from_parent = self.by_formula(parent, resource)
        quota = self.quota(name, resource)
        if quota is not None and quota.borrowing_limit is not None:
            ceiling = subtree - guaranteed - max(0, counted - guaranteed) + quota.borrowing_limit
            from_parent = min(from_parent, ceiling)
        return max(0, guaranteed - counted) + from_parent

    def available(self, name: str, resource: str) -> int | None:
        """What the queue may still take, None where nothing limits it."""
        if not self.limited(name, resource):
            return None
        hard = [
            quota.hard_limit - self.total(one, resource)
            for one in self.path(name)
            if (quota := self.quota(one, resource)) is not None and quota.hard_limit is not None
        ]
        return min([self.by_formula(name, resource), *hard])

    def owner(self, name: str, resource: str) -> str | None:
        """Against whose nominal amount protected work of the queue counts."""
        return next((one for one in self.path(name) if self.quota(one, resource) is not None), None)

    def protected_at(self, name: str, resource: str) -> int:
        """What protected work has of the nominal amount of a queue."""
        counts = (amounts for queue, amounts in self.protected if self.owner(queue, resource) == name)
        return sum(amounts.get(resource, 0) for amounts in counts)

    def left_to_protected(self, name: str, resource: str) -> int | None:
        """What protected work of the queue may still take, None where nothing limits it."""
        owner = self.owner(name, resource)
        quota = None if owner is None else self.quota(owner, resource)
        if owner is None or quota is None:
            return None
        return quota.nominal - self.protected_at(owner, resource)

    def allows(self, name: str, amounts: Amounts, protected: Amounts) -> bool:
        """True if a charge of these amounts, so much of it for protected work, keeps every limit."""
        left = [(asked, self.available(name, resource)) for resource, asked in amounts.items()]
        left += [(asked, self.left_to_protected(name, resource)) for resource, asked in protected.items()]
        return all(asked == 0 or room is None or asked <= room for asked, room in left)


def plain_charge(shape: Shape, devices: list[Device | None], prices: dict[str, int]) -> Amounts:
    """What a pod with these devices is charged, by the table of the design; None is an unknown device."""
    gpu = shape.gpu
    charge: Amounts = {"cpu": shape.resources.cpu_milli, "memory": shape.resources.memory_bytes}
    charge |= dict(shape.resources.other)
    charge |= {"gpu": 0, "gpu-memory": 0, "cost": 0}
    for device in devices:
        total = None if device is None else device.memory_mib
        parts = [gpu.gpu_milli]
        if gpu.gpu_milli < 1000 and gpu.memory_mib is not None:
            parts.append(math.ceil(gpu.memory_mib * 1000 / total) if total else 0)
        # Of a device without known memory, a share by memory alone keeps all others away.
        milli = min(1000, max(parts)) or 1000
        if gpu.gpu_milli == 1000:
            memory = total or 0
        elif gpu.memory_mib is not None:
            memory = gpu.memory_mib
        else:
            memory = (total or 0) * gpu.gpu_milli // 1000
        charge["gpu"] += milli
        charge["gpu-memory"] += memory
        price = 1000
        if device is not None:
            name = f"gpu/{device.model}"
            charge[name] = charge.get(name, 0) + milli
            price = prices.get(device.model, 1000)
        charge["cost"] += math.ceil(milli * price / 1000)
    return charge
