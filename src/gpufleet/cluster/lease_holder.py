"""Whether a scheduler is at work, as its Lease tells."""

import datetime as dt

import msgspec

from gpufleet.cluster.settings import Settings
from gpufleet.kube.answer import decode
from gpufleet.kube.client import Client
from gpufleet.kube.codec.field_path import harmless
from gpufleet.kube.codec.times import microseconds
from gpufleet.kube.lease import LeaseObject
from gpufleet.kube.resources import LEASES
from gpufleet.kube.status import Forbidden, NotFound
from gpufleet.model.errors import InputError

GRACE_S = 5.0
"""The clock of this machine and that of the scheduler may differ by so much."""

_DECODER = msgspec.json.Decoder(LeaseObject)
START = "start one: `gpufleet scheduler`, or see why its pods do not run: kubectl get pods -n"


class Leading(msgspec.Struct, frozen=True):
    """``problem`` says why no scheduler leads, "" if one does or it cannot be told."""

    problem: str = ""
    way_out: str = ""
    note: str = ""


async def who_leads(client: Client, settings: Settings) -> Leading:
    """Look at the Lease."""
    try:
        answer = await client.get(LEASES, settings.lease_name, namespace=settings.lease_namespace)
    except NotFound:
        return leading_by(None, settings, client.clock.now())
    except Forbidden:
        return Leading(note="whether a scheduler is at work cannot be told: its Lease may not be read")
    return leading_by(answer, settings, client.clock.now())


def leading_by(lease: bytes | None, settings: Settings, now: dt.datetime) -> Leading:
    """Whether a scheduler leads by a Lease as the server sends it; None where there is none."""
    way_out = f"{START} {settings.lease_namespace}"
    if lease is None:
        return Leading("no gpufleet scheduler has ever led in this cluster", way_out)
    spec = decode(lease, _DECODER).spec
    if not spec.holder_identity:
        return Leading("no gpufleet scheduler leads: the last one gave its Lease back", way_out)
    age_s = _age_s(spec.renew_time, now)
    if age_s is not None and age_s > (spec.lease_duration_seconds or 0) + GRACE_S:
        holder = harmless(spec.holder_identity)
        return Leading(
            f"no gpufleet scheduler leads: {holder} renewed its Lease last {age_s:.0f} s ago", way_out
        )
    return Leading()


def _age_s(renewed: str | None, now: dt.datetime) -> float | None:
    if renewed is None:
        return None
    try:
        return now.timestamp() - microseconds(renewed) / 1_000_000
    except InputError:
        return None
