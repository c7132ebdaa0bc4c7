"""The whole way over a real Prometheus: what was recorded, asked for, decoded and judged."""

import datetime as dt
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpufleet.cli.main import main
from gpufleet.localkube.access.certificates import Authority
from gpufleet.model.model_errors import InputError, WorldError
from gpufleet.usage.measured_cards import Card
from gpufleet.usage.prometheus.access import read_access
from gpufleet.usage.prometheus.client import Prometheus
from gpufleet.usage.prometheus.gpu_use import gpu_use
from gpufleet.usage.prometheus.pod_samples import GpuUse
from gpufleet.usage.prometheus.window import Window, window_until
from gpufleet.usage.samples import Sample
from tests.usage.prometheus.server import prometheus
from tests.usage.prometheus.stories import BEGIN_S, EXPORTER, Story, StoryTeller, exported, honoured

HASHED = "embed-5dd5756b68-x7k2v"


def cluster() -> Story:
    """One node: a server of a Deployment, idle but for peaks; a busy trainer; a card that nobody holds."""
    story = Story()
    story.up()
    story.gpu("GPU-0", honoured("web", HASHED), lambda minute: 40 if minute % 10 == 0 else 1)
    story.gpu("GPU-1", honoured("lab", "train-0"), lambda _: 97.5, 70000, gpu="1")
    story.gpu("GPU-2", {}, lambda _: 0, 0, gpu="2")
    story.asks("web", HASHED, 1)
    story.asks("lab", "train-0", 1)
    story.owned("web", HASHED, "ReplicaSet", "embed-5dd5756b68")
    story.replica_set("web", "embed-5dd5756b68", "embed")
    story.owned("lab", "train-0", "StatefulSet", "train")
    return story


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with prometheus(tmp_path_factory.mktemp("prometheus"), cluster()) as url:
        yield url


def asked(url: str, minutes: int = 60, step_s: int = 60) -> GpuUse:
    window = window_until(cluster().end_s, minutes * 60, step_s)
    return gpu_use(Prometheus(read_access(url)), window)


def of_pod(use: GpuUse, pod: str) -> list[Sample]:
    return [one for one in use.samples if one.pod == pod]


def test_each_pod_has_its_own_use(server: str) -> None:
    use = asked(server)
    assert use.notes == ()
    embed, train = of_pod(use, HASHED), of_pod(use, "train-0")
    assert [(one.at_s, one.gpu_milli) for one in embed] == [
        (BEGIN_S + minute * 60, 400 if minute % 10 == 0 else 10) for minute in range(60)
    ]
    assert train[0] == Sample(
        "train", "train-0", BEGIN_S, 975, 70000, 1, "A100-80GB", "node-a", namespace="lab"
    )
    assert {(one.workload, one.namespace, one.memory_mib) for one in embed} == {("embed", "web", 9000)}
    assert len(use.samples) == 120


def test_the_idle_card_is_room_and_the_exporters_own_pod_holds_nothing(server: str) -> None:
    use = asked(server)
    assert use.cards == tuple(Card("node-a", at, "A100-80GB") for at in range(3))
    assert not of_pod(use, EXPORTER["pod"])


def test_no_peak_falls_between_two_points(server: str) -> None:
    # Peaks of one minute stand at minutes 0, 10, 20, ...; steps of seven minutes would miss most of them.
    use = asked(server, minutes=56, step_s=420)
    assert [one.gpu_milli for one in of_pod(use, HASHED)].count(400) >= 5


def test_parts_together_are_the_whole(server: str) -> None:
    client = Prometheus(read_access(server))
    window = Window(BEGIN_S, BEGIN_S + 59 * 60, 60)
    query = 'DCGM_FI_DEV_GPU_UTIL{UUID="GPU-0"}'
    whole = [part.series[0] for part in client.over(query, window, "")]
    parts = [part for one in window.parts(7) for part in client.over(query, one, "")]
    assert len(whole) == 1
    assert len(parts) == 9
    assert [at for part in parts for at in part.series[0].times_s] == list(whole[0].times_s)
    assert [one for part in parts for one in part.series[0].values] == list(whole[0].values)


def test_eleven_thousand_points_are_what_the_server_refuses(server: str) -> None:
    # Why parts are cut at all; the server's own words.
    client = Prometheus(read_access(server))
    window = Window(BEGIN_S, BEGIN_S + 11_001, 1)
    with pytest.raises(WorldError, match=r"query_range answers 400: .*exceeded maximum resolution of 11,000"):
        client._asked("up", window)
    assert max(part.points for part in window.parts()) <= 11_000
    points = [len(one.times_s) for part in client.over("up", window, "") for one in part.series]
    assert sum(points) > 0


def test_advice_from_a_server(server: str, capsys: pytest.CaptureFixture[str]) -> None:
    until = dt.datetime.fromtimestamp(cluster().end_s, dt.UTC).isoformat()
    line = ["advise", "sharing", f"--prometheus={server}", "--window=1h", f"--until={until}", "-o", "json"]
    assert main(line) == 0
    found = json.loads(capsys.readouterr().out)
    assert {one["name"]: (one["mode"], one["gpusToday"]) for one in found["workloads"]} == {
        "lab/train": ("whole", 1),
        "web/embed": ("whole", 1),
    }
    assert found["instants"] == 60


def test_one_namespace_alone(server: str) -> None:
    window = window_until(cluster().end_s, 3600, 60)
    use = gpu_use(Prometheus(read_access(server)), window, ["web"])
    assert {one.namespace for one in use.samples} == {"web"}
    assert [card.is_free for card in use.cards] == [True, False, True]


def test_a_time_without_series_is_told(server: str) -> None:
    window = window_until(BEGIN_S - 86_400, 3600, 60)
    with pytest.raises(InputError, match=r"http://127.*: has no series DCGM_FI_DEV_GPU_UTIL"):
        gpu_use(Prometheus(read_access(server)), window)


def test_a_query_it_cannot_parse_comes_back_with_its_words(server: str) -> None:
    with pytest.raises(WorldError, match=r"answers 400: .*bad_data.*parse error"):
        list(Prometheus(read_access(server)).over("max_over_time(", Window(0, 60, 60), ""))


def test_a_server_behind_tls_is_known_by_its_authority(tmp_path: Path) -> None:
    authority = Authority.new("test")
    identity = authority.server(["localhost"], ["127.0.0.1"])
    for name, data in (
        ("cert", identity.certificate),
        ("key", identity.key),
        ("ca", authority.identity.certificate),
    ):
        (tmp_path / name).write_bytes(data)
    web = tmp_path / "web.yml"
    web.write_text(f"tls_server_config: {{cert_file: {tmp_path / 'cert'}, key_file: {tmp_path / 'key'}}}\n")
    (tmp_path / "server").mkdir()
    with prometheus(tmp_path / "server", cluster(), "", f"--web.config.file={web}") as url:
        secure = url.replace("http:", "https:")
        window = window_until(cluster().end_s, 3600, 60)
        use = gpu_use(Prometheus(read_access(secure, authority_file=tmp_path / "ca")), window)
        assert len(use.samples) == 120
        with pytest.raises(WorldError, match="name the certificate authority"):
            gpu_use(Prometheus(read_access(secure)), window)


def test_the_stand_in_answers_as_the_server_does(server: str) -> None:
    """What other tests here rely on."""
    window = window_until(cluster().end_s, 3600, 60)
    assert gpu_use(StoryTeller(cluster()), window) == asked(server)


def test_exported_labels_of_a_recorded_story(tmp_path: Path) -> None:
    story = Story()
    story.gpu("GPU-0", exported("web", "one"), lambda _: 20)
    with prometheus(tmp_path, story) as url:
        assert {one.pod for one in asked(url).samples} == {"one"}
