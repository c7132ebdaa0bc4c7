"""Makes a valuation from the mix of requests and the fleet as it is.

Costs about a millisecond or two, most of it the cutting-stock LP. The engine asks for a study when
arrivals or the fleet have moved on (``policy_state``); its result comes back as an event.
"""

import math

import numpy as np
import numpy.typing as npt

from gpufleet.engine.arrays import layout
from gpufleet.engine.learn.host_curve import host_curve
from gpufleet.engine.learn.mix import Mix, PodMixRequest
from gpufleet.engine.learn.model_worth import model_prices
from gpufleet.engine.learn.remainder_value import remainder_values
from gpufleet.engine.learn.whole_slots import SAFETY, FreeHosts, whole_slots
from gpufleet.engine.state.fleet import Fleet
from gpufleet.engine.valuation import ONE_GPU, ONE_PRICE, Valuation
from gpufleet.model.device import WHOLE_GPU_MILLI
from gpufleet.model.identifiers import GpuModelName
from gpufleet.model.resources import MEBIBYTE

Float64Array = npt.NDArray[np.float64]

FIRST_VALUATION_ARRIVALS = 16
"""Fewer requests say nothing of a mix."""
ARRIVALS_GROWTH = 1.5
"""The next valuation is due when arrivals have grown by half: often at first, when each says most."""
ARRIVALS_STEP_MAX = 2000
"""Half of the mix's half-life: a fleet that has run for years still learns, and not more often than
the mix can have changed.
"""

FREE_FALL = 0.2
"""When this part of what was free is gone, what is left has another worth."""
FREE_RISE = 0.25
"""A rise of a quarter takes back a fall of a fifth."""
FREE_LEAST = 0.03
"""When less than this part of the fleet is free, its shrinking calls for no more valuations."""

MODEL_LEAST = 0.02
"""Models with less than this part of what is free call for no valuation of their own."""

STEP_LEAST = 0.02
"""A rise of what is free counts from this part of the fleet on."""

VALUATION_GAP_ARRIVALS = 16
"""So many arrivals are left between two valuations, whatever the fleet does."""

NOTHING_FREE = 1e-6
"""Stands for no free capacity, which a price cannot be divided by."""
SIZES_MAX = 64
"""Parts of a GPU that the cutting-stock problem knows; it costs by their number."""
PRICE_MAX = 8.0
"""No model weighs more than so many times the cheapest wanted one, or less than that part of it."""


def next_valuation_at(arrivals: int) -> int:
    """The number of arrivals that calls for the valuation after this one."""
    if arrivals < FIRST_VALUATION_ARRIVALS:
        return FIRST_VALUATION_ARRIVALS
    return min(arrivals + ARRIVALS_STEP_MAX, max(arrivals + 1, math.ceil(arrivals * ARRIVALS_GROWTH)))


def study(mix: Mix, fleet: Fleet) -> Valuation | None:
    """What the mix teaches about this fleet; None while no GPU request has arrived."""
    requests = mix.requests()
    everything = sum(weight for _, weight in requests)
    wanted = [(request, weight) for request, weight in requests if request.gpus > 0 and request.gpu_milli > 0]
    if not wanted:
        return None
    values = values_of(wanted)
    worths = np.array([request_worth(request, values) for request, _ in wanted])
    weights = np.array([weight for _, weight in wanted])
    cpu = np.array([float(request.cpu_milli) for request, _ in wanted])
    memory = np.array([float(request.memory_mib) for request, _ in wanted])
    tables = fleet.store.tables
    idle = tables.devices[layout.DEVICE_IDLE_MILLI]
    free_by_device = values[idle]
    free_worth = float(free_by_device.sum())
    # How many requests of the mean worth would use up what is free.
    arrivals_to_come = free_worth / (float((weights * worths).sum()) / everything)
    hosts = FreeHosts(
        whole_gpus=tables.nodes[layout.NODE_FREE_WHOLE_GPUS],
        cpu_milli=tables.resources_free[:, layout.RESOURCE_CPU_MILLI],
        memory_mib=tables.resources_free[:, layout.RESOURCE_MEMORY_BYTES] // MEBIBYTE,
    )
    free_milli = int(idle.sum())
    capacity_milli = WHOLE_GPU_MILLI * len(fleet.device_row_by_id)
    falling = free_milli > FREE_LEAST * capacity_milli
    return Valuation(
        value_by_milli=tuple(np.rint(values * ONE_GPU).astype(np.int64).tolist()),
        cpu=host_curve(cpu, worths, weights),
        memory=host_curve(memory, worths, weights),
        price_by_model=prices_of(wanted, worths, free_by_model(free_by_device, fleet), fleet),
        model_low_milli=low_marks(wanted, fleet),
        slots=whole_slots(
            [(request, weight / everything) for request, weight in wanted],
            arrivals_to_come,
            free_worth,
            hosts,
        ),
        # -1 is below every count, so no fall calls for a valuation.
        free_low_milli=int(free_milli * (1 - FREE_FALL)) if falling else -1,
        free_high_milli=int(free_milli + max(FREE_RISE * free_milli, STEP_LEAST * capacity_milli)) + 1,
    )


def values_of(wanted: list[tuple[PodMixRequest, float]]) -> Float64Array:
    """The worth of every remainder of a GPU, from the sizes that are most asked for."""
    demand = np.zeros(WHOLE_GPU_MILLI + 1)
    for request, weight in wanted:
        demand[request.gpu_milli] += weight * request.gpus
    sizes = np.flatnonzero(demand)
    # Stable, so that equal demands are cut off alike on every machine.
    heaviest = np.argsort(-demand[sizes], kind="stable")[:SIZES_MAX]
    kept = np.sort(sizes[heaviest]).astype(np.int64)
    return remainder_values(kept, demand[kept])


def request_worth(request: PodMixRequest, values: Float64Array) -> float:
    """The worth of the GPUs that a request takes: at least their plain size."""
    size = request.gpu_milli / WHOLE_GPU_MILLI
    return request.gpus * max(float(values[request.gpu_milli]), size)


def free_by_model(free_by_device: Float64Array, fleet: Fleet) -> dict[int, float]:
    """What is free of each model that the fleet has."""
    rows = list(fleet.device_row_by_id.values())
    models = fleet.store.tables.devices[layout.DEVICE_MODEL][rows]
    free = np.bincount(models, weights=free_by_device[rows])
    return {int(model): float(free[model]) for model in np.unique(models)}


def prices_of(
    wanted: list[tuple[PodMixRequest, float]],
    worths: Float64Array,
    free: dict[int, float],
    fleet: Fleet,
) -> dict[GpuModelName, int]:
    """The price of each model; empty if no task names a model.

    The cheapest that any request names costs 1. What none wants now costs little, but not nothing:
    a request that comes to it all the same should not tear it to pieces.
    """
    if all(not request.models for request, _ in wanted):
        return {}
    # Prices are money by capacity, so a model of which nothing is free has a little all the same.
    capacity = {model: max(amount, NOTHING_FREE) for model, amount in free.items()}
    demand: dict[frozenset[int], float] = {}
    for (request, weight), worth in zip(wanted, worths.tolist(), strict=True):
        accepted = codes(request, fleet).intersection(capacity) if request.models else frozenset(capacity)
        safety = SAFETY if request.models else 1.0
        if accepted:
            demand[accepted] = demand.get(accepted, 0.0) + weight * worth * safety
    prices = model_prices(demand, capacity)
    least = min((price for price in prices.values() if price > 0), default=0.0)
    if least == 0:
        return {}
    names = {code: name for name, code in fleet.model_codes.items()}
    return {
        names[model]: round(ONE_PRICE * min(max(price / least, 1 / PRICE_MAX), PRICE_MAX))
        for model, price in sorted(prices.items())
    }


def codes(request: PodMixRequest, fleet: Fleet) -> frozenset[int]:
    """The models a request names, as far as the fleet has ever had them."""
    return frozenset(fleet.model_codes[model] for model in request.models if model in fleet.model_codes)


def low_marks(wanted: list[tuple[PodMixRequest, float]], fleet: Fleet) -> dict[GpuModelName, int]:
    """For models that tasks name: the free milli at which another valuation is due.

    Counted as ``place.score.worth`` counts what is left: a node belongs to the model of its first GPU.
    """
    named = frozenset().union(*(codes(request, fleet) for request, _ in wanted))
    if not named:
        return {}
    nodes, devices = fleet.store.tables.nodes, fleet.store.tables.devices
    owners = np.flatnonzero(nodes[layout.NODE_DEVICE_COUNT])
    models = devices[layout.DEVICE_MODEL][nodes[layout.NODE_FIRST_DEVICE][owners]]
    free_milli = np.bincount(models, nodes[layout.NODE_FREE_GPU_MILLI][owners], len(fleet.model_codes))
    free = dict(enumerate(free_milli.tolist()))
    everything = sum(free.values())
    names = {code: name for name, code in fleet.model_codes.items()}
    return {
        names[model]: int(free[model] * (1 - FREE_FALL))
        for model in sorted(named)
        if free.get(model, 0.0) > MODEL_LEAST * everything
    }
