"""Devices that are alike for some claims: where one of them leads to no solution, none of the others does.

Two devices are alike if every choice of every request says the same of both, they have the same values of
the attributes that constraints name, the same capacity and draw the same counters, and the same is taken of
both.
"""

from collections.abc import Hashable, Sequence

from gpufleet.dra_allocation.allocation_errors import ClaimError
from gpufleet.dra_allocation.constraints import attribute_values
from gpufleet.dra_allocation.matching import ChoiceMatcher
from gpufleet.dra_allocation.pools import Candidate
from gpufleet.dra_allocation.trial import Trial


class DeviceEquivalence:
    """Says which devices are alike for these choices."""

    def __init__(self, matchers: Sequence[ChoiceMatcher], trial: Trial) -> None:
        self._matchers = matchers
        self._trial = trial
        self._attributes = sorted({one.attribute for each in matchers for one in each.claim.constraints})
        self._lasting: dict[Candidate, int] = {}
        self._numbers: dict[Hashable, int] = {}

    def of(self, candidate: Candidate) -> Hashable:
        """A value that devices have in common which are alike now."""
        lasting = self._lasting.get(candidate)
        if lasting is None:
            # A number instead of the value: the hash of a deep value is worked out anew each time.
            lasting = self._numbers.setdefault(self._lasting_of(candidate), len(self._numbers))
            self._lasting[candidate] = lasting
        return lasting, self._trial.taken_of(candidate)

    def _lasting_of(self, candidate: Candidate) -> Hashable:
        device = candidate.device
        try:
            verdicts = tuple((one.matches(candidate), one.tolerates(candidate)) for one in self._matchers)
        except ClaimError:
            # The search fails where it comes to this device: it is like no other.
            return candidate.id
        values = tuple(attribute_values(candidate.id.driver, device, name) for name in self._attributes)
        capacity = tuple(sorted((name, has.value.nano) for name, has in device.capacity.items()))
        policies = tuple(device.capacity[name].policy for name, _ in capacity)
        groups = tuple((use.counter_set, frozenset(use.compatibility_groups)) for use in device.counter_uses)
        # Counters belong to a pool: devices that draw the same amounts of two pools are not alike.
        pool = candidate.id[:2] if candidate.draws else None
        state = (device.is_shareable, candidate.is_served, pool)
        return verdicts, values, capacity, policies, candidate.draws, groups, state
