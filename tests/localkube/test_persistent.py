"""Up, status, kubeconfig and down: a cluster lives on, is found again, and goes without a trace."""

import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpufleet.cli import main as cli
from gpufleet.localkube import persistent
from gpufleet.localkube.access.ports import HeldPort
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.localkube.control_plane import Component, Options
from gpufleet.localkube.processes import plan
from gpufleet.localkube.processes.child import start
from gpufleet.localkube.processes.folders import is_locked, lock_of, try_lock
from gpufleet.localkube.processes.plan import Process, Processes
from gpufleet.localkube.processes.process_errors import ProgramFailedError
from tests.localkube.cluster import KUBERNETES, all_programs, program
from tests.localkube.test_cluster import alive, await_true, pids

WAIT_S = 60


@pytest.fixture
def clusters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of the clusters of this test, which is empty again at its end."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    folder = tmp_path / "gpufleet" / "clusters"
    yield folder
    assert cli.main(["down", "--all"]) == 0
    assert not folder.exists() or list(folder.iterdir()) == []


def up(*options: str) -> subprocess.CompletedProcess[str]:
    """Run `gpufleet up` as a person would."""
    program("kubectl")
    all_programs(Options(kubernetes=KUBERNETES))
    command = [sys.executable, "-m", "gpufleet", "up", f"--kubernetes={KUBERNETES}", *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_quiet_start_says_the_export_line_alone(clusters: Path) -> None:
    done = up("--quiet", "--name=quiet", "--nodes=1", "--no-scheduler", "--no-kube-scheduler")
    assert done.returncode == 0, done.stderr
    assert (done.stdout, done.stderr) == (f"export KUBECONFIG={clusters / 'quiet' / 'kubeconfig'}\n", "")


def test_a_cluster_lives_on_until_it_is_taken_down(
    clusters: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done = up("--name=one", "--nodes=2", "--gpus-per-node=4", "--gpu-model=A100-80GB")
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"export KUBECONFIG={clusters / 'one' / 'kubeconfig'}\n"
    assert "simulated nodes: 2 with 4 x A100-80GB each" in done.stderr
    url = re.search(r"the fleet in your browser: (http://127\.0\.0\.1:\d+)(/login\?token=\S+)", done.stderr)
    assert url is not None
    with urllib.request.urlopen(url[1]) as page:  # noqa: S310  the pattern says http
        assert b"<html" in page.read()
    running = persistent.running("one")
    everybody = pids(running)
    with running.api() as api:
        nodes = api.call("GET", "/api/v1/nodes")["items"]
        assert [node["status"]["allocatable"]["nvidia.com/gpu"] for node in nodes] == ["4", "4"]
    assert cli.main(["status"]) == 0
    shown = capsys.readouterr().out
    assert f"one: Kubernetes {KUBERNETES} at {running.url}" in shown
    shown_running = [line.split()[0] for line in shown.splitlines() if " runs as process " in line]
    assert shown_running == [
        *("etcd", "kube-apiserver", "kube-controller-manager", "kwok", "kube-scheduler"),
        *("local-volumes", "simulated-sharing", "scheduler", "web"),
    ]
    assert cli.main(["kubeconfig", "--name=one"]) == 0
    assert capsys.readouterr().out == f"{running.kubeconfig}\n"
    assert cli.main(["kubeconfig", "--name=one", "--content"]) == 0
    assert capsys.readouterr().out == running.kubeconfig.read_text(encoding="utf-8")
    again = up("--name=one")
    assert (again.returncode, again.stdout) == (cli.ExitCode.BAD_INPUT, "")
    assert "a local cluster of this name is running" in again.stderr
    assert cli.main(["down", "--name=one"]) == 0
    assert not any(alive(pid) for pid in everybody)
    assert list(clusters.iterdir()) == []


def test_up_that_is_killed_in_the_middle_leaves_nothing(clusters: Path) -> None:
    command = [sys.executable, "-m", "gpufleet", "up", f"--kubernetes={KUBERNETES}", "--name=cut"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as starter:
        assert starter.stderr is not None
        assert any("started kwok" in line for line in starter.stderr)
        everybody = pids(LocalCluster.at(clusters / "cut"))
        starter.kill()
    await_true("no process", lambda: not any(alive(pid) for pid in everybody))
    await_true("no file", lambda: list(clusters.iterdir()) == [])


def test_up_that_is_interrupted_leaves_nothing(clusters: Path) -> None:
    command = [sys.executable, "-m", "gpufleet", "up", f"--kubernetes={KUBERNETES}", "--name=cut"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as starter:
        assert starter.stderr is not None
        assert any("started kube-apiserver" in line for line in starter.stderr)
        starter.send_signal(signal.SIGINT)
        said = starter.stderr.read()
    assert (starter.returncode, said.strip()) == (cli.ExitCode.INTERRUPTED, "gpufleet: interrupted")
    assert list(clusters.iterdir()) == []


def test_what_a_killed_supervisor_leaves_is_told_and_removed(
    clusters: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert up("--name=dead", "--nodes=0").returncode == 0
    everybody = pids(persistent.running("dead"))
    os.kill(everybody[0], signal.SIGKILL)
    await_true("no process", lambda: not any(alive(pid) for pid in everybody))
    assert cli.main(["status"]) == 0
    assert "dead: does not run any more" in capsys.readouterr().out
    assert cli.main(["kubeconfig", "--name=dead"]) == cli.ExitCode.WORLD_FAILED
    assert "`gpufleet up --name dead` starts it anew" in capsys.readouterr().err
    again = up("--name=dead", "--nodes=0")
    assert again.returncode == 0
    assert "removed what a cluster dead left behind" in again.stderr
    assert (clusters / "dead").is_dir()


def test_a_component_of_ours_starts_when_all_is_there_and_goes_with_the_cluster(tmp_path: Path) -> None:
    script = "import time; print('here', flush=True); time.sleep(1000)"
    component = Component("ours", (sys.executable, "-c", script), user="ours")
    options = Options(kubernetes=KUBERNETES)
    programs = all_programs(options)
    with LocalCluster.start(tmp_path / "c", "c", programs, options, components=[component]) as running:
        log = running.folder / "logs" / "ours.log"
        assert not log.exists()
        running.furnished()
        await_true("its word", lambda: log.exists() and b"here" in log.read_bytes())
        assert (running.folder / "ours.kubeconfig").exists()
        its = running.pid("ours")
    assert not alive(its)


HOLDING = """
import subprocess, sys, time
kind = "apiVersion: coordination.k8s.io/v1, kind: Lease"
lease = "{" + kind + ", metadata: {name: ours}, spec: {holderIdentity: me}}"
kubectl = [sys.argv[1], "--kubeconfig=ours.kubeconfig", "create", "-f-"]
subprocess.run(kubectl, input=lease, text=True, check=True)
time.sleep(1)
print("at work", flush=True)
time.sleep(1000)
"""


def test_a_component_is_waited_for_until_it_holds_its_lease(tmp_path: Path) -> None:
    command = (sys.executable, "-c", HOLDING, str(program("kubectl")))
    component = Component("ours", command, "ours", ("system:masters",), lease=("default", "ours"))
    options = Options(kubernetes=KUBERNETES)
    programs = all_programs(options)
    with LocalCluster.start(tmp_path / "c", "c", programs, options, components=[component]) as running:
        running.furnished()
        running.await_component(component)
        with running.api() as api:
            lease = api.call("GET", "/apis/coordination.k8s.io/v1/namespaces/default/leases/ours")
        assert lease["spec"]["holderIdentity"] == "me"


def test_a_component_is_waited_for_until_its_log_says_that_it_is_at_work(tmp_path: Path) -> None:
    command = (sys.executable, "-c", HOLDING, str(program("kubectl")))
    component = Component(
        "ours", command, "ours", ("system:masters",), lease=("default", "ours"), at_work="at work"
    )
    options = Options(kubernetes=KUBERNETES)
    programs = all_programs(options)
    with LocalCluster.start(tmp_path / "c", "c", programs, options, components=[component]) as running:
        running.furnished()
        running.await_component(component)
        assert b"at work" in (running.folder / "logs" / "ours.log").read_bytes()


def test_a_component_that_ends_is_named_with_the_end_of_its_log(tmp_path: Path) -> None:
    command = (sys.executable, "-c", "raise SystemExit('no such option')")
    component = Component("ours", command, "ours", lease=("default", "ours"))
    options = Options(kubernetes=KUBERNETES)
    programs = all_programs(options)
    with LocalCluster.start(tmp_path / "c", "c", programs, options, components=[component]) as running:
        running.furnished()
        with pytest.raises(ProgramFailedError, match=r"(?s)ours ended while .*no such option"):
            running.await_component(component)


def test_gpus_for_claims_are_of_a_real_node(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["up", "--claim-gpus=1"]) == cli.ExitCode.BAD_INPUT
    assert (
        "--claim-gpus: are of the real node, found 1; expected --real-node beside it"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize("name", ["", "-a", "a-", "A", "a/b", "..", "a" * 41, "a b"])
def test_what_is_no_name_is_refused(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["down", "--name", name]) == cli.ExitCode.BAD_INPUT
    assert "no name for a cluster" in capsys.readouterr().err


def test_a_cluster_that_is_not_there_is_told(clusters: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert not clusters.exists()
    for command in ("down", "kubeconfig"):
        assert cli.main([command, "--name=nobody"]) == cli.ExitCode.BAD_INPUT
        assert "there is no such local cluster, found 'nobody'" in capsys.readouterr().err
    assert cli.main(["status"]) == 0
    assert "there is no local cluster" in capsys.readouterr().err


def test_a_process_that_only_has_the_same_id_is_spared(clusters: Path, tmp_path: Path) -> None:
    stranger = start("stranger", ["sleep", "1000"], tmp_path / "log")
    try:
        ticks = plan.started_ticks(stranger.pid)
        assert ticks is not None
        other = Process(stranger.pid, ticks - 1)
        (clusters / "old").mkdir(parents=True)
        plan.write(clusters / "old", plan.PROCESSES_FILE, Processes(other, {"etcd": other}))
        persistent.remove("old")
        assert stranger.exit_code is None
        same = Process(stranger.pid, ticks)
        (clusters / "old").mkdir()
        plan.write(clusters / "old", plan.PROCESSES_FILE, Processes(other, {"etcd": same}))
        persistent.remove("old")
        assert stranger.process.wait(WAIT_S) == -signal.SIGKILL
    finally:
        stranger.stop()


def test_a_program_that_does_not_listen_is_killed(tmp_path: Path) -> None:
    deaf = start("deaf", ["sh", "-c", "trap '' TERM; echo ready; sleep 1000"], tmp_path / "log")
    await_true("its trap", lambda: b"ready" in (tmp_path / "log").read_bytes())
    deaf.stop(wait_s=0.1)
    assert deaf.exit_code == -signal.SIGKILL


def test_a_program_that_is_stopped_is_ended_too(tmp_path: Path) -> None:
    halted = start("halted", ["sleep", "1000"], tmp_path / "log")
    os.kill(halted.pid, signal.SIGSTOP)
    halted.stop()
    assert halted.exit_code == -signal.SIGTERM


def test_children_die_with_their_parent(tmp_path: Path) -> None:
    script = (
        "import sys, time; from pathlib import Path; from gpufleet.localkube.processes.child import start;"
        "print(start('c', ['sleep', '1000'], Path(sys.argv[1])).pid, flush=True); time.sleep(1000)"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "log")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert alive(pid)
        parent.kill()
    await_true("no child", lambda: not alive(pid))


def test_a_held_port_is_given_to_nobody_else() -> None:
    held = [HeldPort() for _ in range(200)]
    try:
        assert len({one.number for one in held}) == len(held)
    finally:
        for one in held:
            one.release()


def test_a_lock_is_held_by_one_and_free_when_its_file_is_gone(tmp_path: Path) -> None:
    path = lock_of(tmp_path / "one")
    first = try_lock(path)
    assert first is not None
    assert try_lock(path) is None
    assert is_locked(path)
    path.unlink()
    second = try_lock(path)
    assert second is not None
    os.close(first)
    assert is_locked(path)
    os.close(second)
    assert not is_locked(path)


def test_a_broken_list_of_processes_is_no_list(tmp_path: Path) -> None:
    (tmp_path / plan.PROCESSES_FILE).write_text('{"supervisor": ', encoding="utf-8")
    assert plan.read_processes(tmp_path) is None
