"""Energy by pod: counters that only grow. With the unattributed part they add up to the GPU's own counter.

A GPU counts its energy; between two samples it is divided by ``usage``'s parts of that moment. The
accounts begin with the first sample of a GPU. A GPU's counter that goes back was set to zero in between,
by a reset or a new driver, so all that it shows is new. An account ends when its pod holds the device no
more.
"""

from collections.abc import Collection, Mapping

import msgspec

from gpufleet.agent.exporter.split import apportioned, capped
from gpufleet.agent.holders.held_parts import PodName
from gpufleet.model.identifiers import DeviceId


class Account(msgspec.Struct, frozen=True):
    """One account: a pod on a GPU, or on one MIG instance of it by UUID."""

    pod: PodName
    instance: str | None = None


class GpuEnergy(msgspec.Struct):
    """The accounts of one GPU, in millijoules since ``seen_mj`` was first set."""

    seen_mj: int
    by_account: dict[Account, int] = msgspec.field(default_factory=dict)
    unattributed: int = 0


class EnergyCounters:
    """The energy counters of all GPUs, by pod."""

    def __init__(self) -> None:
        self._gpus: dict[DeviceId, GpuEnergy] = {}

    def book(self, gpu: DeviceId, energy_mj: int | None, parts: Mapping[Account, float]) -> None:
        """A GPU counts so much now; since the last time it was drawn by ``parts`` of 1."""
        if energy_mj is None:
            return
        energy = self._gpus.get(gpu)
        if energy is None:
            self._gpus[gpu] = GpuEnergy(energy_mj, dict.fromkeys(parts, 0))
            return
        drawn = energy_mj - energy.seen_mj if energy_mj >= energy.seen_mj else energy_mj
        given, rest = apportioned(drawn, capped(parts))
        for account, amount in given.items():
            energy.by_account[account] = energy.by_account.get(account, 0) + amount
        energy.unattributed += rest
        energy.seen_mj = energy_mj

    def keep(self, gpu: DeviceId, accounts: Collection[Account]) -> None:
        """Close all accounts of a GPU but these."""
        energy = self._gpus.get(gpu)
        if energy is not None:
            energy.by_account = {one: amount for one, amount in energy.by_account.items() if one in accounts}

    def forget_gpus(self, left: Collection[DeviceId]) -> None:
        """End the accounts of GPUs that are no longer there."""
        self._gpus = {gpu: energy for gpu, energy in self._gpus.items() if gpu in left}

    def of_pod(self, gpu: DeviceId, account: Account) -> int | None:
        """The energy of an account so far, in millijoules; None where there is none."""
        energy = self._gpus.get(gpu)
        return None if energy is None else energy.by_account.get(account)

    def unattributed(self, gpu: DeviceId) -> int | None:
        """The energy of a GPU that was no pod's; None before its first sample."""
        energy = self._gpus.get(gpu)
        return None if energy is None else energy.unattributed
