"""The view at a real terminal, on a real API server: keys, sizes, ends, and all that may be missing."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from gpufleet.localkube import manifests, simulated_nodes
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.localkube.control_plane import Options
from gpufleet.localkube.simulated_nodes import SimulatedNodes, gpu_model
from tests.localkube.cluster import KUBERNETES, a_cluster
from tests.scheduler.real_scheduler import scheduler_at_work
from tests.scheduler.test_queues_on_a_real_server import add_pod, add_queue
from tests.top.pty_terminal import PtyTerminal

TOP = (sys.executable, "-m", "gpufleet", "top")
VIEWS = ("node", "queue", "gang", "pod", "idle")
RIGHTS = "/apis/rbac.authorization.k8s.io/v1"


def furnished(running: LocalCluster) -> None:
    """Two nodes of four GPUs, a queue, and two pods of which one has no room in its quota."""
    with running.api() as api:
        manifests.install(api)
        simulated_nodes.create(running, SimulatedNodes(2, 4, gpu_model("H100-80GB")))
        add_queue(api, "research", quotas=[{"resource": "gpu", "nominal": 4, "borrowingLimit": 0}])
        add_pod(api, "fits", "research", 3)
        add_pod(api, "over", "research", 2)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Nothing schedules in it unless a test has it done."""
    with a_cluster(tmp_path_factory.mktemp("top"), options=Options(kubernetes=KUBERNETES)) as running:
        furnished(running)
        yield running


def environment(kubeconfig: Path) -> Mapping[str, str]:
    own = {name: text for name, text in os.environ.items() if name not in {"NO_COLOR", "FORCE_COLOR"}}
    return {**own, "KUBECONFIG": str(kubeconfig), "TERM": "xterm-256color"}


def lines_of(table: str) -> list[str]:
    """The lines below the headings."""
    return table.splitlines()[1:]


def once(kubeconfig: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [*TOP, *arguments]
    return subprocess.run(
        command, env=dict(environment(kubeconfig)), capture_output=True, text=True, check=False, timeout=300
    )


def test_a_session_at_a_terminal(cluster: LocalCluster) -> None:
    with scheduler_at_work(cluster), PtyTerminal(TOP, environment(cluster.kubeconfig)) as terminal:
        terminal.until(lambda screen: "gpu-001" in screen and "live" in screen)
        terminal.press("4")
        screen = terminal.until(lambda screen: "default/over" in screen and "quota" in screen, 300)
        assert "default/fits" in screen
        terminal.press("/over\r")
        assert "default/fits" not in terminal.until(lambda screen: "default/fits" not in screen)
        terminal.press("\x1b")
        terminal.until(lambda screen: "default/fits" in screen)
        terminal.press("2")
        terminal.until(lambda screen: "[queue]" in screen and "research" in screen)
        terminal.press(":nope\r")
        terminal.until(lambda screen: "no view 'nope'" in screen)
        terminal.resize(60, 15)
        terminal.until(lambda screen: len(screen.splitlines()) == 15)
        terminal.press("?")
        terminal.until(lambda screen: "Ctrl-R" in screen)
        terminal.press("x")
        terminal.press("\x03")
        assert terminal.ended() == 0
        assert terminal.is_restored()
        assert terminal.plain == ""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_it_and_restores_the_terminal(cluster: LocalCluster, number: signal.Signals) -> None:
    with PtyTerminal(TOP, environment(cluster.kubeconfig)) as terminal:
        terminal.until(lambda screen: "gpu-001" in screen)
        assert not terminal.is_restored()
        terminal.program.send_signal(number)
        assert terminal.ended() == 128 + number
        assert terminal.is_restored()


def test_without_colour_nothing_but_places_is_sent(cluster: LocalCluster) -> None:
    own = {**environment(cluster.kubeconfig), "NO_COLOR": "1"}
    with PtyTerminal(TOP, own) as terminal:
        terminal.until(lambda screen: "gpu-001" in screen)
        assert set(re.findall(r"\x1b\[[0-9;]*m", terminal.written)) == {"\x1b[0m"}
        terminal.press("q")
        assert terminal.ended() == 0


def test_every_view_is_one_table_in_a_pipe_and_a_document_for_programs(cluster: LocalCluster) -> None:
    for view in VIEWS:
        ended = once(cluster.kubeconfig, view)
        assert ended.returncode == 0, ended.stderr
        assert "\x1b" not in ended.stdout
        found = json.loads(once(cluster.kubeconfig, view, "-o", "json").stdout)
        assert (found["schema"], found["view"]) == ("gpufleet.io/top/v1", view)
        assert len(found["lines"]) == len(lines_of(ended.stdout))


def test_lines_are_chosen_by_labels(cluster: LocalCluster) -> None:
    names = {line.split()[0] for line in lines_of(once(cluster.kubeconfig, "node").stdout)}
    first = once(cluster.kubeconfig, "node", "-l", "kubernetes.io/hostname in (gpu-001)")
    assert {line.split()[0] for line in lines_of(first.stdout)} == {"gpu-001"} < names
    refused = once(cluster.kubeconfig, "queue", "--selector", "a=b")
    assert refused.returncode == 2
    assert "lines of the view queue have no labels" in refused.stderr


def test_an_agent_that_is_not_there_leaves_unknowns_and_a_word(cluster: LocalCluster) -> None:
    ended = once(cluster.kubeconfig, "node")
    assert "?" in ended.stdout.splitlines()[1]
    assert "0%" not in ended.stdout
    assert "use is not known on 2 nodes: no agent can be reached there" in ended.stderr


def test_a_prometheus_that_is_not_there_is_said_and_harms_nothing(cluster: LocalCluster) -> None:
    ended = once(cluster.kubeconfig, "node", "--prometheus", "http://127.0.0.1:1")
    assert ended.returncode == 0
    assert "gpu-001" in ended.stdout
    assert "no answer from Prometheus at http://127.0.0.1:1" in ended.stderr


def test_without_rights_each_view_says_what_may_not_be_listed(cluster: LocalCluster) -> None:
    nothing = cluster.kubeconfig_for("mallory")
    for view in VIEWS:
        ended = once(nothing, view)
        assert "Traceback" not in ended.stderr
        assert ended.returncode == 0, ended.stderr
        assert "you may not list nodes" in ended.stderr
        assert "you may not list pods in default" in ended.stderr
    refused = once(nothing, "pod", "--all-namespaces")
    assert refused.returncode == 2
    assert "you may not list pods of the whole cluster" in refused.stderr


def test_with_the_rights_of_one_namespace_its_pods_are_shown(cluster: LocalCluster) -> None:
    role = {
        "metadata": {"name": "looks"},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}],
    }
    group = "rbac.authorization.k8s.io"
    binding = {
        "metadata": {"name": "looks"},
        "roleRef": {"apiGroup": group, "kind": "Role", "name": "looks"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": "nina"}],
    }
    with cluster.api() as api:
        for plural, kind, body in (("roles", "Role", role), ("rolebindings", "RoleBinding", binding)):
            whole = {"apiVersion": f"{group}/v1", "kind": kind, **body}
            api.call("POST", f"{RIGHTS}/namespaces/default/{plural}", whole)
    ended = once(cluster.kubeconfig_for("nina"), "pod")
    assert "default/over" in ended.stdout
    assert "you may not list nodes" in ended.stderr


def test_a_token_that_has_ended_is_said_with_the_way_out(cluster: LocalCluster, tmp_path: Path) -> None:
    with cluster.api() as api:
        account = "/api/v1/namespaces/default/serviceaccounts"
        api.call(
            "POST", account, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "gone"}}
        )
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        token = api.call("POST", f"{account}/gone/token", asked)["status"]["token"]
        api.call("DELETE", f"{account}/gone", {})
    ours = f"{{server: '{cluster.url}', certificate-authority: '{cluster.authority}'}}"
    path = tmp_path / "kubeconfig"
    path.write_text(
        "current-context: a\ncontexts: [{name: a, context: {cluster: a, user: a}}]\n"
        f"clusters: [{{name: a, cluster: {ours}}}]\n"
        f'users: [{{name: a, user: {{token: "{token}"}}}}]\n',
        encoding="utf-8",
    )
    ended = once(path, "node")
    assert ended.returncode == 3
    assert "needs new credentials" in ended.stderr
    with PtyTerminal(TOP, environment(path)) as terminal:
        terminal.until(lambda screen: "not current" in screen)
        terminal.press("q")
        assert terminal.ended() == 0


def test_a_scheduler_that_ends_while_one_looks_on_is_said(cluster: LocalCluster) -> None:
    with PtyTerminal(TOP, environment(cluster.kubeconfig)) as terminal:
        with scheduler_at_work(cluster):
            terminal.until(lambda screen: "live" in screen and "! no gpufleet" not in screen)
        screen = terminal.until(lambda screen: "! no gpufleet scheduler leads" in screen, 120)
        assert "gpu-001" in screen
        assert "live" in screen


def test_an_api_server_that_goes_away_leaves_what_was_seen_and_since_when(tmp_path: Path) -> None:
    with a_cluster(tmp_path, options=Options(kubernetes=KUBERNETES)) as running:
        furnished(running)
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_bytes(running.kubeconfig.read_bytes())
        terminal = PtyTerminal(TOP, environment(kubeconfig))
        terminal.until(lambda screen: "gpu-001" in screen and "live" in screen)
    with terminal:
        screen = terminal.until(lambda screen: "as of" in screen and "not current" in screen)
        assert "gpu-001" in screen
        terminal.press("q")
        assert terminal.ended() == 0
        assert terminal.is_restored()
