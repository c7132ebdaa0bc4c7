"""NVIDIA's cards under DCGM's names, labelled in dcgm-exporter's way and order."""

from pathlib import Path

import msgspec
import pytest

from gpufleet.agent.exporter.counters_file import read_counters
from gpufleet.agent.exporter.exporter_errors import ExporterOptionError
from gpufleet.agent.exporter.options import ExporterOptions, pod_label_names
from gpufleet.agent.state.node_state import NodeGpus
from gpufleet.devices.health import Verdict
from gpufleet.devices.sample import Activity
from gpufleet.devices.sharing.plan import Fractions, TimeSlice
from tests.agent.exporter.builders import (
    CUT_H100,
    Node,
    changed,
    granted_share,
    holds,
    memory,
    node_of,
    pod,
    process,
    sample,
)

H100 = "model: H100-80GB"
TEMPERATURE = "DCGM_FI_DEV_GPU_TEMP"
USED = "DCGM_FI_DEV_FB_USED"


def lines_of(node: Node, name: str) -> list[str]:
    node.scrape()
    return [line for line in node.raw().splitlines() if line.startswith(name + "{")]


def test_labels_stand_as_dcgm_exporter_writes_them() -> None:
    node = Node(node_of(H100))
    node.has(pod("train"))
    node.gave(holds("train", node.card()))
    node.reads(0, sample(gpu_celsius=61))
    facts = node.topics.gpus.value.gpus[0].facts
    (line,) = lines_of(node, TEMPERATURE)
    assert line == (
        f'{TEMPERATURE}{{gpu="0",UUID="{facts.uuid}",pci_bus_id="{facts.pci_bus_id}",device="nvidia0",'
        f'modelName="{facts.product}",Hostname="n1",DCGM_FI_DRIVER_VERSION="580.95.05",'
        f'container="main",namespace="team-a",pod="train"}} 61'
    )


def test_a_card_without_a_holder_has_no_pod() -> None:
    node = Node(node_of(H100))
    node.reads(0, sample(gpu_celsius=61))
    ((labels, value),) = node.scrape().series(TEMPERATURE)
    assert "pod" not in labels
    assert value == 61


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (ExporterOptions(hostname_label="hostname"), {"hostname": "n1"}),
        (ExporterOptions(hostname_label=""), {}),
        (ExporterOptions(), {"Hostname": "n1"}),
    ],
)
def test_both_namings_of_the_host(options: ExporterOptions, expected: dict[str, str]) -> None:
    node = Node(node_of(H100), options)
    node.reads(0, sample(gpu_celsius=61))
    ((labels, _),) = node.scrape().series(TEMPERATURE)
    assert {name: value for name, value in labels.items() if name.lower() == "hostname"} == expected


def test_the_older_names_of_pods() -> None:
    node = Node(node_of(H100), ExporterOptions(old_names=True, pod_uid=True))
    node.has(pod("train"))
    node.gave(holds("train", node.card()))
    node.reads(0, sample(gpu_celsius=61))
    ((labels, _),) = node.scrape().series(TEMPERATURE)
    assert labels["pod_name"] == "train"
    assert labels["pod_namespace"] == "team-a"
    assert labels["container_name"] == "main"
    assert labels["pod_uid"] == "uid-train"
    assert labels["uuid"] == node.card()
    assert "UUID" not in labels


def test_labels_of_pods_that_are_allowed_come_along() -> None:
    node = Node(node_of(H100), ExporterOptions(pod_labels=("app.kubernetes.io/name", "team")))
    node.has(pod("train", labels={"app.kubernetes.io/name": 'a"b', "secret": "x"}))
    node.gave(holds("train", node.card()))
    node.reads(0, sample(gpu_celsius=61))
    ((labels, _),) = node.scrape().series(TEMPERATURE)
    assert labels["app_kubernetes_io_name"] == 'a"b'
    assert not {"secret", "team"} & labels.keys()


@pytest.mark.parametrize(
    "keys",
    [("pod",), ("namespace",), ("a.b", "a-b"), ("not a key",), tuple(f"k{number}" for number in range(99))],
)
def test_labels_of_pods_that_would_hide_others_are_refused(keys: tuple[str, ...]) -> None:
    with pytest.raises(ExporterOptionError, match="pod labels"):
        pod_label_names(keys)


def test_what_instances_tell_is_told_of_them_and_all_else_of_the_card() -> None:
    node = Node(node_of(CUT_H100))
    small, large = node.topics.gpus.value.gpus[0].facts.mig
    node.gave(holds("a", small.uuid))
    instances = {
        small.uuid: sample(memory=memory(700), activity=Activity(graphics_engine_ratio=0.5)),
        large.uuid: sample(memory=memory(9000)),
    }
    node.reads(0, sample(memory=memory(9700), gpu_celsius=50, power_w=300.0), instances)
    page = node.scrape()
    assert page.value(USED, GPU_I_PROFILE="1g.10gb", GPU_I_ID=str(small.gpu_instance), pod="a") == 700
    assert page.value(USED, GPU_I_PROFILE="3g.40gb") == 9000
    assert len(page.series(USED)) == 2
    assert page.value("DCGM_FI_PROF_GR_ENGINE_ACTIVE", GPU_I_PROFILE="1g.10gb") == 0.5
    ((labels, power),) = page.series("DCGM_FI_DEV_POWER_USAGE")
    assert power == 300.0
    assert not {"GPU_I_ID", "pod"} & labels.keys()


def shared() -> tuple[Node, NodeGpus]:
    gpus = node_of(H100, modes={0: TimeSlice(4)})
    node = Node(gpus, ExporterOptions(virtual_gpus=True), {1: "uid-a", 2: "uid-b"}.get)
    node.has(pod("a"), pod("b"))
    node.gave(holds("a", f"{node.card()}::0"), holds("b", f"{node.card()}::3"))
    return node, gpus


def test_a_shared_card_has_a_series_for_each_holder_where_asked_for() -> None:
    node, _ = shared()
    processes = (process(1, 1000, 30), process(2, 200, 10))
    node.reads(0, sample(gpu_celsius=50, gpu_busy_pct=40, memory=memory(1300)), processes=processes)
    page = node.scrape()
    assert page.value(TEMPERATURE, pod="a", vgpu="0") == 50
    assert page.value(TEMPERATURE, pod="b", vgpu="3") == 50
    assert [page.value(USED, pod=name) for name in ("a", "b")] == [1000, 200]
    assert [page.value("DCGM_FI_DEV_GPU_UTIL", pod=name) for name in ("a", "b")] == [30, 10]


def test_else_a_shared_card_is_nobodys_unless_one_pod_holds_it_alone() -> None:
    gpus = node_of(H100, modes={0: TimeSlice(4)})
    node = Node(gpus)
    node.gave(holds("a", f"{node.card()}::0"), holds("b", f"{node.card()}::3"))
    node.reads(0, sample(gpu_celsius=50))
    ((labels, _),) = node.scrape().series(TEMPERATURE)
    assert "pod" not in labels
    node.gave(holds("a", f"{node.card()}::0"))
    assert node.scrape().value(TEMPERATURE, pod="a") == 50


def test_shares_of_gpufleet_are_labelled_too() -> None:
    node = Node(node_of(H100, modes={0: Fractions(8)}))
    node.has(pod("a", grant=granted_share(node.card(), 250, 1000)))
    node.gave(holds("a", "slot-1", resource="gpufleet.io/gpu-share"))
    node.reads(0, sample(gpu_celsius=50))
    assert node.scrape().value(TEMPERATURE, pod="a") == 50


def test_an_xid_is_told_with_its_meaning() -> None:
    node = Node(changed(node_of(H100), 0, last_xid=79))
    node.reads(0, sample())
    ((labels, value),) = node.scrape().series("DCGM_FI_DEV_XID_ERRORS")
    assert (value, labels["err_code"], labels["err_msg"]) == (79, "79", "the card fell off the bus")


def test_the_xid_of_a_card_that_fell_off_the_bus_stays_without_readings() -> None:
    lost = changed(node_of(H100), 0, last_xid=79, health=Verdict.UNHEALTHY, reason="Xid 79")
    page = Node(lost).scrape()
    assert page.value("DCGM_FI_DEV_XID_ERRORS", err_code="79") == 79
    assert [name for name in page.families if name.startswith("DCGM")] == ["DCGM_FI_DEV_XID_ERRORS"]


def test_jobs_of_a_batch_system(tmp_path: Path) -> None:
    (tmp_path / "0").write_text('4711\nnight"ly\n')
    node = Node(node_of(H100, H100), ExporterOptions(job_folder=tmp_path))
    node.reads(0, sample(gpu_celsius=50))
    node.reads(1, sample(gpu_celsius=51))
    page = node.scrape()
    assert [page.value(TEMPERATURE, gpu="0", hpc_job=job) for job in ("4711", 'night"ly')] == [50, 50]
    ((labels, _),) = page.series(TEMPERATURE, gpu="1")
    assert "hpc_job" not in labels


def test_jobs_on_instances(tmp_path: Path) -> None:
    node = Node(node_of(CUT_H100), ExporterOptions(job_folder=tmp_path))
    small, large = node.topics.gpus.value.gpus[0].facts.mig
    (tmp_path / f"0.{large.gpu_instance}").write_text("99\n")
    node.reads(0, sample(), {one.uuid: sample(memory=memory(1)) for one in (small, large)})
    page = node.scrape()
    assert page.value(USED, GPU_I_PROFILE="3g.40gb", hpc_job="99") == 1
    assert "hpc_job" not in page.series(USED, GPU_I_PROFILE="1g.10gb")[0][0]


def test_only_what_the_file_asks_for_is_served_with_its_words() -> None:
    counters = read_counters(b"DCGM_FI_DEV_SERIAL,label,x\nDCGM_FI_DEV_GPU_TEMP,counter,How hot.\n")
    node = Node(node_of(H100), ExporterOptions(counters=counters))
    node.reads(0, sample(gpu_celsius=50, power_w=1.0))
    page = node.scrape()
    names = [name for name in page.families if name.startswith("DCGM")]
    assert names == [TEMPERATURE]
    assert page.families[TEMPERATURE].documentation == "How hot."
    ((labels, _),) = page.series(TEMPERATURE)
    assert labels["DCGM_FI_DEV_SERIAL"] == node.topics.gpus.value.gpus[0].facts.serial
    assert "DCGM_FI_DRIVER_VERSION" not in labels


def test_blanks_of_names_can_be_replaced() -> None:
    node = Node(node_of(H100), ExporterOptions(replace_blanks=True))
    gpu = node.topics.gpus.value.gpus[0]
    facts = msgspec.structs.replace(gpu.facts, product="NVIDIA  H100 80GB HBM3")
    node.topics.gpus.publish(changed(node.topics.gpus.value, 0, facts=facts))
    node.reads(0, sample(gpu_celsius=50))
    assert node.scrape().value(TEMPERATURE, modelName="NVIDIA-H100-80GB-HBM3") == 50
