"""How far a rollout is, as the status of its policy says it. ``rollout_actions`` writes it."""

from gpufleet.kube.codec.times import microseconds
from gpufleet.kube.objects import fleet_policies as wire
from gpufleet.model.model_errors import InputError
from gpufleet.operator.rollout.stamp import Progress, RolloutState


def progress_of(policy: wire.FleetPolicy) -> Progress | None:
    """How far the rollout is, as the status says; None where it says nothing that can be read."""
    told = wire.policy_status_of(policy).rollout
    if told is None:
        return None
    try:
        return Progress(told.image, RolloutState(told.state), microseconds(told.since), told.reason)
    except (InputError, ValueError):
        return None
