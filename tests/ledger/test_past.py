"""What a real Prometheus tells of the past: pods, cards, ends and use by hand, and all of it estimates."""

import csv
import io
import json
from pathlib import Path

import pytest

from gpufleet.cli.main import ExitCode, main
from gpufleet.ledger.interval_log import IntervalLog
from gpufleet.ledger.price_book import PricedNode
from gpufleet.ledger.versions import DeviceState, DevicesVersion, Followed, NodeVersion, ObjectKind, Sampled
from gpufleet.model.identifiers import DeviceId, NodeName
from tests.usage.prometheus.server import prometheus
from tests.usage.prometheus.stories import BEGIN_S, KUBE, Story

TIMES = ("--from", "2025-10-09T09:00:00Z", "--until", "2025-10-09T12:00:00Z")
"""From the sixth minute of the story to its 186th."""

PRICES = "unit,amount,currency,gpu_model,valid_from\nGPU-hour,2.00,EUR,A100-80GB,2025-01-01\n"
EXPORTER = {
    "job": "dcgm",
    "instance": "10.0.0.1:9400",
    "Hostname": "node-a",
    "modelName": "NVIDIA A100-SXM4-80GB",
}


class PastStory(Story):
    """Two nodes of two cards each: those of node-a are told by exporters, those of node-b by none."""

    def __init__(self) -> None:
        super().__init__(200)
        for name, number in (("node-a", 1), ("node-b", 2)):
            self.node(name, 64, 512, gpus=2)
            node = {**KUBE, "node": name}
            self.tell(
                "kube_node_info", {**node, "provider_id": f"aws:///eu-central-1a/i-{number}"}, lambda _: 1
            )
            self.tell("kube_node_created", node, lambda _: BEGIN_S - 86_400)
        product = {"label_nvidia_com_gpu_product": "NVIDIA-A100-SXM4-80GB"}
        self.tell("kube_node_labels", {**KUBE, "node": "node-b", **product}, lambda _: 1)
        self.pod("train", "node-a", 10, 110, gpus=2, ended=70)
        self.pod("notebook", "node-b", 30, 90, gpus=1)
        self.pod("stays", "node-b", 100, 200, gpus=1)
        self.pod("share", "node-a", 120, 170, resource="gpufleet_io_gpu_share")
        for number in range(2):
            card = {"UUID": f"GPU-a{number}", "gpu": str(number), **EXPORTER}
            holder = {**card, "exported_namespace": "ns", "exported_pod": "train"}
            for metric, value in (("DCGM_FI_DEV_GPU_UTIL", 60.0), ("DCGM_FI_DEV_FB_USED", 9000.0)):
                self.tell(metric, holder, lambda _, value=value: value, range(10, 70))  # type: ignore[misc]
        agent = {"node": "node-a", "uuid": "GPU-a0", "namespace": "ns", "pod": "share"}
        self.tell("gpufleet_pod_gpu_held_ratio", agent, lambda _: 0.5, range(120, 170))
        self.tell("gpufleet_pod_gpu_used_ratio", agent, lambda _: 0.125, range(120, 170))

    def pod(
        self,
        name: str,
        node: str,
        bound: int,
        gone: int,
        gpus: float = 1,
        ended: int | None = None,
        resource: str = "nvidia_com_gpu",
    ) -> None:
        """A pod that was bound and started at a minute, and told of until another one."""
        of_pod = {**KUBE, "namespace": "ns", "pod": name, "uid": f"uid-{name}"}
        there = range(bound, gone)
        owner = {"created_by_kind": "Job", "created_by_name": "run"}
        self.tell("kube_pod_info", {**of_pod, "node": node, **owner}, lambda _: 1, there)
        at_s = BEGIN_S + bound * 60
        self.tell("kube_pod_status_scheduled_time", of_pod, lambda _: at_s, there)
        started = {**of_pod, "container": "main"}
        self.tell("kube_pod_container_state_started", started, lambda _: at_s, range(bound, ended or gone))
        if ended is not None:
            self.tell("kube_pod_completion_time", of_pod, lambda _: BEGIN_S + ended * 60, range(ended, gone))
        for asked, amount in ((resource, gpus), ("cpu", 8.0)):
            asks = {**of_pod, "container": "main", "resource": asked}
            self.tell("kube_pod_container_resource_requests", asks, lambda _, amount=amount: amount, there)  # type: ignore[misc]
        self.owned("ns", name, "Job", f"{name}-run")
        labels = {"label_team": "vision", "label_gpufleet_io_queue": "research"}
        self.tell("kube_pod_labels", {**of_pod, **labels}, lambda _: 1, there)


def said(capsys: pytest.CaptureFixture[str], *asked: str) -> str:
    assert main(["cost", *asked]) == ExitCode.DONE
    return capsys.readouterr().out


def hours(text: str, *by: str) -> dict[tuple[str, ...], str]:
    rows = csv.DictReader(io.StringIO(text))
    return {tuple(row[name] for name in by): row["gpu_hours"] for row in rows if row["gpu_hours"]}


def test_the_past_of_a_cluster_by_hand(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Four cards for three hours. The notebook was last seen 15 s before its 89th minute ended."""
    prices = tmp_path / "prices.csv"
    prices.write_text(PRICES, encoding="utf-8")
    with prometheus(tmp_path, PastStory()) as url:
        asked = ("--past", "--prometheus", url, "--prices", str(prices), *TIMES)
        by_pod = said(capsys, *asked, "--by", "pod,bucket,evidence", "-o", "csv")
        told = json.loads(said(capsys, *asked, "--by", "team,job,queue", "-o", "json"))
    found = hours(by_pod, "pod", "bucket", "evidence")
    assert found == {
        ("ns/train", "used", "estimated"): "1.200000000",
        ("ns/train", "idle-held", "estimated"): "0.800000000",
        # From 09:24:00 to 10:22:45, and from 10:34 on.
        ("ns/notebook", "unmeasured", "estimated"): "0.979166666",
        ("ns/stays", "unmeasured", "estimated"): "1.433333333",
        # Half of a card from 10:54:00 to 11:42:45, of which an eighth of the card computed.
        ("ns/share", "used", "estimated"): "0.101562500",
        ("ns/share", "idle-held", "estimated"): "0.304687500",
        ("(held by no pod)", "idle-free", "estimated"): "7.181250000",
    }
    # 12 GPU-hours at 2.00 EUR.
    assert told["total"]["cost"] == "24.000000"
    assert {(one["team"], one["job"], one["queue"]) for one in told["groups"] if one["team"]} == {
        ("vision", f"ns/Job/{name}-run", "research") for name in ("train", "notebook", "stays", "share")
    }
    assert "4 pods and 2 nodes with GPUs are estimates from samples" in told["notes"]


def test_a_server_without_nodes_and_a_time_without_an_end_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with prometheus(tmp_path) as url:
        assert main(["cost", "--past", "--prometheus", url, *TIMES]) == ExitCode.BAD_INPUT
        assert "has no series kube_node_info in this time" in capsys.readouterr().err
    for options, words in (
        (("--prometheus", "http://127.0.0.1:1"), "is of a time with an end"),
        (TIMES, "there is no past without a server"),
    ):
        assert main(["cost", "--past", *options]) == ExitCode.BAD_INPUT
        assert words in capsys.readouterr().err


NOON_US = 1_800_000_000_000_000
HOUR_US = 3_600_000_000


def test_what_was_seen_counts_before_samples() -> None:
    """The same node from samples and from a ledger is one node, and only the time of samples is estimated."""
    log = IntervalLog()
    cards = (DeviceState(DeviceId("GPU-0"), "A100-80GB"),)
    for uid, at_us in (("sampled/n", NOON_US), ("its-own-uid", NOON_US + 2 * HOUR_US)):
        name = NodeName("n")
        log.take(NodeVersion(uid, 0, at_us, name, NOON_US - HOUR_US, priced_as=PricedNode()))
        log.take(DevicesVersion(f"d-{uid}", 0, at_us, name, cards, created_us=at_us))
    log.take(Sampled(NOON_US, NOON_US + 3 * HOUR_US))
    log.take(Followed(ObjectKind.POD, NOON_US + 2 * HOUR_US, NOON_US + 4 * HOUR_US))
    (node,) = log.intervals().nodes
    assert node.node_uid == "its-own-uid"
    assert [(one.from_us, one.until_us) for one in node.sampled] == [(NOON_US, NOON_US + 2 * HOUR_US)]
    assert [(one.from_us, one.until_us) for one in node.unseen] == [
        (NOON_US - HOUR_US, NOON_US),
        (NOON_US + 4 * HOUR_US, None),
    ]
