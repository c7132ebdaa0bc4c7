"""Nodes are asked for as far as the limits of Karpenter's NodePools allow all of them.

Karpenter buys nodes for pods one by one: where a limit leaves nodes for half a gang, it buys half of them,
and they stay empty. So a gang asks for nodes only where the pools that could serve it may still grow by all
that it takes. Work that asks counts against the pools until they have grown by as much, it starts or asks no
more, or its nodes have not come for as long as autoscalers wait for one. Where other work starts on its
nodes, it takes new ones, and asks no more if the pools cannot grow by as many.
"""

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from gpufleet.cluster.pods.gang_tracker import GangTracker
from gpufleet.cluster.pods.pod_entry import Entry, PodStage
from gpufleet.cluster.pods.pod_tracker import PodTracker
from gpufleet.cluster.waiting_reasons import ABOUT_NODES
from gpufleet.cluster.watching.mirrors import Cluster
from gpufleet.engine.explanations.promised_quota import COUNTS_US, STEPS_BACK_US, Work
from gpufleet.engine.node_reasons.amount_words import amount_of, cores, gibibytes
from gpufleet.engine.scheduler import Engine
from gpufleet.kube import resources
from gpufleet.kube.codec.node_pools import read_node_pool
from gpufleet.kube.objects import node_pools as wire
from gpufleet.model.identifiers import GangName, PodUid
from gpufleet.model.node_pool import NODES, Amounts, NodePool, asked, nodes_for
from gpufleet.model.phrases import counted, listed
from gpufleet.model.resource_names import CPU, EPHEMERAL_STORAGE, MEMORY
from gpufleet.model.shape import Shape
from gpufleet.scheduler.pool_nodes import PoolNodes

PoolNames = frozenset[str]
SHAPES_MAX = 4096
"""For so many shapes of pods it is remembered which pools serve them."""


class _Asking(msgspec.Struct):
    """Work that asks for nodes, and what of it the pools have not grown by yet.

    ``on_nodes`` is what it will have on nodes that are there, as far as it was counted, or were bought since.
    """

    since_us: int
    pools: PoolNames
    to_come: Amounts
    on_nodes: Amounts


class Shortage(NamedTuple):
    """What the limits of the pools leave of a resource, and what the work takes of it."""

    resource: str
    left: int
    asked: int


class NodePoolLimits:
    """The work that asks for nodes, and what Karpenter may still buy."""

    def __init__(self, engine: Engine, cluster: Cluster, pods: PodTracker) -> None:
        self._engine = engine
        self._cluster = cluster
        self._pods = pods
        self._gangs: GangTracker = pods.gangs
        self._known: dict[str, tuple[str, NodePool]] = {}
        self._used: dict[str, Amounts] = {}
        self._asking: dict[Work, _Asking] = {}
        self._serving: dict[Shape, PoolNames] = {}
        self._nodes = PoolNodes(cluster)
        self._refused: dict[Work, str] = {}
        self._checked: set[Work] = set()
        self._refused_at_us = 0

    def ask(self, work: Work, entry: Entry, at_us: int, *, asked_before: bool = False) -> str:
        """Count work that waits for nodes from now on; words of why not, where limits leave too little."""
        self._take_pools()
        if not any(pool.left for _, pool in self._known.values()):
            self._asking.clear()
            return ""
        self._end_old(at_us)
        if self._refused_at_us != self._engine.at_us:
            self._refused.clear()
            self._checked.clear()
            self._refused_at_us = self._engine.at_us
        if work in self._asking:
            self._check(work, entry, at_us)
        elif work not in self._refused:
            words = self._judge(work, entry, at_us, asked_before=asked_before)
            # Each member of a gang is asked about, and one answer for all costs an attempt to place the gang.
            if words:
                self._refused[work] = words
        return self._refused.get(work, "")

    def _judge(self, work: Work, entry: Entry, at_us: int, *, asked_before: bool) -> str:
        members = self._members(entry)
        pools = PoolNames().union(*map(self._pools_for, members))
        if not pools:
            # What no pool serves Karpenter does not buy for, and other autoscalers know no such limits.
            return ""
        need = self._need(members, pools)
        on_nodes: Amounts = {}
        short = None if asked_before else self._short(need, pools)
        if short is not None:
            # Before work is refused: members may fit on nodes that are there, and other work may be gone.
            self._forget_ended()
            on_nodes = self._room_on_nodes(need, self._need(self._without_place(work, members), pools))
            need = {name: amount - on_nodes.get(name, 0) for name, amount in need.items()}
            short = self._short(need, pools)
        if short is not None:
            return _words(short, pools)
        self._asking[work] = _Asking(at_us, pools, need, on_nodes)
        return ""

    def asking_gangs(self) -> Iterator[PodUid]:
        """The members of gangs that ask for nodes; other work that starts may have taken theirs."""
        for work in self._asking:
            for entry in self._gangs.waiting(GangName(work)):
                yield entry.name.uid

    def _check(self, work: Work, entry: Entry, at_us: int) -> None:
        """Whether what is coming, and what may be bought, is enough still for work that asks already."""
        if work in self._checked:
            return
        self._checked.add(work)
        one, members = self._asking[work], self._members(entry)
        # Without a pool there is nothing to compare with, and a single pod has all of a node or none.
        if len(members) < 2 or not one.to_come or not one.pools <= self._known.keys():
            return
        rest = self._need(self._without_place(work, members), one.pools)
        coming = {name: self._coming(name, one.pools, at_us) for name in rest}
        need = {name: max(one.to_come.get(name, 0), rest[name] - coming[name]) for name in rest}
        short = self._short(need, one.pools, before=work)
        if short is None:
            one.to_come.update(need)
        else:
            del self._asking[work]
            self._refused[work] = _words(short, one.pools)

    def _coming(self, resource: str, pools: PoolNames, at_us: int) -> int:
        usable = self._nodes.usable((pool for _, pool in self._known.values()), at_us)
        used = {name: self._known[name][1].used.get(resource, 0) for name in pools}
        return sum(max(0, used[name] - usable.get(name, {}).get(resource, 0)) for name in pools)

    def _room_on_nodes(self, need: Amounts, without_place: Amounts) -> Amounts:
        """What work needs no new node for, less the room that other work counts on."""
        found: Amounts = {}
        for name, amount in need.items():
            others = sum(one.on_nodes.get(name, 0) for one in self._asking.values())
            found[name] = max(0, amount - without_place.get(name, 0) - others)
        return found

    def withdraw(self, work: Work) -> None:
        """Work does not ask for nodes any more."""
        if self._asking.pop(work, None) is not None:
            self._refused.clear()

    def _take_pools(self) -> None:
        """Read pools that changed; by what one has grown, the work that asked first has its nodes."""
        found: dict[str, wire.NodePool] = {
            one.metadata.name: one for one in self._cluster.all(resources.NODE_POOLS)
        }
        changed = [
            one
            for name, one in found.items()
            if self._known.get(name, ("",))[0] != one.metadata.resource_version
        ]
        if not changed and len(found) == len(self._known):
            return
        self._serving.clear()
        self._refused.clear()
        for name in [name for name in self._known if name not in found]:
            del self._known[name]
        for one in changed:
            name, pool = one.metadata.name, read_node_pool(one)
            self._known[name] = (one.metadata.resource_version, pool)
            before = self._used.get(name, pool.used)
            self._used[name] = dict(pool.used)
            self._settle(name, {key: amount - before.get(key, 0) for key, amount in pool.used.items()})

    def _settle(self, name: str, grown: Amounts) -> None:
        rest = {key: amount for key, amount in grown.items() if amount > 0}
        for one in self._asking.values():
            if not rest:
                return
            if name not in one.pools:
                continue
            for key in list(rest.keys() & one.to_come.keys()):
                came = min(rest[key], one.to_come[key])
                one.to_come[key] -= came
                one.on_nodes[key] = one.on_nodes.get(key, 0) + came
                rest[key] -= came
                if not rest[key]:
                    del rest[key]

    def _end_old(self, at_us: int) -> None:
        """Nodes that are not there after so long do not come: others may ask, and later the work again."""
        for work, one in list(self._asking.items()):
            # The oldest stand first.
            if at_us - one.since_us < COUNTS_US:
                return
            if one.to_come:
                one.to_come.clear()
                self._refused.clear()
            if at_us - one.since_us >= COUNTS_US + STEPS_BACK_US:
                del self._asking[work]

    def _forget_ended(self) -> None:
        for work in list(self._asking):
            if not self._waits(work):
                del self._asking[work]

    def _waits(self, work: Work) -> bool:
        entry = self._pods.entries.get(PodUid(work))
        if entry is not None and entry.meaning is not None and entry.meaning.gang is None:
            return entry.place is PodStage.WAITING
        return bool(self._gangs.waiting(GangName(work)))

    def _members(self, entry: Entry) -> list[Shape]:
        if entry.meaning is None:
            return []
        gang = entry.meaning.gang
        entries = [entry] if gang is None else self._gangs.waiting(gang)
        return [one.meaning.shape for one in entries if one.meaning is not None]

    def _without_place(self, work: Work, members: list[Shape]) -> list[Shape]:
        """The members that find no place on the nodes that are there: of as many, those that take least."""
        said = self._engine.explain_gang(GangName(work)) if len(members) > 1 else None
        if said is None:
            return members
        short = max(0, said.arrived - said.placeable)
        return sorted(members, key=lambda one: (one.gpu.count, one.resources.cpu_milli))[:short]

    def _pools_for(self, shape: Shape) -> PoolNames:
        found = self._serving.get(shape)
        if found is None:
            if len(self._serving) >= SHAPES_MAX:
                self._serving.clear()
            found = PoolNames(name for name, (_, pool) in self._known.items() if pool.serves(shape))
            self._serving[shape] = found
        return found

    def _need(self, members: list[Shape], pools: PoolNames) -> Amounts:
        """What pools must grow by: what members ask for, in whole nodes where their size is known."""
        need: Amounts = {}
        for shape in members:
            for name, amount in asked(shape).items():
                need[name] = need.get(name, 0) + amount
        if not members:
            return need
        need[NODES] = 1
        sizes = [self._known[name][1].gpus_of_a_node for name in pools]
        gpus = [shape.gpu.count for shape in members if shape.gpu.whole]
        if gpus and all(sizes):
            usable = {size for one in sizes for size in one if size >= max(gpus)}
            nodes = {size: nodes_for(gpus, size) for size in usable}
            resource = next((shape.gpu_resource for shape in members if shape.gpu.whole), "")
            if nodes and resource:
                need[NODES] = min(nodes.values())
                need[resource] = min(size * count for size, count in nodes.items())
        return need

    def _short(self, need: Amounts, pools: PoolNames, before: Work | None = None) -> Shortage | None:
        """What is too little beside all other work that asks, or beside that which asked ``before`` this."""
        older = itertools.takewhile(lambda one: one[0] != before, self._asking.items())
        others = [one for _, one in older if not pools.isdisjoint(one.pools)]
        for name, amount in need.items():
            limits = [self._known[pool][1].left.get(name) for pool in pools]
            bounded = [limit for limit in limits if limit is not None]
            if len(bounded) < len(limits):
                # A pool without a limit may grow as it has to.
                continue
            left = sum(bounded) - sum(one.to_come.get(name, 0) for one in others)
            if amount > left:
                return Shortage(name, max(0, left), amount)
        return None


def _words(short: Shortage, pools: PoolNames) -> str:
    title = "NodePool" if len(pools) == 1 else "NodePools"
    left, takes = (_amount(short.resource, amount) for amount in (short.left, short.asked))
    leave = f"the limits of {title} {listed(sorted(pools))} leave {left} for new nodes"
    return f"{ABOUT_NODES}{leave}, and it takes {takes}"


def _amount(resource: str, amount: int) -> str:
    if resource == CPU:
        return cores(amount)
    if resource == NODES:
        return counted(amount, "node")
    if resource in {MEMORY, EPHEMERAL_STORAGE}:
        return f"{gibibytes(amount)} of {resource}"
    return amount_of(resource, amount)
