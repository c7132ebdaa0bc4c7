"""The entries of the table that a container shows more of, on a real kubelet with our agent.

The GPUs are simulated. Images and commands of guides are exchanged for a shell that tells what it sees; all
else stays as it is written. Below containerd is a stand-in for NVIDIA's runtime, which gives every GPU to a
container that says so.
"""

from collections.abc import Iterator

import msgspec
import pytest

from gpufleet.cli.up import components
from gpufleet.devices.sharing.nvidia_places import NVIDIA_CONFIG_MAPS
from gpufleet.localkube import manifests
from gpufleet.localkube.access.api import Object
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.localkube.control_plane import Options
from gpufleet.localkube.node.agent_program import machine_file
from gpufleet.localkube.node.configuration import NODE_NAME
from gpufleet.localkube.node.images import BUSYBOX
from gpufleet.localkube.node.real_node import AGENT
from gpufleet.localkube.node_agent import await_resource, start_agent
from gpufleet.model.resource_names import NVIDIA_GPU
from tests.agent.nvidia_runtime import write_runtime
from tests.guides.entries import ENTRIES, Runs, Waits
from tests.guides.guide_files import apply, condition, explained, kubectl, objects, pods, running
from tests.localkube.cluster import KUBERNETES, all_programs, real_node_programs
from tests.localkube.real_node import await_end, await_pod, awaited, logs

CARDS = 2
WHOLE = f"gpus: [{{model: H100-80GB, count: {CARDS}}}]\n"
CUT = f"""
gpus:
- {{model: H100-80GB, count: {CARDS}}}
- model: A100-80GB
  mig: [{", ".join(f"{{profile: 1g.10gb, start: {start}}}" for start in range(7))}]
"""
REPORT = f"/apis/gpufleet.io/v1alpha1/nodedevices/{NODE_NAME}"
INSTANCE = "nvidia.com/mig-1g.10gb"
FOLLOWING = [f"--nvidia-config-map={namespace}/{name}" for namespace, name in NVIDIA_CONFIG_MAPS]
TELL = "echo devices $(cd /dev; ls -d nvidia[0-9]* 2> /dev/null); echo variable $NVIDIA_VISIBLE_DEVICES"
STAY = f"{TELL}; exec sleep 100000"
OWN_LABELS = ("accelerator=nvidia-a100", "gpu-memory=80Gi", "gpu-type=nvidia-a100", "node-type=gpu")
DIALECTS = (
    ("pod-tolerates-true.yaml", "taint-true", "nvidia.com/gpu=true:NoSchedule"),
    ("pod-tolerates-present.yaml", "taint-present", "nvidia.com/gpu=present:NoSchedule"),
    ("pod-tolerates-gpu.yaml", "taint-gpu", "gpu=true:NoSchedule"),
)
TRIED = {one.file: one for one in ENTRIES if one.real is not None}


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A cluster as `gpufleet up --real-node` makes it, with two GPUs."""
    real_node_programs()
    folder = tmp_path_factory.mktemp("guides")
    options = Options(kubernetes=KUBERNETES, real_node=True)
    programs = dict(all_programs(options))
    programs["runc"] = write_runtime(folder / "runc", programs["runc"])
    with LocalCluster.start(folder / "c", "c", programs, options, components=components()) as started:
        with started.api() as api:
            started.node.await_ready(api)
            manifests.install(api)
            manifests.install(api, manifests.USUAL_OBJECTS)
            manifests.manage_default_namespace(api)
        started.furnished()
        start_agent(started, WHOLE, FOLLOWING)
        await_resource(started, NVIDIA_GPU, CARDS)
        for component in components():
            started.await_component(component)
        yield started


def spec_of(one: Object) -> Object:
    """The pod of a manifest."""
    spec: Object = one["spec"] if one["kind"] == "Pod" else one["spec"]["template"]["spec"]
    return spec


def paste(cluster: LocalCluster, file: str, script: str = STAY) -> None:
    """Apply a file with a shell in place of its program; its probes, ports and variables stay."""
    pasted = objects(file)
    for one in pasted:
        if one["kind"] in {"Pod", "Deployment", "Job"}:
            (container,) = spec_of(one)["containers"]
            container |= {"image": BUSYBOX, "command": ["sh", "-c", script], "args": []}
            # A shell as process 1 does not listen to a polite request.
            spec_of(one)["terminationGracePeriodSeconds"] = 1
    given = "\n---\n".join(msgspec.json.encode(one).decode() for one in pasted)
    kubectl(cluster, "apply", "-f", "-", given=given)


def remove(cluster: LocalCluster, file: str) -> None:
    """Delete what a file holds, and wait for its pods to be gone."""
    entry = TRIED[file]
    assert isinstance(entry.real, Runs | Waits)
    beginning = entry.real.pod
    kubectl(cluster, "delete", "-f", "-", given=text_of(file))
    awaited("its pods are gone", lambda: not any(name.startswith(beginning) for name in pods(cluster)))


def text_of(file: str) -> str:
    """The objects of a file as kubectl reads them."""
    return "\n---\n".join(msgspec.json.encode(one).decode() for one in objects(file))


def seen(cluster: LocalCluster, pod: str) -> dict[str, list[str]]:
    """What a container told of the devices that it sees."""
    lines = awaited("it tells what it sees", lambda: told(cluster, pod))
    return {line.split()[0]: line.split()[1:] for line in lines}


def told(cluster: LocalCluster, pod: str) -> list[str]:
    """Both lines; none before."""
    lines = logs(cluster, pod).splitlines()
    return lines if len(lines) == 2 else []


@pytest.mark.parametrize("file", ["pod-one-gpu.yaml", "pod-runtime-class.yaml"])
def test_a_first_pod_sees_its_one_gpu_whatever_its_variables_say(real: LocalCluster, file: str) -> None:
    wanted = TRIED[file].real
    assert isinstance(wanted, Runs)
    paste(real, file, TELL)
    assert await_end(real, wanted.pod) == 0
    its = seen(real, wanted.pod)
    assert len(its["devices"]) == 1
    assert its["variable"] == ["void"]
    remove(real, file)


@pytest.mark.parametrize(("file", "pool", "taint"), DIALECTS, ids=[one[1] for one in DIALECTS])
def test_a_toleration_of_each_dialect_leads_to_the_tainted_node(
    real: LocalCluster, file: str, pool: str, taint: str
) -> None:
    wanted = TRIED[file].real
    assert isinstance(wanted, Runs)
    kubectl(real, "label", "node", NODE_NAME, f"pool={pool}", "--overwrite")
    kubectl(real, "taint", "node", NODE_NAME, taint)
    paste(real, file)
    await_pod(real, wanted.pod, "Running")
    remove(real, file)
    kubectl(real, "taint", "node", NODE_NAME, f"{taint}-")


def test_a_pod_without_the_toleration_waits_and_is_told_which(real: LocalCluster) -> None:
    kubectl(real, "label", "node", NODE_NAME, "pool=taint-gpu", "--overwrite")
    kubectl(real, "taint", "node", NODE_NAME, "gpu=true:NoSchedule")
    waits(real, "pod-without-toleration.yaml")
    kubectl(real, "taint", "node", NODE_NAME, "gpu=true:NoSchedule-")
    await_pod(real, "without-toleration", "Running")
    remove(real, "pod-without-toleration.yaml")


def waits(cluster: LocalCluster, file: str) -> None:
    """Paste a file whose pod waits, and hold what is said of it against the table."""
    wanted = TRIED[file].real
    assert isinstance(wanted, Waits)
    paste(cluster, file)
    awaited("it waits", lambda: condition(pods(cluster)[wanted.pod])[0] == "Unschedulable")
    answer = explained(cluster, wanted.pod)
    assert (answer.cause, answer.why) == (wanted.cause, wanted.why)
    assert answer.way_out[0] == wanted.way_out


def test_labels_of_ones_own_select_the_node(real: LocalCluster) -> None:
    kubectl(real, "label", "node", NODE_NAME, *OWN_LABELS)
    paste(real, "pod-by-label.yaml")
    await_pod(real, "by-label", "Running")
    remove(real, "pod-by-label.yaml")


def test_a_deployment_has_a_gpu_for_each_replica(real: LocalCluster) -> None:
    paste(real, "deployment-inference.yaml")
    awaited("both run", lambda: len(running(real, "llm-", NODE_NAME)) == 2)
    shown = [seen(real, name)["devices"] for name in running(real, "llm-", NODE_NAME)]
    assert len({device for devices in shown for device in devices}) == 2
    remove(real, "deployment-inference.yaml")


def test_two_gpus_advertise_eight_by_the_config_map_and_four_workers_share_one(real: LocalCluster) -> None:
    apply(real, "time-slicing.yaml", namespace="")
    await_resource(real, NVIDIA_GPU, 4 * CARDS)
    paste(real, "job-of-gpus.yaml")
    awaited("all run", lambda: len(running(real, "batch-inference-", NODE_NAME)) == 4)
    for name in running(real, "batch-inference-", NODE_NAME):
        assert len(seen(real, name)["devices"]) == 1
    drain = ("drain", NODE_NAME, "--ignore-daemonsets", "--delete-emptydir-data", "--force")
    kubectl(real, *drain, "--timeout=60s")
    awaited("none is left", lambda: not running(real, "batch-inference-", NODE_NAME))
    kubectl(real, "uncordon", NODE_NAME)
    kubectl(real, "delete", "job", "batch-inference", "--cascade=foreground")


def test_a_mig_pod_gets_an_instance_and_one_that_is_not_cut_waits(real: LocalCluster) -> None:
    """The last one: the node has a card more from here on, and offers its GPUs as they are.

    The configuration of time slices is there only where the test before this one ran on the same cluster.
    """
    kubectl(
        real, "delete", "configmap", "nvidia-device-plugin-config", "-n", "kube-system", "--ignore-not-found"
    )
    machine_file(real.folder).write_text(CUT, encoding="utf-8")
    real.node.restart(AGENT)
    await_resource(real, INSTANCE, 7)
    paste(real, "pod-mig.yaml")
    uid = await_pod(real, "mig-small", "Running")["metadata"]["uid"]

    def held() -> list[Object]:
        with real.api() as api:
            holders = api.call("GET", REPORT)["spec"].get("holders", [])
        return [one for one in holders if one["podUID"] == uid]

    (holder,) = awaited("its holder is reported", held)
    assert holder["migProfile"] == "1g.10gb"
    remove(real, "pod-mig.yaml")
    waits(real, "pod-mig-not-cut.yaml")
    remove(real, "pod-mig-not-cut.yaml")


def test_every_entry_with_an_outcome_on_a_real_node_is_tried_here() -> None:
    tried = {"pod-one-gpu.yaml", "pod-runtime-class.yaml", *(one[0] for one in DIALECTS)}
    tried |= {"pod-without-toleration.yaml", "pod-by-label.yaml", "pod-mig.yaml", "pod-mig-not-cut.yaml"}
    tried |= {"deployment-inference.yaml", "time-slicing.yaml", "job-of-gpus.yaml"}
    assert tried == set(TRIED)
