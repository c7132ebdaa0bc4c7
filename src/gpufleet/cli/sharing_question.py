"""Puts the question of ``gpufleet advise sharing`` together: measured use, the fleet, the prices; and asks
it.
"""

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import msgspec

from gpufleet.advise.sharing.fleet import fleet_of, known_fleet, named_fleet, only_model
from gpufleet.advise.sharing.pools import SharingPlan, plan
from gpufleet.advise.sharing.statements import Statement, stated
from gpufleet.advise.sharing.workload import SharingWorkload, split_by_gpus, workloads_of
from gpufleet.cli.use_input import read_use
from gpufleet.model.node import Node
from gpufleet.usage.prometheus.pod_samples import GpuUse
from gpufleet.usage.samples import Sample

HOSTS_UNKNOWN = (
    "CPU and memory of the nodes are not known (kube_node_status_allocatable of kube-state-metrics, or"
    " --nodes), so whether they are enough for shared GPUs is not judged"
)


class Terms(msgspec.Struct, frozen=True):
    """What the user says beside the use."""

    nodes: Path | None
    step_s: int
    risk_max_pct: int
    prices: dict[str, Decimal]
    statements: tuple[Statement, ...] = ()


class Advice(msgspec.Struct, frozen=True):
    """The plan, and what was asked: its prices by model, and how long an instant is."""

    plan: SharingPlan
    workloads: tuple[SharingWorkload, ...]
    instants: int
    step_s: int
    risk_max_pct: int
    prices: dict[str, Decimal]
    notes: tuple[str, ...]


def advise_from_table(use: Path, terms: Terms, namespaces: Sequence[str] = ()) -> Advice:
    """The advice; raises InputError in the terms of the files."""
    samples, notes = read_use(use)
    if namespaces:
        samples = [one for one in samples if one.namespace in namespaces]
    samples = stated(samples, terms.statements)
    if terms.nodes is None:
        return _advice(samples, named_fleet(samples, terms.step_s), terms, notes)
    return _on_listed(samples, terms.nodes, terms, notes)


def advise_from_prometheus(use: GpuUse, terms: Terms) -> Advice:
    """The advice, on the GPUs that were measured unless a node list is given."""
    samples = split_by_gpus(stated(use.samples, terms.statements))
    if terms.nodes is not None:
        return _on_listed(samples, terms.nodes, terms, use.notes)
    if all(card.host in use.hosts for card in use.cards):
        return _advice(samples, fleet_of(use.cards, use.hosts), terms, use.notes)
    free = [msgspec.structs.replace(one, cpu_milli=0, host_memory_mib=0) for one in samples]
    return _advice(free, fleet_of(use.cards, {}), terms, (*use.notes, HOSTS_UNKNOWN))


def _on_listed(samples: Sequence[Sample], nodes: Path, terms: Terms, notes: tuple[str, ...]) -> Advice:
    # Only a node list needs what reads traces.
    from gpufleet.replay.trace_nodes import read_nodes

    listed = read_nodes(nodes)
    return _advice(samples, known_fleet(listed.nodes), terms, (*notes, *listed.notes))


def _advice(
    samples: Sequence[Sample], fleet: tuple[Node, ...], terms: Terms, notes: tuple[str, ...]
) -> Advice:
    workloads = workloads_of(samples, terms.step_s, only_model(fleet))
    found = plan(workloads, fleet, Fraction(terms.risk_max_pct, 100))
    instants = len({sample.at_s // terms.step_s for sample in samples})
    return Advice(found, workloads, instants, terms.step_s, terms.risk_max_pct, terms.prices, notes)
