"""What is told of resource claims and of devices for them, taken into the state.

Lines are woken only by what may be to the good of a pod that waits: that a claim is new, or has by now what
was chosen for it, is no such thing. A pod whose place is kept until claims have given back their devices is
tried again.
"""

from collections.abc import Callable
from typing import Any

from gpufleet.engine import event
from gpufleet.engine.lifecycle.changes import Change
from gpufleet.engine.lifecycle.engine_state import EngineState
from gpufleet.engine.place.relations.charged_claims import ChargedClaims

Handler = Callable[[Any], None]


def claim_handlers(state: EngineState) -> dict[type[event.Event], Handler]:
    """What takes in each kind of event about claims."""
    claims = state.neighbours.device_claims
    catalogue = claims.catalogue
    charged = ChargedClaims(claims)
    charges = state.queues.resources.claims
    charges.requests_of = charged.of

    def noting(take: Callable[[Any], bool]) -> Handler:
        def handle(happened: Any) -> None:
            state.neighbours.changes += 1
            helps = take(happened)
            if isinstance(happened, event.ResourceClaimSet):
                charges.claim_changed(happened.claim.path)
            elif isinstance(happened, event.ResourceClaimRemoved):
                charges.claim_changed(happened.claim)
            elif charged.kinds_changed():
                charges.kinds_changed()
            if helps:
                state.changes.note(Change.CLAIMED_DEVICES)
                _settle_nominations(state)

        return handle

    takes: dict[type[event.Event], Callable[[Any], bool]] = {
        event.ResourceSliceSet: lambda happened: catalogue.set_slice(happened.resource_slice),
        event.ResourceSliceRemoved: lambda happened: catalogue.remove_slice(happened.name),
        event.DeviceClassSet: lambda happened: catalogue.set_class(happened.device_class),
        event.DeviceClassRemoved: lambda happened: catalogue.remove_class(happened.name),
        event.ResourceClaimSet: lambda happened: claims.set_claim(
            happened.claim, happened.allocation, happened.users
        ),
        event.ResourceClaimRemoved: lambda happened: claims.remove_claim(happened.claim),
    }
    return {kind: noting(take) for kind, take in takes.items()}


def _settle_nominations(state: EngineState) -> None:
    """Pods that wait for no pod any more may have waited for devices of claims."""
    departures, asks = state.departures, state.neighbours.asks_for_devices
    for number, nomination in departures.nominations.items():
        if not nomination.waits_for and any(map(asks, nomination.rows)):
            departures.unsettled[number] = None
