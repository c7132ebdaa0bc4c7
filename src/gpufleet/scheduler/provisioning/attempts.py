"""What is to be done next for a gang that waits for nodes, by the requests that were made for it.

A request that failed, or whose nodes were given up before the gang started, is made anew after a pause that
doubles, as often as the queue says.
"""

import datetime as dt

import msgspec

from gpufleet.cluster.engine_time import US_PER_S
from gpufleet.kube.codec.provisioning_requests import OVER, RequestState, Stage
from gpufleet.kube.codec.queue_provisioning import ProvisioningTerms
from gpufleet.kube.codec.times import whole_time
from gpufleet.model.model_errors import printable

MESSAGE_LENGTH_MAX = 200
"""An autoscaler may name every node in its message; people read the beginning."""


class MakeRequest(msgspec.Struct, frozen=True):
    """The next request is made now."""

    attempt: int


class Pending(msgspec.Struct, frozen=True):
    """A request stands, or the next one is not due yet; ``words`` are for the members."""

    words: str


class GivenUp(msgspec.Struct, frozen=True):
    """No request is made any more."""

    words: str


Step = MakeRequest | Pending | GivenUp

_WORDS = {
    Stage.PENDING: "waits for Cluster Autoscaler",
    Stage.ACCEPTED: "is accepted",
    Stage.PROVISIONED: "has its nodes asked for, which have to join",
    Stage.BOOKING_EXPIRED: "was kept no longer",
    Stage.CAPACITY_REVOKED: "had its capacity revoked",
    Stage.FAILED: "failed",
}


def next_step(last: RequestState | None, terms: ProvisioningTerms, now_us: int) -> Step:
    """What is to be done after the last request."""
    if last is None:
        return MakeRequest(1)
    said = _said(last)
    if last.stage not in OVER:
        return Pending(said)
    if last.attempt > terms.retries_max:
        times = "1 request" if last.attempt == 1 else f"{last.attempt} requests"
        return GivenUp(f"{said}; no more is made after {times}")
    due_us = last.since_us + terms.pause_s(last.attempt) * US_PER_S
    if now_us < due_us:
        due = dt.datetime.fromtimestamp(-(-due_us // US_PER_S), dt.UTC)
        return Pending(f"{said}; the next is made at {whole_time(due)}")
    return MakeRequest(last.attempt + 1)


def _said(last: RequestState) -> str:
    message = f": {printable(last.message, MESSAGE_LENGTH_MAX)}" if last.message else ""
    return f"ProvisioningRequest {last.name} {_WORDS[last.stage]}{message}"
