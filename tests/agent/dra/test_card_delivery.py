"""A card goes one way at a time: to claims where the setting says so, once nothing holds it the other way."""

import asyncio
from pathlib import Path

import pytest

from gpufleet.agent.dra.card_delivery import CardChoice, CardDelivery, read_choice
from gpufleet.agent.dra.device_pools import no_root
from gpufleet.agent.dra.pcie_roots import root_above
from gpufleet.agent.dra.prepared_claims import Prepared, PreparedClaim, PreparedDevice
from gpufleet.agent.state.node_state import Holders, NodePods
from gpufleet.agent.state.topic import Topic
from gpufleet.kube.clock import MachineClock
from gpufleet.model.identifiers import DeviceId
from gpufleet.model.model_errors import InputError
from tests.agent.node_values import GPU, a_gpu, a_node, held

CARDS = [a_gpu(f"GPU-{number}", minor=number) for number in range(3)]


@pytest.mark.parametrize(
    ("text", "indexes"),
    [("none", []), ("all", [0, 1, 2]), ("0, 2", [0, 2]), ("GPU-1", [1]), ("0,GPU-2", [0, 2])],
)
def test_the_setting_names_cards(text: str, indexes: list[int]) -> None:
    choice = read_choice(text)
    assert [number for number, card in enumerate(CARDS) if choice.has(card.facts)] == indexes
    assert choice.is_empty == (not indexes)


@pytest.mark.parametrize("text", ["", "0,,1", "none,1", "all,none"])
def test_what_names_no_cards_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="--dra-cards"):
        read_choice(text)


def test_a_word_without_a_card_on_the_node_is_told(caplog: pytest.LogCaptureFixture) -> None:
    ways = Ways(read_choice("0,7,GPU-1,GPU-mistyped"))
    assert ways.offered()[1] == ["gpu-0", "gpu-1"]
    ways.offered()
    assert [getattr(one, "cards", ()) for one in caplog.records] == [("7", "GPU-mistyped")]


class Ways:
    """What is offered in both ways for these claims and holders."""

    def __init__(self, choice: CardChoice) -> None:
        self.prepared: Prepared = Topic({})
        self.holders: Topic[Holders] = Topic(())
        self.pods: Topic[NodePods] = Topic({})
        self.whole = True
        self.delivery = CardDelivery(choice, Topic(a_node(*CARDS)), self.prepared, MachineClock(), no_root)

    def offered(self) -> tuple[list[str], list[str] | None]:
        """The cards of the device plugin, and the devices of claims; None while these are not known."""

        async def look() -> None:
            run = self.delivery.run(self.holders, self.pods, lambda: self.whole)
            running = asyncio.create_task(run)
            for _ in range(3):
                await asyncio.sleep(0)
            running.cancel()

        asyncio.run(look())
        pools = self.delivery.pools.value
        plugin = [gpu.uuid for gpu in self.delivery.by_plugin.value.gpus]
        return [*plugin], None if pools is None else [one.name for one in pools[0].devices]

    def hold(self, number: int) -> None:
        """A container has this card by the device plugin."""
        self.holders.publish((held("plain", GPU, f"GPU-{number}"),))

    def claim(self, number: int) -> None:
        """A claim with this card is prepared."""
        device = PreparedDevice("gpu", "pool", f"gpu-{number}", DeviceId(f"GPU-{number}"))
        made = PreparedClaim("uid", "team", "claim", "gpu.nvidia.com", "boot-1", (device,))
        self.prepared.publish({("uid", "gpu.nvidia.com"): made})


def test_each_card_goes_one_way() -> None:
    assert Ways(read_choice("0,2")).offered() == (["GPU-1"], ["gpu-0", "gpu-2"])


def test_a_card_that_a_container_has_stays_until_it_is_free() -> None:
    ways = Ways(read_choice("0,2"))
    ways.hold(0)
    assert ways.offered() == (["GPU-0", "GPU-1"], ["gpu-2"])
    ways.holders.publish(())
    assert ways.offered() == (["GPU-1"], ["gpu-0", "gpu-2"])


def test_a_card_of_a_prepared_claim_is_not_given_to_the_device_plugin() -> None:
    ways = Ways(read_choice("0"))
    ways.claim(2)
    assert ways.offered() == (["GPU-1"], ["gpu-0"])
    ways.prepared.publish({})
    assert ways.offered() == (["GPU-1", "GPU-2"], ["gpu-0"])


def test_before_holders_are_known_a_card_of_claims_goes_no_way() -> None:
    ways = Ways(read_choice("0"))
    ways.whole = False
    assert ways.offered() == (["GPU-1", "GPU-2"], None)


@pytest.mark.parametrize("whole", [False, True])
def test_which_way_each_card_goes_is_known_once_holders_are(whole: bool) -> None:
    ways = Ways(read_choice("0"))
    ways.whole = whole

    async def look() -> bool:
        running = asyncio.ensure_future(ways.delivery.run(ways.holders, ways.pods, lambda: ways.whole))
        waiting = asyncio.ensure_future(ways.delivery.wait_divided())
        for _ in range(5):
            await asyncio.sleep(0)
        running.cancel()
        return waiting.done()

    assert asyncio.run(look()) == whole


def test_the_root_complex_is_the_first_of_the_path(tmp_path: Path) -> None:
    card = tmp_path / "sys/devices/pci0000:80/0000:80:01.0/0000:81:00.0"
    card.mkdir(parents=True)
    devices = tmp_path / "sys/bus/pci/devices"
    devices.mkdir(parents=True)
    (devices / "0000:81:00.0").symlink_to(card)
    assert root_above("00000000:81:00.0", devices) == "pci0000:80"
    assert root_above("0000:99:00.0", devices) == ""
    assert root_above(None, devices) == ""
