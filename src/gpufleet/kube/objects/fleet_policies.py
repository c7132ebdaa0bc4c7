"""FleetPolicy: how GPU nodes are to be, as an administrator writes it, and what the operator tells of it.

Cluster-scoped. ``manifests`` holds the definition that the API server checks, ``codec.fleet_policies`` says
what the spec means, ``codec.policy_status`` writes the status.
"""

import msgspec

from gpufleet.kube.objects.fleet_queues import Condition
from gpufleet.kube.objects.metadata import Metadata
from gpufleet.kube.objects.node import Taint
from gpufleet.kube.objects.selectors import LabelSelector
from gpufleet.kube.objects.structure import Structure

READY, PROGRESSING, DEGRADED = "Ready", "Progressing", "Degraded"
"""The conditions of a policy."""


class DriverSpec(Structure, frozen=True):
    """Which driver nodes are to have."""

    source: str
    image: str = ""
    version: str = ""
    build: str = "Built"
    kernel_modules: str = "Auto"


class RuntimeSpec(Structure, frozen=True):
    """How containers are to get devices."""

    mode: str
    image: str = ""


class WindowSpec(Structure, frozen=True):
    """A time in which nodes may begin."""

    schedule: str
    duration: str
    time_zone: str = "UTC"


class MigPeriodSpec(WindowSpec, frozen=True):
    """A time at which cards have another MIG layout."""

    instances: tuple[str, ...] = ()
    notice: str = "10m"


class RolloutSpec(Structure, frozen=True):
    """How a driver's image goes through the nodes; defaults are those of the definition."""

    canaries: int = 1
    max_parallel: int | str = 1
    max_failed: int | str = "20%"
    soak: str = "10m"
    windows: tuple[WindowSpec, ...] = ()
    drain_timeout: str = "1h"
    checkpoint_timeout: str = "5m"
    change_timeout: str = "30m"
    validation_timeout: str = "10m"
    paused: bool = False
    place_timeout: str | None = None


class FleetPolicySpec(Structure, frozen=True):
    """What is asked for; defaults are those of the definition."""

    node_selector: LabelSelector
    driver: DriverSpec | None = None
    runtime: RuntimeSpec | None = None
    sharing_config: str = ""
    mig_layout: str = ""
    mig_periods: tuple[MigPeriodSpec, ...] = ()
    rollout: RolloutSpec | None = None
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    taints: tuple[Taint, ...] = ()


class NodePolicyStatus(Structure, frozen=True):
    """How far one node is: a phase with its reason, and since when (RFC 3339)."""

    name: str
    phase: str
    reason: str = ""
    message: str = ""
    since: str = ""


class PhaseCount(Structure, frozen=True, omit_defaults=False):
    """How many nodes are in one phase."""

    phase: str
    nodes: int


class RolloutStatus(Structure, frozen=True, omit_defaults=False):
    """How far the rollout of one image is: a state, why it does not go on, and since when (RFC 3339)."""

    image: str
    state: str
    since: str
    reason: str = ""


class FleetPolicyStatus(Structure, frozen=True):
    """What the leading operator told last. ``nodes_left_out`` are nodes that the list has no room for."""

    observed_generation: int | None = None
    conditions: tuple[Condition, ...] = ()
    selected: int | None = None
    phases: tuple[PhaseCount, ...] = ()
    nodes: tuple[NodePolicyStatus, ...] = ()
    nodes_left_out: int | None = None
    rollout: RolloutStatus | None = None


class FleetPolicy(Structure, frozen=True):
    """A policy. Its status is kept as it came: what is wrong in it does not make the policy unreadable."""

    metadata: Metadata
    spec: FleetPolicySpec
    status: msgspec.Raw = msgspec.Raw(b"{}")


_STATUS = msgspec.json.Decoder(FleetPolicyStatus)


def policy_status_of(policy: FleetPolicy) -> FleetPolicyStatus:
    """The status as it stands; an empty one where it cannot be read, because another writer changed it."""
    try:
        return _STATUS.decode(policy.status)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return FleetPolicyStatus()
