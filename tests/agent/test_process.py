"""The agent as a program: lean, patient with a cluster that is away, gone when it is told to."""

import contextlib
import http.client
import json
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gpufleet.agent.gpus.simulation_control import SOCKET, tell
from gpufleet.cli.main import ExitCode, main
from gpufleet.devices.simulated.orders import Lose, RaiseXid, SetReading, Show
from tests.agent.exporter.builders import Page
from tests.agent.machine_room import EIGHT
from tests.daemon.pem_files import client, issued, mount
from tests.waiting import until

NOWHERE = """
apiVersion: v1
kind: Config
current-context: nowhere
clusters: [{name: nowhere, cluster: {server: "http://127.0.0.1:1"}}]
contexts: [{name: nowhere, context: {cluster: nowhere, user: nobody}}]
users: [{name: nobody, user: {}}]
"""
HEAVY = ("numpy", "numba", "pyarrow", "rich", "jinja2", "cryptography", "gpufleet.engine", "pynvml")


def test_it_starts_without_what_only_others_need() -> None:
    script = f"""
import sys
from gpufleet.agent import process
found = [name for name in {HEAVY!r} if name in sys.modules]
sys.exit(f"imported: {{found}}" if found else 0)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@contextmanager
def an_agent(folder: Path, *more: str) -> Iterator[subprocess.Popen[bytes]]:
    """An agent of eight simulated GPUs, on a node without kubelet in a cluster that is away."""
    (folder / "kubeconfig").write_text(NOWHERE, encoding="utf-8")
    (folder / "gpus.yaml").write_text(EIGHT, encoding="utf-8")
    command = [
        *(sys.executable, "-m", "gpufleet", "agent", "--node-name=node-1"),
        f"--kubeconfig={folder / 'kubeconfig'}",
        f"--simulated={folder / 'gpus.yaml'}",
        f"--state-folder={folder / 'state'}",
        f"--kubelet-root={folder / 'kubelet'}",
        f"--cdi-folder={folder / 'cdi'}",
        "--metrics-address=127.0.0.1:0",
        *more,
    ]
    with (folder / "log").open("wb") as log, subprocess.Popen(command, stderr=log) as running:
        try:
            yield running
        finally:
            running.kill()


def is_open(state: Path) -> bool:
    """Whether orders are taken there."""
    try:
        tell(state, Show())
    except OSError:
        return False
    return True


def lines(folder: Path) -> list[dict[str, object]]:
    """What the agent has logged so far."""
    text = (folder / "log").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def fetched(folder: Path, path: str, tls: ssl.SSLContext | None = None) -> tuple[int, str]:
    """What the agent says at this path, over HTTPS where the client brings its trust."""
    until(lambda: any(line["message"] == "serving metrics and health" for line in lines(folder)))
    port = next(line["port"] for line in lines(folder) if line["message"] == "serving metrics and health")
    host, number = "127.0.0.1", int(str(port))
    with contextlib.closing(
        http.client.HTTPConnection(host, number, timeout=10)
        if tls is None
        else http.client.HTTPSConnection(host, number, timeout=10, context=tls)
    ) as connection:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def test_probes_and_metrics_tell_what_is(tmp_path: Path) -> None:
    with an_agent(tmp_path):
        until(lambda: "node condition: the condition of the node node-1" in fetched(tmp_path, "/readyz")[1])
        assert fetched(tmp_path, "/readyz")[0] == 503
        assert fetched(tmp_path, "/healthz") == (200, "ok\n")
        until(lambda: 'DCGM_FI_DEV_GPU_UTIL{gpu="7"' in fetched(tmp_path, "/metrics")[1])


def test_metrics_are_served_over_https(tmp_path: Path) -> None:
    (tmp_path / "tls").mkdir()
    certificate, key = mount(tmp_path / "tls", issued())
    with an_agent(tmp_path, f"--metrics-certificate={certificate}", f"--metrics-key={key}"):
        assert fetched(tmp_path, "/healthz", client()) == (200, "ok\n")
        until(lambda: 'DCGM_FI_DEV_GPU_UTIL{gpu="7"' in fetched(tmp_path, "/metrics", client())[1])


def test_metrics_follow_what_happens_to_a_gpu(tmp_path: Path) -> None:
    def page() -> Page:
        return Page(fetched(tmp_path, "/metrics")[1])

    with an_agent(tmp_path):
        until(lambda: page().values("gpufleet_gpu_healthy") == [1] * 8)
        assert page().values("DCGM_FI_DEV_FB_USED", gpu="3", Hostname="node-1") == [0]
        assert all(age < 60 for age in page().values("gpufleet_gpu_sample_age_seconds"))
        tell(tmp_path / "state", RaiseXid("3", 79))
        until(lambda: page().values("gpufleet_gpu_healthy", gpu="3") == [0])
        assert page().values("DCGM_FI_DEV_XID_ERRORS", gpu="3", err_code="79") == [79]
        assert page().values("gpufleet_gpu_healthy", gpu="4") == [1]


def test_who_asks_for_the_newest_readings_gets_them_whatever_the_pace(tmp_path: Path) -> None:
    def celsius(path: str) -> list[float]:
        return Page(fetched(tmp_path, path)[1]).values("gpufleet_gpu_temperature_celsius", gpu="3")

    with an_agent(tmp_path, "--sample-every-s=3600"):
        until(lambda: bool(celsius("/metrics")))
        tell(tmp_path / "state", SetReading("3", "celsius", 77))
        until(lambda: celsius("/metrics?newest") == [77])
        tell(tmp_path / "state", SetReading("3", "celsius", 66))
        assert celsius("/metrics") == [77]


def test_an_agent_that_is_killed_knows_what_was_against_a_gpu_when_it_is_back(tmp_path: Path) -> None:
    def healthy() -> list[float]:
        return Page(fetched(tmp_path, "/metrics")[1]).values("gpufleet_gpu_healthy")

    with an_agent(tmp_path):
        until(lambda: healthy() == [1] * 8)
        tell(tmp_path / "state", RaiseXid("3", 9999))
        until(lambda: healthy() == [1, 1, 1, 0, 1, 1, 1, 1])
    with an_agent(tmp_path):
        until(lambda: len(healthy()) == 8)
        assert healthy() == [1, 1, 1, 0, 1, 1, 1, 1]


@pytest.mark.parametrize(
    ("option", "problem"),
    [
        ("--counters=counters.csv", "line 1, name: no such counter"),
        ("--counters=gone.csv", "--counters: is not there"),
        ("--pod-label=pod", "--pod-label: hides another label"),
        ("--metrics-address=nowhere", "--metrics-address: not an address"),
        ("--metrics-certificate=tls.crt", "--metrics-key: a certificate and a key come together"),
    ],
)
def test_options_of_metrics_that_cannot_be_are_refused(
    tmp_path: Path,
    option: str,
    problem: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kubeconfig").write_text(NOWHERE, encoding="utf-8")
    (tmp_path / "gpus.yaml").write_text(EIGHT, encoding="utf-8")
    (tmp_path / "counters.csv").write_text("NONSENSE, gauge, x\n", encoding="utf-8")
    (tmp_path / "tls.crt").write_text("", encoding="utf-8")
    arguments = ["agent", "--node-name=n", "--kubeconfig=kubeconfig", "--simulated=gpus.yaml"]
    assert main([*arguments, "--log-format=json", option]) == ExitCode.BAD_INPUT
    assert problem in capsys.readouterr().err


def test_a_sharing_configuration_that_cannot_be_used_is_told_until_it_is_mended(tmp_path: Path) -> None:
    config = tmp_path / "sharing.yaml"
    config.write_text("version: v1\nsharing: {timeSlcing: {}}", encoding="utf-8")
    with an_agent(tmp_path, f"--config={config}"):
        until(lambda: "did you mean timeSlicing" in fetched(tmp_path, "/readyz")[1])
        config.write_text("version: v1", encoding="utf-8")
        until(lambda: "timeSlicing" not in fetched(tmp_path, "/readyz")[1])


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [(["--config-map=sharing"], "NAMESPACE/NAME"), (["--config-map=a/b", "--config=x"], "one of the two")],
)
def test_a_configuration_from_two_places_or_none_is_refused(
    tmp_path: Path, arguments: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "kubeconfig").write_text(NOWHERE, encoding="utf-8")
    command = ["agent", "--node-name=n", f"--kubeconfig={tmp_path / 'kubeconfig'}", "--log-format=json"]
    assert main([*command, *arguments]) == ExitCode.BAD_INPUT
    assert problem in capsys.readouterr().err


def test_it_waits_for_its_cluster_and_ends_when_it_is_told_to(tmp_path: Path) -> None:
    with an_agent(tmp_path) as running:
        # A GPU that is gone before it was ever seen is not missed.
        until(lambda: 'gpufleet_gpu_healthy{node="node-1",gpu="0"' in fetched(tmp_path, "/metrics")[1])
        tell(tmp_path / "state", Lose("0"))
        until(lambda: any(line["message"] == "a GPU is lost" for line in lines(tmp_path)))
        until(lambda: any("condition cannot be written" in str(line["message"]) for line in lines(tmp_path)))
        assert Path(f"/proc/{running.pid}/comm").read_text(encoding="ascii").strip() == "gpufleet-agent"
        running.send_signal(signal.SIGTERM)
        assert running.wait(20) == 0
    assert lines(tmp_path)[-1]["message"] == "stopped by a signal"


@pytest.mark.parametrize(
    ("machine", "problem"),
    [("gpus: [{modell: L4}]", "did you mean model"), (None, "--simulated: is not there")],
)
def test_a_machine_that_cannot_be_is_refused_with_its_field(
    tmp_path: Path, machine: str | None, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "kubeconfig").write_text(NOWHERE, encoding="utf-8")
    if machine is not None:
        (tmp_path / "gpus.yaml").write_text(machine, encoding="utf-8")
    arguments = ["agent", "--node-name=n", f"--kubeconfig={tmp_path / 'kubeconfig'}", "--log-format=json"]
    code = main([*arguments, f"--simulated={tmp_path / 'gpus.yaml'}"])
    assert code == ExitCode.BAD_INPUT
    assert problem in capsys.readouterr().err


def test_simulating_without_an_agent_says_where_it_looked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["simulate-gpu", f"--state-folder={tmp_path}", "--lose"])
    assert code == ExitCode.WORLD_FAILED
    assert str(tmp_path / SOCKET) in capsys.readouterr().err


def test_simulating_by_command_does_it_and_shows_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with an_agent(tmp_path):
        until(lambda: is_open(tmp_path / "state"))
        door = f"--state-folder={tmp_path / 'state'}"
        assert main(["simulate-gpu", door, "--gpu=3", "--xid=79"]) == 0
        assert main(["simulate-gpu", door]) == 0
        shown = capsys.readouterr().out.splitlines()
        assert [line.split()[0] for line in shown if line.endswith("lost")] == ["3", "3"]
        assert main(["simulate-gpu", door, "--gpu=9", "--reset"]) == ExitCode.BAD_INPUT
        assert "an index from 0 to 7" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [["--lose", "--hang"], ["--instance=MIG-1"], ["--instance=MIG-1", "--lose"], ["--xid=0"]]
)
def test_what_cannot_be_simulated_at_once_is_refused(arguments: list[str], tmp_path: Path) -> None:
    assert main(["simulate-gpu", f"--state-folder={tmp_path}", *arguments]) == ExitCode.BAD_INPUT
