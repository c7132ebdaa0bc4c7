"""What a fleet costs while a trace is played over time, by what its GPUs are for.

Buckets are those of the cost ledger. What tasks hold is ``unmeasured``: a trace does not say how much of it
they use. What is free is ``stranded`` as far as typical requests cannot use it, with the cause, and else
``idle-free``. CPUs and memory of nodes with GPUs are ``host``, undivided. Rates are whole numbers over one
denominator, so amounts of all buckets add up to the price of the fleet without a remainder.
"""

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from gpufleet.engine.scheduler import Engine
from gpufleet.model.device import WHOLE_GPU_MILLI
from gpufleet.model.money import apportion, rounded
from gpufleet.model.shape import Shape
from gpufleet.replay.fleet_prices import FleetPrices
from gpufleet.replay.idle import FleetView, weights_by_reason
from gpufleet.replay.results import BucketCost, FleetCost

HOUR_US = 3_600_000_000
"""Prices are those of an hour."""

HELD, STRANDED, FREE, HOST = "unmeasured", "stranded", "idle-free", "host"
USABLE = "usable"
"""The reason of ``idle`` for what typical requests can use."""

Key = tuple[str, str]
"""A bucket, and the cause of a stranded part or ""."""


class CostMeter:
    """Looks at an engine's fleet after each moment, and adds money up by bucket and time."""

    def __init__(self, engine: Engine, requests: list[tuple[Shape, int]], prices: FleetPrices) -> None:
        self._view = FleetView(engine)
        self._tables = engine.state.store.tables
        self._requests = requests
        self._prices = prices
        # Without requests everything that is free is of use to what may come.
        self._everything = sum(count for _, count in requests) or 1
        self._nodes = engine.state.fleet.nodes
        sizes = [len(node.devices) for node in self._nodes if node is not None and node.devices]
        self._size_multiple = math.lcm(1, *sizes)
        self._denominator = WHOLE_GPU_MILLI * self._everything * self._size_multiple * HOUR_US
        self._by_row: dict[int, dict[Key, int]] = {}
        self._rates: defaultdict[Key, int] = defaultdict(int)
        self._steps: defaultdict[Key, list[tuple[int, int]]] = defaultdict(list)
        self._before: tuple[np.ndarray, np.ndarray] | None = None

    def look(self, at_us: int) -> None:
        """Take in what has changed until this moment; time only goes forward."""
        changed: set[Key] = set()
        for row in self._changed_rows():
            now = self._rates_of(row)
            before = self._by_row.get(row, {})
            for key in now.keys() | before.keys():
                if difference := now.get(key, 0) - before.get(key, 0):
                    self._rates[key] += difference
                    changed.add(key)
            self._by_row[row] = now
        for key in changed:
            self._steps[key].append((at_us, self._rates[key]))

    def _changed_rows(self) -> list[int]:
        """The nodes whose free devices or resources are others than at the last look."""
        # Columns of devices are many; the rows of nodes have what is free of each.
        now = self._view.idle_of_all(), self._tables.resources_free[: len(self._nodes)].copy()
        before, self._before = self._before, now
        if before is None:
            return [row for row, node in enumerate(self._nodes) if node is not None and node.devices]
        hosts = np.flatnonzero((now[1] != before[1]).any(axis=1)).tolist()
        devices = np.flatnonzero(now[0] != before[0]).tolist()
        rows = {*hosts, *(self._view.row_of_device(device) for device in devices)}
        return sorted(row for row in rows if (node := self._nodes[row]) is not None and node.devices)

    def _rates_of(self, row: int) -> dict[Key, int]:
        node = self._nodes[row]
        price = None if node is None else self._prices.by_node.get(node.name)
        if node is None or price is None:
            return {}
        scale = self._size_multiple // len(node.devices) * price.gpus_micro
        idle = self._view.idle_milli(row)
        rates: defaultdict[Key, int] = defaultdict(int)
        held = WHOLE_GPU_MILLI * len(idle) - sum(idle)
        rates[HELD, ""] = held * self._everything * scale
        if not self._requests:
            rates[FREE, ""] = sum(idle) * scale
        elif any(idle):
            weights = weights_by_reason(self._requests, idle, *self._view.free_host(row))
            for reason, weight in weights.items():
                key = (FREE, "") if reason == USABLE else (STRANDED, reason)
                rates[key] += weight * scale
        rates[HOST, ""] = price.host_micro * WHOLE_GPU_MILLI * self._everything * self._size_multiple
        return rates

    def cost(self, start_us: int, end_us: int, points: int) -> FleetCost:
        """What a time cost, in so many equal intervals."""
        edges = [start_us + (end_us - start_us) * point // points for point in range(points + 1)]
        weights = {key: list(_integrals(steps, edges)) for key, steps in sorted(self._steps.items())}
        sums = [sum(parts) for parts in weights.values()]
        amount_micro = rounded(sum(sums), self._denominator)
        amounts = apportion(amount_micro, sums)
        unpriced = sum(
            len(node.devices)
            for node in self._nodes
            if node is not None and node.name not in self._prices.by_node
        )
        return FleetCost(
            currency=self._prices.currency,
            amount_micro=amount_micro,
            unpriced_gpus=unpriced,
            buckets=[
                BucketCost(bucket, reason, amount, apportion(amount, parts))
                for ((bucket, reason), parts), amount in zip(weights.items(), amounts, strict=True)
                if amount
            ],
        )


def _integrals(steps: list[tuple[int, int]], edges: list[int]) -> Iterator[int]:
    """The integral of a rate that jumps, between each two edges that follow one another."""
    place, rate = 0, 0
    for begin, end in itertools.pairwise(edges):
        total, at_us = 0, begin
        while place < len(steps) and steps[place][0] < end:
            change_us, following = steps[place]
            if change_us > at_us:
                total += rate * (change_us - at_us)
                at_us = change_us
            rate = following
            place += 1
        yield total + rate * (end - at_us)
