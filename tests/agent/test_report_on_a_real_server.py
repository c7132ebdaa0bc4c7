"""A real API server takes the report of any node, and gives back what was written."""

from collections.abc import Iterator
from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpufleet.agent.reports.node_report import node_report
from gpufleet.agent.reports.service import dated
from gpufleet.agent.state.node_state import Gpu, Held
from gpufleet.devices.facts import Driver, GpuFacts, MigFacts
from gpufleet.devices.health import Verdict
from gpufleet.devices.sharing.plan import Exclusive, Fractions, Mig, Mode, Mps, SharingPlan, TimeSlice
from gpufleet.kube.objects.node_devices import decode_node_devices, encode_node_devices
from gpufleet.localkube import manifests
from gpufleet.localkube.access.api import Api
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.model.gpu_catalogue import Vendor
from gpufleet.model.identifiers import DeviceId
from tests.agent.node_values import GPU, NODE, SHARE, a_gpu, a_grant, a_node, a_pod, a_share, by_uid, held
from tests.localkube.cluster import cluster  # noqa: F401  a fixture

REPORTS = "/apis/gpufleet.io/v1alpha1/nodedevices"
DRY = f"{REPORTS}?dryRun=All"
IDS = ("GPU-5b7c2f9e-9a51-5d3f-8a0c-0c5f6c3f7e10", "GPU-0x1a2b3c4d5e6f7081", "0000:03:00.0-0x56c0")
INSTANCES = (
    MigFacts("MIG-a", "1g.10gb", 0, 7, 0, 9_856),
    MigFacts("MIG-b", "1g.10gb+me", 3, 8, 0, 9_856),
    MigFacts("MIG-c", "1c.3g.40gb", 4, 9, 0),
    MigFacts("part-1", "cpx_nps4", 1, 0, 0),
    MigFacts("MIG-d", "2g.20gb", None, 1, 0),
)
MODES: st.SearchStrategy[Mode] = st.sampled_from(
    [
        Exclusive(),
        TimeSlice(7),
        Mps(48, 1_600, 2),
        Mig(None),
        Mig(None, {"1g.10gb": 3}),
        Mig(None, {"1g.10gb": 3}, as_gpus=True),
        Fractions(100),
    ]
)
MEMORY = st.one_of(st.none(), st.sampled_from([0, 1, 81_559, 2**31 - 1, 2**40]))
WORDS = st.text(max_size=1200)
NOW = datetime(2026, 5, 4, 12, 30, 15, 250_000, tzinfo=UTC)


@st.composite
def gpus(draw: st.DrawFn, uuid: str) -> Gpu:
    """Whatever a driver may tell."""
    facts = GpuFacts(
        DeviceId(uuid),
        draw(st.sampled_from(Vendor)),
        draw(st.integers(0, 7)),
        draw(st.one_of(st.just("NVIDIA H100 80GB HBM3"), WORDS)),
        memory_mib=draw(MEMORY),
        reserved_mib=draw(MEMORY),
        numa_node=draw(st.one_of(st.none(), st.integers(0, 7))),
        mig=tuple(draw(st.lists(st.sampled_from(INSTANCES), unique=True))),
    )
    plan = SharingPlan(facts.uuid, draw(MODES), draw(st.booleans()))
    return Gpu(facts, plan, draw(st.sampled_from(Verdict)), draw(WORDS))


def units() -> st.SearchStrategy[str]:
    names = (*IDS, *(one.uuid for one in INSTANCES))
    return st.builds(
        lambda name, more: name + more, st.sampled_from(names), st.sampled_from(["", "::0", "::6"])
    )


def holders() -> st.SearchStrategy[Held]:
    """Somebody who holds something."""
    whole = st.builds(
        lambda pod, some: held(pod, GPU, *some), st.sampled_from("abc"), st.lists(units(), max_size=3)
    )
    return st.one_of(whole, st.builds(lambda pod: held(pod, SHARE, "share-0"), st.sampled_from("abc")))


@pytest.fixture(scope="module")
def api(cluster: LocalCluster) -> Iterator[Api]:  # noqa: F811
    """The server, with our definitions."""
    with cluster.api() as opened:
        manifests.install(opened)
        yield opened


@settings(max_examples=60)
@given(st.data())
def test_a_report_is_taken_and_comes_back_as_it_was(api: Api, data: st.DataObject) -> None:
    found = [data.draw(gpus(uuid)) for uuid in IDS[: data.draw(st.integers(0, len(IDS)))]]
    drivers = tuple(
        Driver(vendor, data.draw(WORDS)) for vendor in data.draw(st.sets(st.sampled_from(Vendor)))
    )
    grant = a_grant(a_share(IDS[0], 250, 20_000))
    pods = by_uid(a_pod("a", grant), a_pod("b"))
    report = node_report(a_node(*found, drivers=drivers), tuple(data.draw(st.lists(holders()))), pods)
    spec = dated(report, None, NOW)
    status, body = api.request("POST", DRY, msgspec.json.decode(encode_node_devices(NODE, spec)))
    assert status == 201, body
    assert decode_node_devices(body).spec == spec


def test_whoever_lists_reports_sees_why_a_device_is_out_of_service(api: Api) -> None:
    gpus = a_node(
        a_gpu("GPU-0"), a_gpu("GPU-1", health=Verdict.UNHEALTHY, reason="Xid 79: it fell off the bus")
    )
    for name, node in (("sick", gpus), ("well", a_node(a_gpu("GPU-0")))):
        spec = dated(node_report(node, (), {}), None, NOW)
        api.call("POST", REPORTS, msgspec.json.decode(encode_node_devices(name, spec)))
    table = "application/json;as=Table;v=v1;g=meta.k8s.io"
    found = msgspec.json.decode(api.request("GET", REPORTS, accept=table)[1])
    column = [one["name"] for one in found["columnDefinitions"]].index("Out of service")
    assert [(row["cells"][0], row["cells"][column]) for row in found["rows"]] == [
        ("sick", "xid-79"),
        ("well", None),
    ]
