"""Whatever the drivers say, every label is one that the API server takes."""

from hypothesis import given
from hypothesis import strategies as st

from gpufleet.agent.labels import PREFIXES, node_labels
from gpufleet.agent.state.node_state import Gpu
from gpufleet.devices.facts import Driver, Engines, GpuFacts, MigFacts
from gpufleet.devices.sharing.plan import Exclusive, Fractions, Mig, Mps, SharingPlan, TimeSlice
from gpufleet.model.gpu_catalogue import Vendor
from gpufleet.model.identifiers import DeviceId
from gpufleet.model.label_syntax import is_label_key, is_label_value
from tests.agent.labels.nodes import a_node

WORDS = st.text(max_size=80) | st.sampled_from(
    ["NVIDIA H100 80GB HBM3", "1g.10gb+me", "1c.3g.40gb", "550.54.14"]
)
COUNTS = st.none() | st.integers(0, 2**40)
VENDORS = st.sampled_from([Vendor.NVIDIA, Vendor.AMD, Vendor.INTEL])
INSTANCES = st.builds(
    MigFacts,
    uuid=WORDS,
    profile=WORDS,
    start=COUNTS,
    gpu_instance=st.integers(0, 9),
    compute_instance=st.integers(0, 9),
    memory_mib=COUNTS,
    multiprocessors=COUNTS,
    engines=st.builds(Engines, COUNTS, COUNTS, COUNTS, COUNTS, COUNTS),
)
FACTS = st.builds(
    GpuFacts,
    uuid=WORDS.map(DeviceId),
    vendor=VENDORS,
    index=st.integers(0, 9),
    product=WORDS,
    memory_mib=COUNTS,
    multiprocessors=COUNTS,
    compute_capability=st.none() | st.tuples(st.integers(1, 99), st.integers(0, 9)),
    architecture=st.none() | WORDS | st.just("gfx942"),
    clique=st.none() | WORDS,
    mig_enabled=st.none() | st.booleans(),
    mig=st.lists(INSTANCES, max_size=3).map(tuple),
    pci_class=st.none() | st.integers(0, 0xFFFFFF) | st.just(0x038000),
    pci_device=st.none() | st.integers(0, 0xFFFF),
    simd_units=COUNTS,
    partitioning=st.none() | WORDS,
)
MODES = st.one_of(
    st.just(Exclusive()),
    st.builds(TimeSlice, st.integers(2, 9)),
    st.builds(Mps, st.integers(2, 9), COUNTS, st.integers(1, 100)),
    st.builds(Mig, st.none(), st.dictionaries(WORDS, st.integers(1, 9), max_size=2), st.booleans()),
    st.builds(Fractions, st.integers(1, 9)),
)
GPUS = st.builds(
    lambda facts, mode, renamed: Gpu(facts, SharingPlan(facts.uuid, mode, renamed=renamed)),
    FACTS,
    MODES,
    st.booleans(),
)
DRIVERS = st.builds(Driver, VENDORS, WORDS, st.none() | WORDS | st.just("12.4"))


@given(gpus=st.lists(GPUS, max_size=4), drivers=st.lists(DRIVERS, max_size=3), machine=WORDS)
def test_every_label_is_valid_and_of_its_vendor(gpus: list[Gpu], drivers: list[Driver], machine: str) -> None:
    labels = node_labels(a_node(*gpus, drivers=tuple(drivers)), machine)
    assert [name for name in labels if not is_label_key(name)] == []
    assert [value for value in labels.values() if not is_label_value(value)] == []
    vendors = {gpu.facts.vendor for gpu in gpus}
    assert all(name.startswith(sum((PREFIXES[vendor] for vendor in vendors), ())) for name in labels)
