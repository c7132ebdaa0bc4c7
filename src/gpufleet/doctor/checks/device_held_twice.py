"""A device that two claims hold: the API server does not check whether a device is free."""

from collections.abc import Iterator

from gpufleet.doctor.check import Check, Failure, Good, Layer, Point, Remedy, listed
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.views.device_claims import Holding, holdings


def judge(facts: Facts) -> Iterator[Failure | Good]:
    """Each device with all that hold it."""
    by_device: dict[str, list[Holding]] = {}
    for one in holdings(facts):
        by_device.setdefault(one.device.title, []).append(one)
    twice = {device: held for device, held in by_device.items() if _clash(held)}
    for device, held in sorted(twice.items()):
        yield _failure(device, sorted(held, key=_age))
    if by_device and not twice:
        yield Good(f"no device of {len(by_device)} in use by claims is held twice")


def _clash(held: list[Holding]) -> bool:
    """Shares of one device go together; one that is held whole goes with nothing."""
    return len(held) > 1 and not all(one.is_share for one in held)


def _age(one: Holding) -> tuple[str, str]:
    return one.claim.root.text_at("metadata", "creationTimestamp") or "", one.claim.title


def _failure(device: str, held: list[Holding]) -> Failure:
    claims = list(dict.fromkeys(one.claim.title for one in held))
    last = held[-1]
    names = " ".join(name for name in last.users if name)
    command = f"kubectl delete pod -n {last.claim.namespace} {names}" if names else ""
    return Failure(
        f"device {device} is held by {listed(claims)}",
        tuple(claims),
        tuple(f"{one.claim.title}: for pod {listed(one.users) or 'none'}" for one in held[:3]),
        (
            Remedy(f"end the pods of the younger claim, {last.claim.title}, and start them anew", command),
            Remedy("let one scheduler alone allocate the devices of a driver"),
        ),
        frozenset(claims),
    )


CHECK = Check(
    "device-held-twice",
    Point.PLACING,
    Layer.PLACEMENT,
    "No two claims hold one device",
    "Two schedulers gave it away: two pods share a GPU unawares, or one is refused again and again.",
    judge,
    ("ResourceClaim",),
)
