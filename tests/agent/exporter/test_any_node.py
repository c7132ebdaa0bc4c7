"""Whatever a node has and whoever is on it: a well-formed page, nothing negative, no energy lost."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpufleet.agent.exporter.options import ExporterOptions
from gpufleet.agent.state.node_state import Held, NodeGpus, NodePod
from gpufleet.devices.sample import Activity, ProcessUse, Sample
from gpufleet.devices.sharing.plan import Fractions, Mig, Mode, Mps, TimeSlice
from tests.agent.exporter.builders import (
    CUT_H100,
    NOW_S,
    Node,
    granted_share,
    holds,
    memory,
    node_of,
    pod,
    process,
    sample,
)

MODES: list[tuple[str, Mode | None]] = [
    ("model: H100-80GB", None),
    ("model: H100-80GB", TimeSlice(3)),
    ("model: H100-80GB", Mps(3, 10_000, 40)),
    ("model: H100-80GB", Fractions(4)),
    (CUT_H100, None),
    (CUT_H100, Mig(None, {"3g.40gb": 2})),
]
NAMES = ["a", "b", 'c"\n{}\\']
OWNERS = {1: "uid-a", 2: "uid-b", 3: f"uid-{NAMES[2]}"}

busy = st.none() | st.integers(0, 100)
ratios = st.none() | st.floats(0, 1, allow_nan=False)
processes = st.none() | st.lists(
    st.builds(process, st.integers(1, 5), st.none() | st.integers(0, 9000), busy), max_size=5
).map(tuple)


@st.composite
def nodes(draw: st.DrawFn) -> tuple[NodeGpus, tuple[NodePod, ...], tuple[Held, ...]]:
    """A card or two, and pods with what they hold of them."""
    chosen = draw(st.lists(st.sampled_from(MODES), min_size=1, max_size=2))
    modes = {index: mode for index, (_, mode) in enumerate(chosen) if mode is not None}
    gpus = node_of(*(group for group, _ in chosen), modes=modes)
    held, grants = [], {}
    for gpu in gpus.gpus:
        names = draw(st.lists(st.sampled_from(NAMES), max_size=3))
        for number, name in enumerate(names):
            if isinstance(gpu.plan.mode, Fractions):
                grants[name] = granted_share(gpu.uuid, draw(st.integers(1, 500)), 100)
                held.append(holds(name, f"slot-{number}", resource="gpufleet.io/gpu-share"))
                continue
            unit = draw(st.sampled_from([one.uuid for one in gpu.facts.mig])) if gpu.facts.mig else gpu.uuid
            shared = gpu.plan.mode in (TimeSlice(3), Mps(3, 10_000, 40))
            held.append(holds(name, f"{unit}::{number}" if shared else str(unit)))
    pods = tuple(pod(name, grant=grants.get(name), labels={"team": name}) for name in NAMES[:2])
    return gpus, pods, tuple(held)


@st.composite
def readings(draw: st.DrawFn, at_s: float, energy_mj: int) -> Sample:
    return sample(
        at_s,
        gpu_busy_pct=draw(busy),
        memory=memory(draw(st.integers(0, 9000))),
        energy_mj=energy_mj,
        activity=Activity(graphics_engine_ratio=draw(ratios)),
    )


@settings(max_examples=60, deadline=None)
@given(nodes(), st.data(), st.booleans(), st.booleans())
def test_the_page_of_any_node(
    found: tuple[NodeGpus, tuple[NodePod, ...], tuple[Held, ...]],
    data: st.DataObject,
    virtual: bool,
    looked_at: bool,
) -> None:
    gpus, pods, held = found
    options = ExporterOptions(virtual_gpus=virtual, pod_labels=("team",), pod_uid=virtual)
    node = Node(gpus, options, OWNERS.get if looked_at else None)
    node.has(*pods)
    node.gave(*held)
    energy_mj = {gpu.uuid: 0 for gpu in gpus.gpus}
    for step in range(3):
        for gpu in gpus.gpus:
            energy_mj[gpu.uuid] += data.draw(st.integers(0, 10**6)) if step else 0
            own = data.draw(readings(NOW_S + step, energy_mj[gpu.uuid]))
            instances = {one.uuid: data.draw(readings(NOW_S + step, 0)) for one in gpu.facts.mig}
            seen: tuple[ProcessUse, ...] | None = data.draw(processes)
            node.reads(gpu.facts.index, own, instances, seen)
        page = node.scrape()
        keys = [(name, *sorted(labels.items())) for name, labels, _ in page]
        assert len(keys) == len(set(keys))
        assert all(math.isfinite(value) and value >= 0 for _, _, value in page)
        assert all(value <= 1 + 1e-9 for name, _, value in page if name.endswith("_ratio"))
        for uuid, drawn_mj in energy_mj.items():
            of_pods = page.series("gpufleet_pod_gpu_energy_joules_total", uuid=uuid)
            nobodys = page.value("gpufleet_gpu_energy_unattributed_joules_total", uuid=uuid)
            assert sum(value for _, value in of_pods) + nobodys == pytest.approx(drawn_mj / 1000)
