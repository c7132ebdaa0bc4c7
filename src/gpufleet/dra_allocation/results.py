"""Allocations: which devices a claim gets, as its status says it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpufleet.dra_allocation.claims import Configuration, DeviceToleration
from gpufleet.dra_allocation.slices import DeviceId
from gpufleet.model.labels import NodeTerm
from gpufleet.model.quantity import Quantity

FROM_CLASS = "FromClass"
FROM_CLAIM = "FromClaim"

RESULTS_MAX = 32
"""Devices of one claim, as the API has it (AllocationResultsMaxSize)."""


@dataclass(frozen=True, slots=True)
class AllocatedDevice:
    """A device for a request ("request" or "request/choice").

    ``is_share`` is set where others may hold the device too; ``taken`` says how much of it is held.
    """

    request: str
    id: DeviceId
    admin_access: bool = False
    tolerations: tuple[DeviceToleration, ...] = ()
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    is_share: bool = False
    taken: Mapping[str, Quantity] = field(default_factory=dict)

    def excludes(self, other: "AllocatedDevice") -> bool:
        """True if two claims may not both have these: one device that is not for several.

        Access for administration excludes no other and is excluded by none.
        """
        for_administration = self.admin_access or other.admin_access
        return self.id == other.id and not for_administration and not (self.is_share and other.is_share)


@dataclass(frozen=True, slots=True)
class AllocatedConfiguration:
    """A configuration with its source; later ones go before earlier ones, and claims' before classes'."""

    source: str
    configuration: Configuration


@dataclass(frozen=True, slots=True)
class Allocation:
    """What a claim gets. ``nodes`` is None where every node can use it."""

    devices: tuple[AllocatedDevice, ...]
    configurations: tuple[AllocatedConfiguration, ...] = ()
    nodes: NodeTerm | None = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a node cannot serve the claims, as one sentence."""

    reason: str
