"""Devices that are chosen on trial: booked with their counters, amounts and constraints, and taken back.

A device that is held although no slice has it any more may draw on any counter of its pool: that pool gives
no device with counters until the claim has ended.
"""

from collections.abc import Iterable, Mapping, Sequence

from gpufleet.dra_allocation.claims import ResourceClaim
from gpufleet.dra_allocation.constraints import ConstraintState
from gpufleet.dra_allocation.groups import GroupState
from gpufleet.dra_allocation.held import HeldDevices
from gpufleet.dra_allocation.matching import ChoiceMatcher
from gpufleet.dra_allocation.pools import Candidate, Counter, Pool
from gpufleet.dra_allocation.slices import DeviceId


class PoolState:
    """The counters of a pool that are left, in nano units; None where they cannot be known."""

    def __init__(self, pool: Pool, held: HeldDevices, held_names: Iterable[str]) -> None:
        self.total = pool.counters
        self.unknown = sorted(set(held_names) - pool.names) if pool.counters else []
        self.left = dict(pool.counters)
        self.groups = GroupState()
        for candidate in (*pool.candidates, *pool.elsewhere):
            if candidate.draws and held.has(candidate.id):
                self._draw(candidate)
                self.groups.add(candidate.device.counter_uses)

    def take(self, candidate: Candidate) -> bool:
        """Draw the counters of a device, if they are there and its groups go with those of the others."""
        if self.unknown:
            return False
        self._draw(candidate)
        if any(self.left[counter] < 0 for counter, _ in candidate.draws):
            self._give_back(candidate)
            return False
        if not self.groups.admits(candidate.device.counter_uses):
            self._give_back(candidate)
            return False
        self.groups.add(candidate.device.counter_uses)
        return True

    def give_back(self, candidate: Candidate) -> None:
        """Take back the device whose counters were drawn last."""
        self._give_back(candidate)
        self.groups.remove(candidate.device.counter_uses)

    def _draw(self, candidate: Candidate) -> None:
        for counter, amount in candidate.draws:
            self.left[counter] -= amount

    def _give_back(self, candidate: Candidate) -> None:
        for counter, amount in candidate.draws:
            self.left[counter] += amount


class Trial:
    """What is held, with what was chosen for the claims so far."""

    def __init__(self, pools: Iterable[Pool], held: HeldDevices, claims: Iterable[ResourceClaim]) -> None:
        self._held = held
        by_pool: dict[tuple[str, str], list[str]] = {}
        for device in (*held.whole, *held.shares):
            by_pool.setdefault((device.driver, device.pool), []).append(device.device)
        self._pools = {
            (pool.driver, pool.name): PoolState(pool, held, by_pool.get((pool.driver, pool.name), ()))
            for pool in pools
        }
        self._constraints = {
            # By identity, because two claims may ask for equal devices and are two all the same.
            id(claim): [ConstraintState(constraint) for constraint in claim.constraints]
            for claim in claims
        }
        self._concerned: dict[ChoiceMatcher, list[ConstraintState]] = {}
        self._chosen: dict[DeviceId, list[int]] = {}
        self._shares: dict[DeviceId, int] = {}
        self._taken: dict[tuple[DeviceId, str], int] = {
            (device, name): amount
            for device, amounts in held.shares.items()
            for name, amount in amounts.items()
        }

    def is_free(self, matcher: ChoiceMatcher, candidate: Candidate) -> bool:
        """True if the device is not taken as a whole, or access for administration is asked for."""
        if matcher.choice.admin_access:
            # Such access shares a device with its holders, but one claim does not get a device twice.
            return id(matcher.claim) not in self._chosen.get(candidate.id, ())
        if candidate.id in self._held.whole or self._chosen.get(candidate.id):
            return False
        return candidate.device.is_shareable or candidate.id not in self._held.shares

    def has_room(self, matcher: ChoiceMatcher, candidate: Candidate) -> bool:
        """True if what the choice takes of the device's capacity is left. Raises ClaimError."""
        amounts = matcher.amounts(candidate)
        if amounts is None:
            return False
        has = candidate.device.capacity
        return all(
            self._taken.get((candidate.id, name), 0) + amount.nano <= has[name].value.nano
            for name, amount in amounts.items()
        )

    def take(self, matcher: ChoiceMatcher, candidate: Candidate) -> bool:
        """Choose a device that is free and has room, if its counters, taints and constraints allow it."""
        draws = self.draws_counters(matcher, candidate)
        if draws and not self._pool(candidate).take(candidate):
            return False
        if matcher.tolerates(candidate) and self._constrain(matcher, candidate):
            self._book(matcher, candidate)
            return True
        if draws:
            self._pool(candidate).give_back(candidate)
        return False

    def give_back(self, matcher: ChoiceMatcher, candidate: Candidate) -> None:
        """Take back the device that was chosen last."""
        if candidate.device.is_shareable:
            # Administrative access takes no share, so it has none to give back.
            if not matcher.choice.admin_access:
                self._shares[candidate.id] -= 1
            for name, amount in (matcher.amounts(candidate) or {}).items():
                self._taken[candidate.id, name] -= amount.nano
        else:
            self._chosen[candidate.id].pop()
        for state in self._constraints_of(matcher):
            state.remove()
        if self.draws_counters(matcher, candidate):
            self._pool(candidate).give_back(candidate)

    def taken_of(self, candidate: Candidate) -> tuple[object, ...]:
        """All that is held and chosen of the device, to compare it with others."""
        names = sorted(candidate.device.capacity) if candidate.device.is_shareable else ()
        return (
            candidate.id in self._held.whole,
            candidate.id in self._held.shares,
            self._shares.get(candidate.id, 0),
            tuple(self._chosen.get(candidate.id, ())),
            tuple(self._taken.get((candidate.id, name), 0) for name in names),
        )

    def counters_left(self, candidate: Candidate) -> Mapping[Counter, int]:
        """What is left of the counters of the device's pool, in nano units."""
        return self._pool(candidate).left

    def counters_of(self, candidate: Candidate) -> Mapping[Counter, int]:
        """What there is of the counters of the device's pool, in nano units."""
        return self._pool(candidate).total

    def departed(self, candidate: Candidate) -> Sequence[str]:
        """The devices of its pool that are held although no slice has them: its counters are not known."""
        return self._pool(candidate).unknown

    def has_fitting_group(self, candidate: Candidate) -> bool:
        """True if its compatibility groups go with those of the devices that hold its counter sets."""
        return self._pool(candidate).groups.admits(candidate.device.counter_uses)

    def taken_nano(self, candidate: Candidate, capacity: str) -> int:
        """How much of a capacity is taken by shares of the device."""
        return self._taken.get((candidate.id, capacity), 0)

    def draws_counters(self, matcher: ChoiceMatcher, candidate: Candidate) -> bool:
        """Access for administration draws nothing, and only the first share of a device does."""
        if not candidate.draws or matcher.choice.admin_access:
            return False
        shared = candidate.id in self._held.shares or self._shares.get(candidate.id, 0) > 0
        return not (candidate.device.is_shareable and shared)

    def could_take(self, matcher: ChoiceMatcher, candidate: Candidate) -> bool:
        """True if the device could be chosen alone: beside what is held, and beside nothing else.

        Raises ClaimError where that cannot be said.
        """
        if not (self.is_free(matcher, candidate) and matcher.matches(candidate)):
            return False
        if not (candidate.is_served and self.has_room(matcher, candidate) and self.take(matcher, candidate)):
            return False
        self.give_back(matcher, candidate)
        return True

    def _pool(self, candidate: Candidate) -> PoolState:
        return self._pools[candidate.id.driver, candidate.id.pool]

    def _constraints_of(self, matcher: ChoiceMatcher) -> list[ConstraintState]:
        found = self._concerned.get(matcher)
        if found is None:
            states = self._constraints[id(matcher.claim)]
            found = [one for one in states if one.constraint.concerns(matcher.request, matcher.choice)]
            self._concerned[matcher] = found
        return found

    def _constrain(self, matcher: ChoiceMatcher, candidate: Candidate) -> bool:
        added: list[ConstraintState] = []
        for state in self._constraints_of(matcher):
            if not state.add(candidate.id.driver, candidate.device):
                for one in added:
                    one.remove()
                return False
            added.append(state)
        return True

    def _book(self, matcher: ChoiceMatcher, candidate: Candidate) -> None:
        if candidate.device.is_shareable:
            # Administrative access takes nothing (``held``).
            if not matcher.choice.admin_access:
                self._shares[candidate.id] = self._shares.get(candidate.id, 0) + 1
            for name, amount in (matcher.amounts(candidate) or {}).items():
                key = (candidate.id, name)
                self._taken[key] = self._taken.get(key, 0) + amount.nano
        else:
            self._chosen.setdefault(candidate.id, []).append(id(matcher.claim))
