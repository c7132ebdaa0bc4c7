"""Turns choices into pools of GPUs, placed on the fleet, and takes back what does not pay.

A pool is the GPUs of one model in one mode. All pods of a pool get equal parts of a GPU, but for fractions
and MIG, where each has its own. Then, until nothing changes:

- a pool with neighbours that want too much too often gets fewer holders a GPU; at two, its busiest workload
  goes back to whole GPUs, and so does one with a MIG instance that is too small too often;
- a workload that finds no room as it is shared goes back to whole GPUs;
- a pool that takes no fewer GPUs than whole ones is whole again, and on cut cards also each workload that is
  there for nothing: the simple answer.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction

import msgspec

from gpufleet.advise.sharing.choosing import TYPICAL_PERCENT, Choice, Mode, choose
from gpufleet.advise.sharing.fleet import card_mib
from gpufleet.advise.sharing.mig_cards import cards_for
from gpufleet.advise.sharing.packing import Ask, PackedFleet, PackedPod
from gpufleet.advise.sharing.workload import Replica, SharingWorkload, risk
from gpufleet.model.device import WHOLE_GPU_MILLI
from gpufleet.model.identifiers import DeviceId, GpuModelName, NodeName
from gpufleet.model.mig_boards import BOARDS
from gpufleet.model.node import Node
from gpufleet.model.shape import GpuRequest

# Bounds how long a pod waits for its turn on the GPU.
HOLDERS_MAX = 8
NOTHING_FREED = "sharing would free no GPU, so the simple answer is right"
Key = tuple[Mode, str]
"""What tells pools apart: the mode and the model of GPU."""


class Pool(msgspec.Struct, frozen=True):
    """GPUs offered in one way, the pods on each, and how often those want more than there is.

    ``holders`` is how many may be on one GPU (fractions: as many as fit), ``risk`` that of the worst one.
    ``instances`` has the MIG profiles that each GPU is cut into, one for each pod on it.
    """

    mode: Mode
    gpu_model: str
    instances: dict[DeviceId, tuple[str, ...]]
    holders: int
    on_device: dict[DeviceId, tuple[Replica, ...]]
    node_of: dict[DeviceId, NodeName]
    workloads: tuple[str, ...]
    risk: Fraction
    gpus_today: int


class SharingPlan(msgspec.Struct, frozen=True):
    """What to do. ``today_gpus`` are those that whole GPUs for all pods take on that fleet, by model.

    ``unplaced`` are pods without a place as advised, ``unplaced_today`` those without one as it is.
    """

    choices: tuple[Choice, ...]
    pools: tuple[Pool, ...]
    nodes: tuple[Node, ...]
    today_gpus: dict[str, int]
    unplaced_today: tuple[str, ...]
    unplaced: tuple[str, ...]

    @property
    def gpus(self) -> int:
        """How many GPUs have a holder as advised."""
        return sum(len(pool.on_device) for pool in self.pools)


def plan(workloads: Sequence[SharingWorkload], nodes: tuple[Node, ...], risk_max: Fraction) -> SharingPlan:
    """The choices, placed; no GPU's risk is above ``risk_max``."""
    cards = {one.gpu_model: card_mib(nodes, one.gpu_model) for one in workloads}
    choices = [choose(one, cards[one.gpu_model]) for one in workloads]
    whole = _placed([one.back_to_whole("") for one in choices], nodes, cards, {})
    holders: dict[Key, int] = {}
    while True:
        pools, unplaced = _placed(choices, nodes, cards, holders)
        # Where not even today's pods all find room, whole GPUs are no way out for those without.
        lost = () if whole[1] else unplaced
        if not _relieved(pools, choices, holders, risk_max, lost):
            break
    return SharingPlan(
        tuple(choices),
        tuple(pools),
        nodes,
        {pool.gpu_model: len(pool.on_device) for pool in whole[0]},
        tuple(whole[1]),
        tuple(unplaced),
    )


def _placed(
    choices: Sequence[Choice], nodes: tuple[Node, ...], cards: Mapping[str, int], holders: dict[Key, int]
) -> tuple[list[Pool], list[str]]:
    """The pools, whole GPUs first, and the pods without a place."""
    room = PackedFleet(nodes)
    pools: list[Pool] = []
    unplaced: list[str] = []
    members: dict[Key, list[Choice]] = {}
    for choice in choices:
        members.setdefault(_key(choice), []).append(choice)
    for key in sorted(members, key=lambda key: (list(Mode).index(key[0]), key)):
        found = members[key]
        card = cards[key[1]]
        if key not in holders:
            holders[key] = _holders(key, found, card)
        replicas = {
            _uid(choice.workload, replica): replica
            for choice in found
            for replica in choice.workload.replicas
        }
        if key[0] is Mode.MIG:
            places = _placed_on_cut(found, room)
        else:
            asks = [
                _ask(choice, replica, holders[key], card)
                for choice in found
                for replica in choice.workload.replicas
            ]
            # Turns and MPS are asked for by one name, so a node has one of them only.
            barred = {node for pool in pools if pool.mode is Mode.MPS for node in pool.node_of.values()}
            places = room.pack(asks, barred if key[0] is Mode.TIME_SLICE else ())
        unplaced += sorted(set(replicas) - set(places))
        pools.append(_pool(key, holders[key], found, replicas, places))
    return pools, unplaced


def _placed_on_cut(members: Sequence[Choice], room: PackedFleet) -> Mapping[str, PackedPod]:
    """The pods of each card that is cut are placed together, as one that asks for a whole GPU."""
    works = {
        _uid(one.workload, replica): one.workload for one in members for replica in one.workload.replicas
    }
    model = members[0].workload.gpu_model
    cards = {card[0]: card for card in cards_for(BOARDS[GpuModelName(model)], _profiles(members))}
    gpu = GpuRequest(1, WHOLE_GPU_MILLI, models=(GpuModelName(model),))
    places = room.pack(
        [
            Ask(
                uid,
                gpu,
                sum(works[pod].cpu_milli for pod in card),
                sum(works[pod].host_memory_mib for pod in card),
                pods=len(card),
            )
            for uid, card in cards.items()
        ]
    )
    return {pod: place for uid, place in places.items() for pod in cards[uid]}


def _profiles(members: Sequence[Choice]) -> dict[str, str]:
    """The MIG profile of each pod."""
    return {_uid(one.workload, replica): one.profile for one in members for replica in one.workload.replicas}


def _key(choice: Choice) -> Key:
    return choice.mode, choice.workload.gpu_model


def _holders(key: Key, members: Sequence[Choice], card: int) -> int:
    """How many of these one GPU may have at most, by memory; cut cards have what was placed on them."""
    mode, _ = key
    if mode in (Mode.WHOLE, Mode.MIG):
        return 1
    most = min(HOLDERS_MAX, *(card // max(1, one.memory_mib) for one in members))
    if mode is Mode.MPS:
        # Each client gets an equal part of the threads, and that is a limit.
        typical = (one.workload.percentile(TYPICAL_PERCENT) for one in members)
        most = min(most, *(WHOLE_GPU_MILLI // max(1, use) for use in typical))
    return max(1, most)


def _ask(choice: Choice, replica: Replica, holders: int, card: int) -> Ask:
    work = choice.workload
    models = (GpuModelName(work.gpu_model),)
    if choice.mode is Mode.WHOLE:
        gpu = GpuRequest(work.gpus, WHOLE_GPU_MILLI, models=models)
    elif choice.mode is Mode.FRACTION:
        gpu = GpuRequest(1, min(choice.gpu_milli, WHOLE_GPU_MILLI - 1), choice.memory_mib, models)
    else:
        # One of equal parts; a thousandth less than a whole GPU where one holder is all that is left.
        gpu = GpuRequest(1, min(WHOLE_GPU_MILLI // holders, WHOLE_GPU_MILLI - 1), card // holders, models)
    return Ask(_uid(work, replica), gpu, work.cpu_milli, work.host_memory_mib)


def _uid(work: SharingWorkload, replica: Replica) -> str:
    return f"{work.name}/{replica.name}"


def _misses(choice: Choice, unplaced: Sequence[str]) -> bool:
    return any(_uid(choice.workload, replica) in unplaced for replica in choice.workload.replicas)


def _pool(
    key: Key,
    holders: int,
    members: Sequence[Choice],
    replicas: Mapping[str, Replica],
    places: Mapping[str, PackedPod],
) -> Pool:
    on_device: dict[DeviceId, tuple[Replica, ...]] = {}
    node_of: dict[DeviceId, NodeName] = {}
    for uid, place in sorted(places.items()):
        for device in place.devices:
            on_device[device] = (*on_device.get(device, ()), replicas[uid])
            node_of[device] = place.node
    names = tuple(one.workload.name for one in members)
    today = sum(one.workload.gpus_today for one in members)
    if key[0] in (Mode.MIG, Mode.MPS, Mode.TIME_SLICE):
        # No more are let in than were judged.
        holders = max((len(on) for on in on_device.values()), default=holders)
    instances: dict[DeviceId, tuple[str, ...]] = {}
    if key[0] is Mode.MIG:
        worst = max((_risk_on_instance(one) for one in members), default=Fraction(0))
        profiles = _profiles(members)
        for uid, place in sorted(places.items()):
            (device,) = place.devices
            instances[device] = (*instances.get(device, ()), profiles[uid])
    else:
        worst = max((_risk_of(key[0], holders, on) for on in on_device.values()), default=Fraction(0))
    return Pool(*key, instances, holders, on_device, node_of, names, worst, today)


def _risk_of(mode: Mode, holders: int, on: Sequence[Replica]) -> Fraction:
    """How often the neighbours on a GPU together want more than it has; with MPS also one pod more than its
    part.
    """
    if mode is Mode.WHOLE:
        return Fraction(0)
    if mode is Mode.MPS:
        return max(risk(on), *(risk([one], WHOLE_GPU_MILLI // holders) for one in on))
    return risk(on)


def _risk_on_instance(choice: Choice) -> Fraction:
    """How often a replica wants more than the slices of its instance: that of the replica with the most."""
    board = BOARDS[GpuModelName(choice.workload.gpu_model)]
    limit = WHOLE_GPU_MILLI * board.profile(choice.profile).compute_slices // board.compute_slices
    return max(risk([one], limit) for one in choice.workload.replicas)


def _relieved(
    pools: Sequence[Pool],
    choices: list[Choice],
    holders: dict[Key, int],
    risk_max: Fraction,
    unplaced: Sequence[str],
) -> bool:
    """Changes one thing that does not hold; False if all holds."""
    for pool in pools:
        if pool.mode is Mode.WHOLE:
            continue
        names = set(pool.workloads)
        lost = {one.workload.name for one in choices if one.workload.name in names and _misses(one, unplaced)}
        key = (pool.mode, pool.gpu_model)
        if lost:
            # Cheapest first: what finds no room needs no look at its risk.
            _send_back(choices, lost, "shared, it finds no room on this fleet")
        elif pool.mode is Mode.MIG:
            found = _needless_or_too_small([one for one in choices if one.workload.name in names], risk_max)
            if found is None:
                continue
            _send_back(choices, {found[0].workload.name}, found[1])
        elif pool.risk > risk_max and pool.mode in (Mode.MPS, Mode.TIME_SLICE) and pool.holders > 2:
            # Fewer pods on each GPU may be enough before one of them gets a whole one.
            holders[key] = pool.holders - 1
            return True
        elif pool.risk > risk_max:
            busiest = max(
                (one for one in choices if one.workload.name in names),
                key=lambda one: (one.workload.mean_milli, one.workload.name),
            )
            why = f"shared, a GPU would be wanted beyond 100 % in {percent(pool.risk)} of the instants"
            _send_back(choices, {busiest.workload.name}, why)
        elif len(pool.on_device) >= pool.gpus_today:
            _send_back(choices, names, NOTHING_FREED)
        else:
            continue
        # Other members may share a GPU in greater number, so their bound is worked out anew.
        holders.pop(key, None)
        return True
    return False


def _needless_or_too_small(members: Sequence[Choice], risk_max: Fraction) -> tuple[Choice, str] | None:
    """A workload with an instance that is too small too often, else one that frees nothing on cut cards."""
    worst = max(members, key=_risk_on_instance)
    if _risk_on_instance(worst) > risk_max:
        part = percent(_risk_on_instance(worst))
        return worst, f"{worst.profile} would be too small in {part} of the instants"
    board = BOARDS[GpuModelName(members[0].workload.gpu_model)]
    cards = len(cards_for(board, _profiles(members)))
    for one in sorted(members, key=lambda one: -board.profile(one.profile).memory_slices):
        others = [other for other in members if other is not one]
        if len(cards_for(board, _profiles(others))) + one.workload.gpus_today <= cards:
            return one, NOTHING_FREED
    return None


def _send_back(choices: list[Choice], names: set[str], reason: str) -> None:
    for at, choice in enumerate(choices):
        if choice.workload.name in names:
            choices[at] = choice.back_to_whole(reason)


def percent(part: Fraction) -> str:
    """A part in percent with one decimal, rounded up: a risk is never shown smaller than it is."""
    tenths = -(-part.numerator * 1000 // part.denominator)
    return f"{tenths / 10:.1f} %"
