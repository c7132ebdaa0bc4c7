"""The page: made from what is known, sent without asking anybody, true about its age."""

import asyncio
import gzip
import zlib

import pytest

from gpufleet.agent.exporter.gpu_snapshot import GpuSnapshot
from gpufleet.agent.exporter.options import ExporterOptions
from gpufleet.agent.state.node_state import GpuReading, Held
from gpufleet.devices.sharing.plan import Mig
from tests.agent.exporter.builders import NOW_S, Node, Page, changed, happens, holds, memory, node_of, sample

H100 = "model: H100-80GB"
AGE = "gpufleet_gpu_sample_age_seconds"
TEMPERATURE = "DCGM_FI_DEV_GPU_TEMP"


def test_a_node_without_gpus_has_a_page() -> None:
    page = Node(node_of()).scrape()
    assert page.value("gpufleet_agent_problems") == 0
    assert all(name.startswith("gpufleet_agent_") for name in page.families)


def test_what_no_card_tells_is_on_no_line() -> None:
    node = Node(node_of(H100))
    node.reads(0, sample(gpu_celsius=50))
    names = [name for name in node.scrape().families if name.startswith("DCGM")]
    assert names == [TEMPERATURE, "DCGM_FI_DEV_XID_ERRORS"]


def test_every_family_is_told_once_with_all_its_cards() -> None:
    node = Node(node_of(H100, H100, "model: A100-40GB"))
    for index in range(3):
        node.reads(index, sample(gpu_celsius=50 + index))
    page = node.scrape()
    headers = [line for line in page.text.splitlines() if line.startswith("# TYPE")]
    assert len(headers) == len(set(headers))
    assert [value for _, value in page.series(TEMPERATURE)] == [50, 51, 52]
    keys = [(name, *sorted(labels.items())) for name, labels, _ in page]
    assert len(keys) == len(set(keys))


def test_the_age_of_readings_is_told_at_every_scrape() -> None:
    node = Node(node_of(H100))
    node.reads(0, sample(NOW_S - 2.5))
    assert node.scrape().value(AGE) == 2.5
    node.now_s += 10
    assert Page(node.raw()).value(AGE) == 12.5


def test_readings_that_are_too_old_leave_the_page_and_their_age_stays() -> None:
    node = Node(node_of(H100, H100), ExporterOptions(stale_after_s=30))
    node.gave(holds("a", node.card()))
    node.reads(0, sample(NOW_S - 2, gpu_celsius=50, gpu_busy_pct=10))
    node.reads(1, sample(NOW_S - 1, gpu_celsius=60))
    assert len(node.scrape().series(TEMPERATURE)) == 2
    node.now_s += 28.5
    page = Page(node.raw())
    assert [value for _, value in page.series(TEMPERATURE)] == [60]
    assert page.absent("gpufleet_pod_gpu_used_ratio")
    assert page.value("gpufleet_pod_gpu_held_ratio") == 1
    assert page.value(AGE, gpu="0") == 30.5
    node.now_s += 100
    assert Page(node.raw()).absent(TEMPERATURE)


def test_the_age_of_a_card_whose_readings_were_taken_back_grows_on() -> None:
    node = Node(node_of(H100))
    node.reads(0, sample(NOW_S - 2, gpu_celsius=50))
    node.exporter.draw()
    node.topics.readings.publish({node.card(): GpuReading()})
    node.now_s += 100
    page = node.scrape()
    assert page.value(AGE) == 102
    assert page.absent(TEMPERATURE)


def test_a_card_that_never_answered_has_health_and_no_readings() -> None:
    page = Node(node_of(H100)).scrape()
    assert page.absent(AGE)
    assert page.absent("gpufleet_gpu_busy_ratio")
    assert page.value("gpufleet_gpu_healthy") == 1


def test_a_packed_page_is_the_same_page() -> None:
    node = Node(node_of(H100))
    node.reads(0, sample(gpu_celsius=50))
    node.scrape()
    for _ in range(2):
        page = node.exporter.page(gzipped=True)
        assert page.gzipped
        packed = b"".join(page.parts)
        assert gzip.decompress(packed).decode() == node.raw()
        assert zlib.decompressobj(16 + zlib.MAX_WBITS).decompress(packed).decode() == node.raw()
        node.now_s += 1
    node.reads(0, sample(gpu_celsius=51))
    node.exporter.draw()
    assert b"} 51" in gzip.decompress(b"".join(node.exporter.page(gzipped=True).parts))


def test_a_hostile_name_forges_no_series() -> None:
    forged = 'x"} 1\ngpufleet_gpu_healthy{gpu="9'
    node = Node(changed(node_of(H100), 0, reason=forged))
    node.gave(Held(forged, forged, forged, "nvidia.com/gpu", (node.card(),), forged))
    node.reads(0, sample(gpu_celsius=50))
    page = node.scrape()
    assert len(page.series("gpufleet_gpu_healthy")) == 1
    assert page.value(TEMPERATURE, pod=forged, namespace=forged, container=forged) == 50


def test_a_card_whose_series_cannot_be_made_harms_no_other(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    node = Node(node_of(H100, H100))
    node.reads(0, sample(gpu_celsius=50))
    node.reads(1, sample(gpu_celsius=60))
    dcgm = node.exporter._pictures._dcgm
    lines = dcgm.lines

    def fails_for_the_first(card: GpuSnapshot) -> dict[str, str]:
        if card.gpu.facts.index == 0:
            raise KeyError("a fault of ours")
        return lines(card)

    monkeypatch.setattr(dcgm, "lines", fails_for_the_first)
    page = node.scrape()
    assert [value for _, value in page.series(TEMPERATURE)] == [60]
    assert page.value("gpufleet_agent_untold_gpus") == 1
    assert [record.gpu for record in caplog.records if hasattr(record, "gpu")] == [node.card()]
    monkeypatch.undo()
    assert node.scrape().value("gpufleet_agent_untold_gpus") == 0


def test_only_cards_that_changed_are_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(node_of(H100, H100))
    node.reads(0, sample(gpu_celsius=50))
    node.reads(1, sample(gpu_celsius=60))
    node.exporter.draw()
    made: list[int] = []
    dcgm = node.exporter._pictures._dcgm
    lines = dcgm.lines

    def noted(card: GpuSnapshot) -> dict[str, str]:
        made.append(card.gpu.facts.index)
        return lines(card)

    monkeypatch.setattr(dcgm, "lines", noted)
    node.reads(1, sample(gpu_celsius=61))
    assert [value for _, value in node.scrape().series(TEMPERATURE)] == [50, 61]
    assert made == [1]


def test_a_card_that_is_gone_leaves_the_page_with_its_accounts() -> None:
    node = Node(node_of(H100, H100))
    node.reads(0, sample(energy_mj=0))
    node.reads(1, sample(energy_mj=0))
    node.scrape()
    gpus = node.topics.gpus.value
    node.topics.gpus.publish(changed(node_of(H100), 0, facts=gpus.gpus[0].facts))
    page = node.scrape()
    assert len(page.series("gpufleet_gpu_info")) == 1
    assert list(node.exporter._pictures._energy._gpus) == [node.card(0)]


def test_changes_are_followed_until_cancelled() -> None:
    async def story() -> None:
        node = Node(node_of(H100))
        running = asyncio.create_task(node.exporter.run())
        node.reads(0, sample(gpu_celsius=50))
        await happens(lambda: node.exporter.drawn)
        node.reads(0, sample(gpu_celsius=51))
        await happens(lambda: Page(node.raw()).value(TEMPERATURE) == 51)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(story())


def test_a_full_node_in_the_largest_size_that_is_promised() -> None:
    """8 cards of 7 instances with 10 replicas each, all held: every series is there once and well formed."""
    seven = ", ".join(f"{{profile: 1g.10gb, start: {start}}}" for start in range(7))
    mode = Mig(None, {"1g.10gb": 10})
    gpus = node_of(f"model: H100-80GB, count: 8, mig: [{seven}]", modes=dict.fromkeys(range(8), mode))
    node = Node(gpus, ExporterOptions(virtual_gpus=True))
    held = []
    for gpu in gpus.gpus:
        instances = {one.uuid: sample(memory=memory(100)) for one in gpu.facts.mig}
        node.reads(gpu.facts.index, sample(gpu_celsius=40, energy_mj=1), instances)
        held += [
            holds(f"p-{gpu.facts.index}-{at}-{replica}", f"{one.uuid}::{replica}")
            for at, one in enumerate(gpu.facts.mig)
            for replica in range(10)
        ]
    node.gave(*held)
    page = node.scrape()
    assert len(page.series("gpufleet_pod_gpu_held_ratio")) == 560
    assert len(page.series("DCGM_FI_DEV_FB_USED")) == 560
    assert len(page.series(TEMPERATURE)) == 8
    total = sum(value for _, value in page.series("gpufleet_pod_gpu_held_ratio"))
    assert total == pytest.approx(8)
