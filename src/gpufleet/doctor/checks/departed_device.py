"""A device that a claim holds, and that no slice of its pool has any more."""

from collections.abc import Iterator

from gpufleet.doctor.check import Check, Failure, Good, Grade, Layer, Point, Remedy, listed
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.views.device_claims import DevicePool, Holding, device_pools, holdings, named


def judge(facts: Facts) -> Iterator[Failure | Good]:
    """By pool; a pool that is being changed, or is gone as a whole, says nothing of single devices."""
    pools = {(pool.driver, pool.name): pool for pool in device_pools(facts) if pool.is_complete}
    by_pool: dict[tuple[str, str], list[Holding]] = {}
    for one in holdings(facts):
        if one.device[:2] in pools:
            by_pool.setdefault(one.device[:2], []).append(one)
    well = True
    for key, held in sorted(by_pool.items()):
        listed_names = {named(device) for device in pools[key].devices()}
        gone = [one for one in held if one.device.device not in listed_names]
        if gone:
            well = False
            yield _failure(pools[key], gone)
    if by_pool and well:
        yield Good("all devices in use by claims are in a slice of their pool")


def _failure(pool: DevicePool, gone: list[Holding]) -> Failure:
    claims = tuple(dict.fromkeys(one.claim.title for one in gone))
    names = listed(dict.fromkeys(one.device.device for one in gone))
    return Failure(
        f"pool {pool.title} no longer lists {names}, which {listed(claims)} still hold",
        claims,
        tuple(f"{one.claim.title}: device {one.device.title}" for one in gone[:3]),
        (
            Remedy("see in the driver's log why the device went, and let it list the device again"),
            Remedy("end the pods of the claim: it gives the device back"),
        ),
    )


CHECK = Check(
    "device-departed",
    Point.PLACING,
    Layer.STACK,
    "Devices in use by claims are in their slices",
    "Kubernetes takes the counters of such a device for free: another claim may get the same card.",
    judge,
    ("ResourceClaim", "ResourceSlice"),
    Grade.RISK,
)
