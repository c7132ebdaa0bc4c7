"""Whether a scheduler is at work, as its Lease tells."""

import datetime as dt

import msgspec

from gpufleet.cluster.settings import BY_PRIORITY, BY_QUEUES, Settings
from gpufleet.kube import keys
from gpufleet.kube.answer import decode
from gpufleet.kube.client import Client
from gpufleet.kube.codec.field_path import harmless
from gpufleet.kube.codec.times import microseconds
from gpufleet.kube.lease import LeaseObject
from gpufleet.kube.resources import LEASES
from gpufleet.kube.status import Forbidden, NotFound
from gpufleet.model.model_errors import InputError

GRACE_S = 5.0
"""The clock of this machine and that of the scheduler may differ by so much."""

_DECODER = msgspec.json.Decoder(LeaseObject)
START = "start one: `gpufleet scheduler`, or see why its pods do not run: kubectl get pods -n"


class Leading(msgspec.Struct, frozen=True):
    """``problem`` says why no scheduler leads, "" if one does or it cannot be told.

    ``victims`` is the search for victims of the one that leads, or led last; "" where it is not known.
    """

    problem: str = ""
    way_out: str = ""
    note: str = ""
    victims: str = ""

    def settings(self, assumed: Settings) -> Settings:
        """Given settings, but as the scheduler that leads says."""
        known = self.victims in {BY_QUEUES, BY_PRIORITY}
        return msgspec.structs.replace(assumed, victims=self.victims) if known else assumed


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
    read = decode(lease, _DECODER)
    spec, victims = read.spec, read.metadata.annotations.get(keys.VICTIMS, "")
    if not spec.holder_identity:
        return Leading(
            "no gpufleet scheduler leads: the last one gave its Lease back", way_out, victims=victims
        )
    age_s = _age_s(spec.renew_time, now)
    # A renewal whose time cannot be read proves nothing, so nothing is said against the holder.
    if age_s is not None and age_s > (spec.lease_duration_seconds or 0) + GRACE_S:
        holder = harmless(spec.holder_identity)
        return Leading(
            f"no gpufleet scheduler leads: {holder} renewed its Lease last {age_s:.0f} s ago",
            way_out,
            victims=victims,
        )
    return Leading(victims=victims)


def _age_s(renewed: str | None, now: dt.datetime) -> float | None:
    if renewed is None:
        return None
    try:
        return now.timestamp() - microseconds(renewed) / 1_000_000
    except InputError:
        return None
