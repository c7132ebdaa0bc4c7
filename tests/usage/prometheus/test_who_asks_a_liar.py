"""Each part that asks Prometheus, over real HTTP: a lie is never shown as true, and what is wrong is said."""

import asyncio
import datetime as dt
import time
from collections.abc import Callable, Iterator

import pytest

from gpufleet.cli.main import main
from gpufleet.kube.objects.metadata import Metadata
from gpufleet.kube.objects.node_devices import NodeDevices, NodeDevicesSpec, ReportedDevice
from gpufleet.metrics.served_values import FoundValues, NoValueError
from gpufleet.metrics.sources.prometheus_values import PrometheusValues
from gpufleet.metrics.wire.questions import AboutNothing
from gpufleet.overview.readings import prometheus_use
from gpufleet.overview.readings.prometheus_use import PrometheusUse
from gpufleet.usage.prometheus.access import read_access
from gpufleet.usage.prometheus.client import Prometheus
from gpufleet.web.documents import Card, NodeRow, NodeUseRow
from gpufleet.web.firing_alerts import FiringAlerts
from tests.metrics.values_at_hand import Objects, Values, metric, served
from tests.usage.prometheus.lying_server import (
    AGE_S,
    BUSY_RATIO,
    CARDS,
    ENGINE,
    NODE,
    UNREACHED,
    WAITING,
    Lie,
    LyingServer,
    lying,
)
from tests.web.test_fleet_use import World

ANSWER_S = 1.0
"""A server that hangs is left after this time; one that does not answers within some thousandths of it."""

BYTES_MAX = 2**22
SENTENCES = {
    Lie.HANGS: "no whole answer within 1 s",
    Lie.GARBAGE: "does not answer as Prometheus does",
    Lie.CUT: "breaks off or is damaged: 9 bytes are missing",
    Lie.ENDLESS: "answers with more than 4 MiB",
    Lie.WRONG_TYPES: "does not answer as Prometheus does",
    Lie.CACHED: "answers about another time than it was asked for (-3600 s)",
    Lie.TWO_CLUSTERS: "has series of 2 clusters (east, west); name one of them (--prometheus-cluster)",
    Lie.IN_PART: f"answers with a warning, so something may be missing: '{UNREACHED}'",
}
"""What is said of a server that cannot be believed at all, by all who ask it."""

ROWS = {NODE: NodeRow(NODE, "ready", gpus=2, cards=tuple(Card(uuid) for uuid in CARDS))}

ALL = pytest.mark.parametrize("lie", SENTENCES, ids=lambda lie: lie.name.lower())


def client(server: LyingServer, cluster: str = "") -> Prometheus:
    return Prometheus(read_access(server.url, cluster=cluster), total_s=ANSWER_S, bytes_max=BYTES_MAX)


def looked(server: LyingServer, cluster: str = "") -> PrometheusUse:
    """What ``gpufleet top`` knows of nodes and pods."""
    found = PrometheusUse(read_access(server.url), client(server, cluster))
    asyncio.run(found.read(with_past=True))
    devices = tuple(ReportedDevice(uuid) for uuid in CARDS)
    report = NodeDevices(metadata=Metadata(name=NODE), spec=NodeDevicesSpec(devices=devices))
    found.leave_foreign({("", NODE): report})
    return found


def mapped(server: LyingServer, cluster: str = "") -> tuple[tuple[NodeUseRow, ...], str]:
    """What the page's map knows of all cards."""
    world = World(NODE, prometheus=client(server, cluster))
    world.rows = ROWS
    told = world.look()
    return told.nodes, told.unknown


def alerts(server: LyingServer, cluster: str = "") -> tuple[list[tuple[str, str]], str]:
    """The alerts that the page shows, and since when."""
    rows, unknown = asyncio.run(FiringAlerts(client(server, cluster)).now())
    return [(row.name, row.since) for row in rows], unknown


def engines(server: LyingServer, cluster: str = "") -> FoundValues:
    """What autoscalers are told from."""
    return asyncio.run(PrometheusValues(client(server, cluster)).all_of(ENGINE, "default"))


def used(server: LyingServer, *options: str) -> int:
    """``gpufleet advise sharing`` on it."""
    until = dt.datetime.fromtimestamp(time.time() // 60 * 60, dt.UTC).isoformat()
    line = [
        "advise",
        "sharing",
        f"--prometheus={server.url}",
        "--window=10m",
        "--step=60s",
        f"--until={until}",
    ]
    return main([*line, *options])


ASKERS: dict[str, Callable[[LyingServer], str]] = {
    "top": lambda server: looked(server).problem,
    "map": lambda server: mapped(server)[1],
    "alerts": lambda server: alerts(server)[1],
    "engines": lambda server: engines(server).problem,
}


@pytest.fixture
def server(lie: Lie) -> Iterator[LyingServer]:
    with lying(lie) as found:
        yield found


@ALL
@pytest.mark.parametrize("asker", ASKERS)
def test_what_cannot_be_believed_is_said_with_the_address(asker: str, lie: Lie, server: LyingServer) -> None:
    said = ASKERS[asker](server)
    assert SENTENCES[lie] in said
    assert server.url in said


@ALL
def test_nothing_of_it_is_shown(server: LyingServer) -> None:
    found = looked(server)
    assert (found.use, found.before, found.quiet_since_s) == ({}, {}, {})
    assert mapped(server)[0] == ()
    assert alerts(server)[0] == []
    assert engines(server).readings == ()


def test_the_truth_is_shown_by_all() -> None:
    with lying(Lie.NONE) as server:
        found = looked(server)
        cards = found.use[NODE].cards
        assert {uuid: (card.busy_ratio, card.sample_age_s) for uuid, card in cards.items()} == dict.fromkeys(
            CARDS, (BUSY_RATIO, AGE_S)
        )
        assert mapped(server)[1] == ""
        assert [row.busy for row in mapped(server)[0]] == [(BUSY_RATIO, BUSY_RATIO)]
        ((name, since),) = alerts(server)[0]
        assert (name, bool(since)) == ("GPUHot", True)
        assert [one.amount for one in engines(server).readings] == [WAITING]
        assert used(server) == 0


@pytest.mark.parametrize("lie", [Lie.HIGH, Lie.NEGATIVE], ids=["high", "negative"])
def test_values_that_no_gpu_can_have_are_left_out_and_that_is_said(lie: Lie, server: LyingServer) -> None:
    found = looked(server)
    assert "tells values that no GPU can have, such as gpufleet_gpu_busy_ratio" in found.why_unknown(NODE)
    assert all(card.busy_ratio is None for use in found.use.values() for card in use.cards.values())
    rows, unknown = mapped(server)
    assert rows == ()
    assert "tells values that no GPU can have, such as a ratio of" in unknown
    assert lie is server.lie


@pytest.mark.parametrize("lie", [Lie.HIGH, Lie.NEGATIVE], ids=["high", "negative"])
def test_an_autoscaler_is_told_no_amount_that_cannot_be(server: LyingServer) -> None:
    values = Values(external={ENGINE: engines(server)})
    asked = served(Objects({}), values, metric(ENGINE, external=True), now_s=time.time())
    with pytest.raises(NoValueError, match=r"its value cannot be true: -?7"):
        asyncio.run(asked.about_nothing(AboutNothing(ENGINE, "default")))


@pytest.mark.parametrize("lie", [Lie.HIGH], ids=["high"])
def test_an_alert_that_began_when_nothing_can_is_shown_without_its_time(server: LyingServer) -> None:
    assert alerts(server) == ([("GPUHot", "")], "")


@pytest.mark.parametrize("lie", [Lie.NOT_A_NUMBER], ids=["nan"])
def test_what_is_no_number_is_unknown(server: LyingServer) -> None:
    assert looked(server).problem == f"{server.url} has no metrics of gpufleet's agents"
    rows, unknown = mapped(server)
    assert (rows, unknown) == ((), "use of 1 node is not known: Prometheus has no new metrics of them")
    assert engines(server) == FoundValues()


@pytest.mark.parametrize("lie", [Lie.OTHER_CLUSTER], ids=["other"])
def test_cards_of_another_clusters_node_are_not_shown_as_this_ones(server: LyingServer) -> None:
    found = looked(server)
    assert found.use == {}
    assert found.why_unknown(NODE) == (
        f"{server.url} tells of other GPUs than those of {NODE}: is it another cluster's?"
    )
    assert mapped(server)[0] == ()


@pytest.mark.parametrize("lie", [Lie.TWO_CLUSTERS], ids=["two"])
def test_of_two_clusters_the_one_that_is_named_is_shown(server: LyingServer) -> None:
    assert set(looked(server, "east").use) == {NODE}
    assert [row.busy for row in mapped(server, "east")[0]] == [(BUSY_RATIO, BUSY_RATIO)]
    assert [name for name, _ in alerts(server, "east")[0]] == ["GPUHot"]
    assert [one.amount for one in engines(server, "east").readings] == [WAITING]
    assert used(server, "--prometheus-cluster=east") == 0
    assert looked(server, "north").problem == f"{server.url} has no metrics of gpufleet's agents"


def test_a_server_that_is_late_again_and_again_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prometheus_use, "ALL_S", 0.2)
    with lying(Lie.LATE) as server:
        assert "has not answered all questions within 0 s" in looked(server).problem
        # Of more than ten questions those were asked for which there was time.
        assert server.asked <= 4


@pytest.mark.parametrize(
    "lie",
    [one for one in SENTENCES if one not in {Lie.HANGS, Lie.ENDLESS, Lie.IN_PART}],
    ids=lambda lie: lie.name.lower(),
)
def test_a_command_ends_with_the_sentence(
    lie: Lie, server: LyingServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert used(server) == 3
    said = capsys.readouterr().err
    assert SENTENCES[lie] in said
    assert server.url in said


@pytest.mark.parametrize("lie", [Lie.IN_PART], ids=["in_part"])
def test_advice_from_a_part_of_the_past_says_so(
    server: LyingServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a window of days something is often missing, so the advice stands with a note."""
    assert used(server) == 0
    assert f"{server.url} warns: {UNREACHED}" in capsys.readouterr().err


@pytest.mark.parametrize("lie", [Lie.HIGH, Lie.NEGATIVE, Lie.NOT_A_NUMBER], ids=lambda lie: lie.name.lower())
def test_advice_from_values_that_cannot_be_is_refused(
    server: LyingServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert used(server) == 2
    assert server.url in capsys.readouterr().err


def test_the_map_is_measured_again_soon_after_a_server_that_hung() -> None:
    with lying(Lie.HANGS) as server:
        slow = Prometheus(read_access(server.url), total_s=1.5)
        world = World(NODE, prometheus=slow)
        world.rows = ROWS
        assert "no whole answer" in world.look().unknown
        server.lie = Lie.NONE
        world.clock.advance(60)
        assert world.look().unknown == ""
