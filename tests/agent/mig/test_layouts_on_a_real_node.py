"""On a real kubelet a card is cut for a pod that waits, the pod runs, and the card is whole again."""

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest

from gpufleet.cli.main import ExitCode
from gpufleet.localkube import manifests
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.localkube.node.configuration import NODE_NAME
from gpufleet.localkube.node_agent import await_resource
from gpufleet.mig.wanted import LAYOUTS_ANNOTATION, STATES_ANNOTATION
from gpufleet.model.fleet_policy import MIG_LAYOUT_LABEL, MIG_STATE_LABEL
from gpufleet.model.resource_names import NVIDIA_GPU
from tests.agent.agent_process import AgentProcess
from tests.localkube.cluster import a_cluster
from tests.localkube.real_node import await_pod, awaited, delete_pod, run_pod
from tests.scheduler.real_scheduler import scheduler_at_work

CARD = "GPU-0000000a-5b7c-4e2f-9a51-5d3f8a0c0c5f"
MACHINE = f"gpuProduct: NVIDIA-H100-80GB-HBM3\ngpuMemory: 81559\ngpus:\n- {{id: {CARD}}}\n"
SHARING = "version: v1\nflags: {migStrategy: mixed}\n"
NODE = f"/api/v1/nodes/{NODE_NAME}"
PROFILE = "nvidia.com/mig-2g.20gb"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LocalCluster, AgentProcess]]:
    """A real node with one card, and an agent that cuts it."""
    folder = tmp_path_factory.mktemp("mig")
    with a_cluster(folder, "mig", real_node=True) as cluster:
        with cluster.api() as api:
            manifests.install(api)
        cluster.furnished()
        configs = folder / "config.yaml"
        configs.write_text("version: v1\nmig-configs: {}\n", encoding="utf-8")
        agent = AgentProcess(
            cluster, folder, MACHINE, SHARING, "--mig-layouts", f"--mig-config-file={configs}"
        )
        agent.start()
        try:
            await_resource(cluster, NVIDIA_GPU, 1)
            yield cluster, agent
        finally:
            agent.kill()


def want(cluster: LocalCluster, layout: list[str] | None) -> None:
    """Write on the Node which layout the card shall have, whatever is in use."""
    body = {"metadata": {"annotations": {LAYOUTS_ANNOTATION: json.dumps({CARD: layout})}}}
    with cluster.api() as api:
        api.call("PATCH", NODE, body, content_type="application/merge-patch+json")


def label(cluster: LocalCluster, config: str | None) -> None:
    """Ask for a config as users of NVIDIA's MIG Manager do, and for no layout otherwise."""
    metadata = {"labels": {MIG_LAYOUT_LABEL: config}, "annotations": {LAYOUTS_ANNOTATION: None}}
    with cluster.api() as api:
        api.call("PATCH", NODE, {"metadata": metadata}, content_type="application/merge-patch+json")


def state_label(cluster: LocalCluster) -> str:
    """What the agent answers to it."""
    with cluster.api() as api:
        labels = api.call("GET", NODE)["metadata"]["labels"]
    return str(labels.get(MIG_STATE_LABEL, ""))


def await_state(cluster: LocalCluster, agent: AgentProcess, state: str) -> None:
    """Return once the agent says so of the card."""

    def said() -> bool:
        with cluster.api() as api:
            found = api.call("GET", NODE)["metadata"]["annotations"].get(STATES_ANNOTATION, "{}")
        return bool(json.loads(found).get(CARD, {}).get("state") == state)

    awaited(f"the card is {state}", said, agent.story)


def mig(cluster: LocalCluster, *words: str, code: ExitCode = ExitCode.DONE) -> tuple[str, str]:
    """What ``gpufleet mig`` says on standard output and on standard error."""
    command = [sys.executable, "-m", "gpufleet", "mig", *words, "--kubeconfig", str(cluster.kubeconfig)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == code, done.stderr
    return done.stdout, done.stderr


def test_a_card_is_cut_by_the_scheduler_and_given_back_by_hand(
    node: tuple[LocalCluster, AgentProcess],
) -> None:
    cluster, agent = node
    limits = {"limits": {PROFILE: "1"}}
    with scheduler_at_work(cluster, "--mig-on-demand=1s"):
        run_pod(cluster, "unasked", "exec sleep 100000", limits, nodeName="", schedulerName="gpufleet")
        await_pod(cluster, "unasked", "Running")
        delete_pod(cluster, "unasked")
    await_state(cluster, agent, "success")
    mig(cluster, "apply", f"{CARD}=whole")
    await_resource(cluster, NVIDIA_GPU, 1)


def test_a_card_is_cut_by_a_command_for_a_pod_and_whole_again(
    node: tuple[LocalCluster, AgentProcess],
) -> None:
    with scheduler_at_work(node[0]):
        cut_by_hand(*node)


def cut_by_hand(cluster: LocalCluster, agent: AgentProcess) -> None:
    """The story of the page."""
    limits = {"limits": {PROFILE: "1"}}
    run_pod(cluster, "user", "exec sleep 100000", limits, nodeName="", schedulerName="gpufleet")
    # The report of the cards is written a moment after the kubelet counts them.
    awaited("a plan", lambda: "1 pod would have room" in mig(cluster, "plan")[0], agent.story)
    shown, progress = mig(cluster, "apply")
    assert "enable MIG, make 2g.20gb@" in shown
    assert progress.endswith("1 card as planned\n")
    await_pod(cluster, "user", "Running")
    await_resource(cluster, NVIDIA_GPU, 0)
    _, told = mig(cluster, "apply", f"{CARD}=whole", code=ExitCode.BAD_INPUT)
    assert "is in use" in told
    want(cluster, None)
    await_state(cluster, agent, "waiting")
    agent.kill()
    agent.start()
    await_state(cluster, agent, "waiting")
    assert await_pod(cluster, "user", "Running")
    delete_pod(cluster, "user")
    await_state(cluster, agent, "success")
    await_resource(cluster, NVIDIA_GPU, 1)


def test_the_label_of_nvidias_mig_manager_is_carried_out_and_answered(
    node: tuple[LocalCluster, AgentProcess],
) -> None:
    cluster, agent = node
    for config, resource, count in (
        ("all-balanced", "nvidia.com/mig-1g.10gb", 2),
        ("all-disabled", NVIDIA_GPU, 1),
    ):
        label(cluster, config)
        await_resource(cluster, resource, count)
        awaited("the answer", lambda: state_label(cluster) == "success", agent.story)
    label(cluster, "all-blanced")
    awaited("the refusal", lambda: state_label(cluster) == "failed", agent.story)
    label(cluster, None)
