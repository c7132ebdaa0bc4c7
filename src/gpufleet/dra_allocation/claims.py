"""DeviceClasses and ResourceClaims as values: what is asked for."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpufleet.dra_allocation.slices import EQUAL, EXISTS, DeviceTaint
from gpufleet.model.model_errors import InputError
from gpufleet.model.quantity import Quantity


@dataclass(frozen=True, slots=True)
class Configuration:
    """Parameters for a driver, which alone reads them. ``requests`` is empty where they are for all."""

    driver: str
    parameters: bytes
    requests: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DeviceClass:
    """What devices of a class are, and how they are configured. Selectors are expressions."""

    name: str
    selectors: tuple[str, ...] = ()
    configurations: tuple[Configuration, ...] = ()
    extended_resource_name: str = ""


@dataclass(frozen=True, slots=True)
class DeviceToleration:
    """Which taints of devices a request puts up with; an empty key or effect stands for all."""

    key: str = ""
    operator: str = EQUAL
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None

    def tolerates(self, taint: DeviceTaint) -> bool:
        """True if this toleration alone is enough for the taint."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        return self.operator == EXISTS or (self.operator == EQUAL and self.value == taint.value)


@dataclass(frozen=True, slots=True)
class DeviceChoice:
    """Devices of one class. ``count`` is None where all that match are asked for.

    ``name`` is empty where the request has no alternatives.
    """

    class_name: str
    name: str = ""
    selectors: tuple[str, ...] = ()
    count: int | None = 1
    admin_access: bool = False
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: Mapping[str, Quantity] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.count is not None and self.count < 1:
            raise InputError("no devices", field="count", value=self.count, expected="1 or more")


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """A request: the first of its choices that can be had."""

    name: str
    choices: tuple[DeviceChoice, ...]

    def full_name(self, choice: DeviceChoice) -> str:
        """The name by which results, constraints and configurations mean this choice."""
        return f"{self.name}/{choice.name}" if choice.name else self.name


@dataclass(frozen=True, slots=True)
class DeviceConstraint:
    """Devices of these requests (all, if empty) have one value of an attribute, or each another.

    A device without the attribute satisfies neither. ``attribute`` has its domain.
    """

    attribute: str
    requests: tuple[str, ...] = ()
    is_distinct: bool = False

    def concerns(self, request: DeviceRequest, choice: DeviceChoice) -> bool:
        """True if devices of this choice are bound by it."""
        names = (request.name, request.full_name(choice))
        return not self.requests or any(name in self.requests for name in names)


@dataclass(frozen=True, slots=True)
class ResourceClaim:
    """A claim that waits for devices."""

    namespace: str
    name: str
    requests: tuple[DeviceRequest, ...]
    constraints: tuple[DeviceConstraint, ...] = ()
    configurations: tuple[Configuration, ...] = ()

    @property
    def path(self) -> str:
        """The name with its namespace."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name
