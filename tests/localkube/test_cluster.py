"""A cluster takes pods, trusts and is trusted by its own certificates only, and leaves nothing behind."""

import os
import signal
import socket
import ssl
import subprocess
import sys
from pathlib import Path

import pytest

from gpufleet.localkube.access.api import RefusedError, tls_context
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.localkube.control_plane import Options
from gpufleet.localkube.features import gang_api_version
from gpufleet.localkube.processes import plan
from gpufleet.localkube.processes.folders import is_locked, lock_of
from gpufleet.localkube.processes.process_errors import ClusterError, ProgramFailedError
from tests.localkube.cluster import KUBERNETES, a_cluster, all_programs, program
from tests.waiting import until

WAIT_S = 60


def pids(running: LocalCluster) -> list[int]:
    """Everybody who runs for a cluster: its programs and its supervisor."""
    written = running.processes()
    assert written is not None
    return [written.supervisor.pid, *(one.pid for one in written.programs.values())]


def alive(pid: int) -> bool:
    """Whether a process still runs; one that only waits to be collected does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def await_true(said: str, holds: object) -> None:
    """Wait until it holds, fail with what was waited for."""
    assert callable(holds)
    until(lambda: bool(holds()), WAIT_S, f"never came true: {said}")


def test_kubectl_reaches_it_by_its_kubeconfig(cluster: LocalCluster) -> None:
    get = [str(program("kubectl")), f"--kubeconfig={cluster.kubeconfig}", "get", "-o=name"]
    command = [*get, "serviceaccount", "default"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("serviceaccount/default\n", "")


def test_it_is_of_the_version_asked_for(cluster: LocalCluster) -> None:
    with cluster.api() as api:
        assert api.call("GET", "/version")["gitVersion"] == f"v{KUBERNETES}"


def test_native_gangs_are_served(cluster: LocalCluster) -> None:
    version = gang_api_version(KUBERNETES)
    if version is None:
        pytest.skip(f"Kubernetes {KUBERNETES} has no gangs of its own")
    with cluster.api() as api:
        kinds = {one["kind"] for one in api.call("GET", f"/apis/scheduling.k8s.io/{version}")["resources"]}
    assert {"PodGroup", "Workload"} <= kinds


def test_a_client_without_a_certificate_is_refused(cluster: LocalCluster) -> None:
    context = ssl.create_default_context(cafile=str(cluster.authority))
    with (
        socket.create_connection(("127.0.0.1", cluster.port)) as raw,
        context.wrap_socket(raw, server_hostname="127.0.0.1") as connection,
    ):
        connection.sendall(b"GET /api/v1/nodes HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 401 ")


def test_a_client_that_trusts_others_only_refuses_the_server(cluster: LocalCluster) -> None:
    context = ssl.create_default_context()
    with (
        socket.create_connection(("127.0.0.1", cluster.port)) as raw,
        pytest.raises(ssl.SSLCertVerificationError),
    ):
        context.wrap_socket(raw, server_hostname="127.0.0.1")


def test_a_user_has_the_rights_of_its_groups_and_no_more(cluster: LocalCluster) -> None:
    kubeconfig = cluster.kubeconfig_for("system:node:n1", ["system:nodes"])
    ask = [str(program("kubectl")), f"--kubeconfig={kubeconfig}", "auth", "can-i"]
    may = subprocess.run([*ask, "list", "services"], capture_output=True, text=True, check=False)
    may_not = subprocess.run([*ask, "delete", "nodes"], capture_output=True, text=True, check=False)
    assert (may.stdout, may_not.stdout) == ("yes\n", "no\n")


def test_keys_are_for_their_owner_alone(cluster: LocalCluster) -> None:
    assert cluster.folder.stat().st_mode & 0o777 == 0o700
    secret = [path for path in cluster.folder.iterdir() if path.suffix in {".key", ".kubeconfig"}]
    assert len(secret) >= 6
    assert all(path.stat().st_mode & 0o077 == 0 for path in [*secret, cluster.kubeconfig])


def test_etcd_listens_on_no_port(cluster: LocalCluster) -> None:
    etcd = cluster.pid("etcd")
    sockets = {str(path.readlink()) for path in Path(f"/proc/{etcd}/fd").iterdir() if path.is_symlink()}
    listening = [
        line.split()[9]
        for table in ("tcp", "tcp6")
        for line in Path(f"/proc/{etcd}/net/{table}").read_text(encoding="utf-8").splitlines()[1:]
        if line.split()[3] == "0A"
    ]
    assert not sockets & {f"socket:[{inode}]" for inode in listening}


def test_a_refusal_is_told_with_the_servers_words(cluster: LocalCluster) -> None:
    with cluster.api() as api, pytest.raises(RefusedError, match=r'404 .*pods "nobody" not found'):
        api.call("GET", "/api/v1/namespaces/default/pods/nobody")


def test_two_clusters_side_by_side_do_not_know_each_other(cluster: LocalCluster, tmp_path: Path) -> None:
    with a_cluster(tmp_path, "other") as other:
        with other.api() as api:
            api.call("POST", "/api/v1/namespaces", {"metadata": {"name": "only-there"}})
        with cluster.api() as api:
            assert api.request("GET", "/api/v1/namespaces/only-there")[0] == 404
        assert other.port != cluster.port
        mixed = tls_context(other.authority, cluster.folder / "admin.crt", cluster.folder / "admin.key")
        with (
            socket.create_connection(("127.0.0.1", other.port)) as raw,
            mixed.wrap_socket(raw, server_hostname="127.0.0.1") as connection,
        ):
            connection.sendall(b"GET /api HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            assert connection.recv(100).startswith(b"HTTP/1.1 401 ")


def test_stopping_leaves_no_process_and_no_file(tmp_path: Path) -> None:
    with a_cluster(tmp_path) as running:
        everybody = pids(running)
        assert len(everybody) == 5
        assert all(alive(pid) for pid in everybody)
        assert is_locked(lock_of(running.folder))
    assert not any(alive(pid) for pid in everybody)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_in_use_is_refused(cluster: LocalCluster) -> None:
    with pytest.raises(ClusterError, match="is running"):
        LocalCluster.start(cluster.folder, "again", all_programs(Options(kubernetes=KUBERNETES)))


def test_a_program_that_ends_is_started_again(tmp_path: Path) -> None:
    with a_cluster(tmp_path) as running:
        killed = running.pid("kube-controller-manager")
        os.kill(killed, signal.SIGKILL)
        await_true("another controller manager", lambda: running.pid("kube-controller-manager") != killed)


def test_a_program_that_does_not_come_up_is_named_with_the_end_of_its_log(tmp_path: Path) -> None:
    options = Options(kubernetes=KUBERNETES, flags={"kube-apiserver": ("--no-such-flag",)})
    with pytest.raises(
        ProgramFailedError, match=r"(?s)kube-apiserver ended with 1 .*unknown flag: --no-such-flag"
    ):
        LocalCluster.start(tmp_path / "bad", "bad", all_programs(options), options)
    assert list(tmp_path.iterdir()) == []


STARTER = """
import sys
from pathlib import Path
from gpufleet.localkube.cluster import LocalCluster
from tests.localkube.cluster import KUBERNETES, Options, all_programs
options = Options(kubernetes=KUBERNETES)
say = lambda said: print(said, flush=True)
LocalCluster.start(Path(sys.argv[1]), "test", all_programs(options), options, say)
print("up", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("moment", ["started etcd", "started kwok", "up"])
def test_a_killed_starter_leaves_no_process_and_no_file(tmp_path: Path, moment: str) -> None:
    folder = tmp_path / "test"
    command = [sys.executable, "-c", STARTER, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdout is not None
        for line in starter.stdout:
            if line.strip() == moment:
                break
        await_true("the list of processes", lambda: plan.read_processes(folder) is not None)
        everybody = pids(LocalCluster.at(folder))
        starter.kill()
    await_true("no process", lambda: not any(alive(pid) for pid in everybody))
    await_true("no file", lambda: list(tmp_path.iterdir()) == [])


def test_a_killed_supervisor_takes_its_programs_along(tmp_path: Path) -> None:
    with a_cluster(tmp_path) as running:
        everybody = pids(running)
        os.kill(everybody[0], signal.SIGKILL)
        await_true("no process", lambda: not any(alive(pid) for pid in everybody))
        assert not is_locked(lock_of(running.folder))
