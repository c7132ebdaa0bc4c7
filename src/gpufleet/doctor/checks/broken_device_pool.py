"""Pools of devices (DRA) that give nothing: slices are missing, names come twice, counters are unknown."""

from collections import Counter
from collections.abc import Iterable, Iterator

from gpufleet.doctor.check import Check, Failure, Good, Layer, Point, Remedy
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.views.device_claims import DevicePool, device_pools, named


def judge(facts: Facts) -> Iterator[Failure | Good]:
    """Each pool with what is wrong in it."""
    pools = device_pools(facts)
    broken = [(pool, problem) for pool in pools for problem in _problems(pool)]
    for pool, problem in broken:
        yield _failure(pool, problem)
    if pools and not broken:
        yield Good(f"all pools of devices are whole ({len(pools)})")


def _problems(pool: DevicePool) -> Iterator[str]:
    if not pool.is_complete:
        yield f"has {len(pool.slices)} of {pool.slice_count} slices of generation {pool.generation}"
        # What a missing slice would bring is not known.
        return
    devices = list(pool.devices())
    yield from (f"has two devices {name}" for name in _twice(map(named, devices)))
    sets = list(pool.counter_sets())
    yield from (f"has two sets of counters {name}" for name in _twice(map(named, sets)))
    counters = {(named(one), name) for one in sets for name, _ in one.at("counters").entries()}
    for device in devices:
        for use in device.at("consumesCounters").items():
            used = use.text_at("counterSet") or ""
            unknown = [name for name, _ in use.at("counters").entries() if (used, name) not in counters]
            if unknown:
                yield f"has a device {named(device)} with the unknown counter {used}/{unknown[0]}"


def _twice(names: Iterable[str]) -> list[str]:
    return sorted(name for name, count in Counter(names).items() if count > 1)


def _failure(pool: DevicePool, problem: str) -> Failure:
    titles = tuple(one.title for one in pool.slices)
    command = f"kubectl get resourceslices --field-selector spec.driver={pool.driver}"
    return Failure(
        f"no device of pool {pool.title} is given to claims: it {problem}",
        titles,
        tuple(titles[:3]),
        (
            Remedy(
                "see the log of the driver, which writes the slices; it may be in the middle of a change",
                command,
            ),
        ),
    )


CHECK = Check(
    "device-pool-broken",
    Point.STACK,
    Layer.OFFER,
    "Pools of devices are whole",
    "Nothing is given of a pool that lacks slices or contradicts itself, and no claim is told so.",
    judge,
    ("ResourceSlice",),
)
