"""The chart on a real node, with the built image: a GPU pod comes, is measured, and goes.

kube-scheduler places the chart's own pods, as it does everywhere; the GPUs are simulated by the agent, and
all else is as on any node: kubelet, containerd, the image's Python, the token of a pod. Metrics and probes
are served over HTTPS, so each pod that becomes ready has answered the kubelet's probes over TLS.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpufleet.kube.resources import OWN_KINDS
from gpufleet.localkube.access.api import Object
from gpufleet.localkube.access.certificates import Identity
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.localkube.control_plane import Options
from gpufleet.overview.readings.agent_pages import FRESH_S
from tests.chart import https_metrics
from tests.chart.helm_in_cluster import in_cluster, kept, of_release
from tests.chart.page_of_chart import forwarded, person
from tests.chart.rendering import CHART, NAMESPACE, RELEASE, as_options
from tests.chart.served_metrics import registered, used_ratio
from tests.conventions.project import ROOT
from tests.image.built import DIGEST, image
from tests.localkube.cluster import KUBERNETES, a_cluster, program
from tests.localkube.real_node import await_pod, awaited, delete_pod, logs, run_pod
from tests.usage.prometheus.server import prometheus
from tests.web.people import MEMBER, READER, STRANGER, account, bind, token

MACHINE = "gpus:\n- {model: H100-80GB, count: 4, numaNodes: 2}\n"
SHARING = """\
version: gpufleet.io/v1alpha1
pools:
  default:
  - {gpus: [3], fractions: {maxShares: 10}}
"""
SHARING_MAP = f"/api/v1/namespaces/{NAMESPACE}/configmaps/gpufleet-sharing"
VALUES: dict[str, object] = {
    "image.pullPolicy": "Never",
    "agent.simulatedMachine": MACHINE,
    "agent.sharing.configs": {"default": SHARING},
    "metrics.tls.secretName": https_metrics.CERTIFICATE_IN,
    "web.enabled": True,
    "metricsApis.enabled": True,
}
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
DEVICES = "/apis/gpufleet.io/v1alpha1/nodedevices"
SECRETS = f"/api/v1/namespaces/{NAMESPACE}/secrets"
TO_PODS = {"kube-apiserver": ("--enable-aggregator-routing=true",)}
"""The API server asks the pods of a Service itself: no kube-proxy is here."""
USERS_PODS = "/api/v1/namespaces/default/pods"
STAY = "exec sleep 100000"
BY_US = {"nodeName": "", "schedulerName": "gpufleet"}
COMPONENTS = ("scheduler", "agent", "web", "metrics-apis")
RENEWED_WAIT_S = 240.0
"""The kubelet writes a changed Secret into a pod when it looks at the pod next: within two minutes."""
# Two schedulers load their kernels, an agent starts, all on a machine that does other things too.
READY_WAIT_S = 240.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A real node with the image on it, and the chart installed by helm."""
    archive = image()
    folder = tmp_path_factory.mktemp("chart")
    options = Options(kubernetes=KUBERNETES, flags=TO_PODS)
    with a_cluster(folder, "chart", options, real_node=True) as running:
        running.node.import_images(archive)
        scheduler = running.start_kube_scheduler(program("kube-scheduler"))
        with running.api() as api:
            api.call("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
            api.call("POST", SECRETS, https_metrics.secret(https_metrics.certificate()))
        try:
            in_cluster(
                running, "install", RELEASE, CHART, "--create-namespace", *as_options(values_in(folder))
            )
            yield running
        finally:
            scheduler.stop()


def values_in(folder: Path) -> dict[str, object]:
    """The values of each release here.

    What an agent of an earlier cluster of this machine left behind is of pods that this one does not know,
    and an upgrade without the folder would go back to the one that all machines have.
    """
    digest = DIGEST.read_text(encoding="utf-8").strip()
    return {**VALUES, "image.digest": digest, "agent.stateFolder": str(folder / "state")}


def component(cluster: LocalCluster, name: str) -> list[Object]:
    """The pods of one component."""
    with cluster.api() as api:
        found: list[Object] = api.call("GET", f"{PODS}?labelSelector=app.kubernetes.io/component={name}")[
            "items"
        ]
    return found


def ready(pod: Object) -> bool:
    conditions = pod["status"].get("conditions", [])
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def state(cluster: LocalCluster) -> str:
    """What each pod of the release says of itself, for a test that fails."""
    lines = []
    for name in COMPONENTS:
        for pod in component(cluster, name):
            own = pod["metadata"]["name"]
            with cluster.api() as api:
                _, log = api.request("GET", f"{PODS}/{own}/log?tailLines=40")
            lines.append(f"{own}: {pod['status']}\n{log.decode(errors='replace')}")
    return "\n".join(lines)


def all_ready(cluster: LocalCluster, name: str, count: int) -> None:
    """Return when so many pods of a component are ready."""
    awaited(
        f"{count} of {name} ready",
        lambda: sum(map(ready, component(cluster, name))) == count,
        lambda: state(cluster),
        READY_WAIT_S,
    )


@pytest.fixture(scope="module")
def at_work(cluster: LocalCluster) -> LocalCluster:
    """The same, when every pod of the release is ready."""
    all_ready(cluster, "scheduler", 2)
    all_ready(cluster, "agent", 1)
    all_ready(cluster, "metrics-apis", 2)
    return cluster


def test_the_release_finds_itself_at_work(at_work: LocalCluster) -> None:
    try:
        said = in_cluster(at_work, "test", RELEASE, "--logs", "--timeout=3m")
    except AssertionError as failed:
        raise AssertionError(f"{failed}\n{state(at_work)}") from failed
    for sentence in (
        "a pod that names its own devices is refused",
        "leads",
        "1 of 1 agent is ready",
        "1 node reports 4 GPUs",
    ):
        assert sentence in said, said


def series(cluster: LocalCluster) -> list[str]:
    """What the agent tells Prometheus."""
    (agent,) = component(cluster, "agent")
    lines = https_metrics.page(agent["status"]["podIP"], "agent").splitlines()
    return [line for line in lines if not line.startswith("#")]


def lives(cluster: LocalCluster) -> set[tuple[str, int]]:
    """Each container of the release, and how often it was started again."""
    return {
        (one["containerID"], one["restartCount"])
        for name in https_metrics.PORTS
        for pod in component(cluster, name)
        for one in pod["status"]["containerStatuses"]
        if ready(pod)
    }


def renew(cluster: LocalCluster, identity: Identity) -> None:
    """Replace the certificate in its Secret, and have the kubelet look at once at each pod that mounts it."""
    merge = "application/merge-patch+json"
    with cluster.api() as api:
        body = {"data": https_metrics.secret(identity)["data"]}
        api.call("PATCH", f"{SECRETS}/{https_metrics.CERTIFICATE_IN}", body, content_type=merge)
        for pod in (one for name in https_metrics.PORTS for one in component(cluster, name)):
            changed = {"metadata": {"annotations": {"example.com/look-at-this": "now"}}}
            api.call("PATCH", f"{PODS}/{pod['metadata']['name']}", changed, content_type=merge)


def test_prometheus_scrapes_over_https_and_goes_on_when_the_certificate_is_renewed(
    at_work: LocalCluster, tmp_path: Path
) -> None:
    before, renewed = lives(at_work), https_metrics.certificate()
    assert len(before) == 3
    pods = {
        name: [one["status"]["podIP"] for one in component(at_work, name)] for name in https_metrics.PORTS
    }
    with prometheus(tmp_path, None, https_metrics.scraping(pods, tmp_path)) as address:

        def succeeded() -> dict[str, list[float]]:
            return https_metrics.answer(address, https_metrics.SUCCEEDED)

        all_up = {"scheduler": [1.0, 1.0], "agent": [1.0]}
        awaited("it scrapes all", lambda: https_metrics.answer(address, "up") == all_up)
        renew(at_work, renewed)
        wanted = {renewed.certificate.decode()}
        awaited(
            "the new one",
            lambda: set(https_metrics.shown(pods)) == wanted,
            lambda: state(at_work),
            RENEWED_WAIT_S,
        )
        so_far = succeeded()
        awaited("more scrapes", lambda: all(now > so_far[job] for job, now in succeeded().items()))
    assert lives(at_work) == before


def test_a_gpu_pod_is_placed_started_measured_and_gone(at_work: LocalCluster) -> None:
    script = "echo $NVIDIA_VISIBLE_DEVICES; exec sleep 100000"
    limits = {"limits": {"nvidia.com/gpu": "1"}}
    run_pod(at_work, "train", script, limits, nodeName="", schedulerName="gpufleet")
    pod = await_pod(at_work, "train", "Running")
    assert pod["spec"]["nodeName"] == at_work.node.name
    granted = pod["metadata"]["annotations"]["gpufleet.io/grant"]
    (held,) = awaited("who holds it", lambda: holders(at_work))
    assert held["podUID"] == pod["metadata"]["uid"]
    assert held["device"] in granted
    awaited(
        "its series", lambda: measured(at_work, held["device"], "train"), lambda: "\n".join(series(at_work))
    )
    awaited("what it printed", lambda: logs(at_work, "train"))
    delete_pod(at_work, "train")
    awaited("nobody holds it", lambda: not holders(at_work))


def holders(cluster: LocalCluster) -> list[Object]:
    """Who holds a device of the node, as its agent reports."""
    with cluster.api() as api:
        found: list[Object] = api.call("GET", f"{DEVICES}/{cluster.node.name}")["spec"].get("holders", [])
    return found


def measured(cluster: LocalCluster, device: str, pod: str) -> bool:
    """Whether the device's utilisation is told under the pod's name."""
    return any(
        line.startswith("DCGM_FI_DEV_GPU_UTIL{") and f'UUID="{device}"' in line and f'pod="{pod}"' in line
        for line in series(cluster)
    )


def test_one_of_two_servers_of_metrics_goes_on_when_the_other_is_killed(at_work: LocalCluster) -> None:
    """An autoscaler gets the use of a pod's GPU from its node's agent, whichever server is asked."""
    busy = {"labels": {"gpufleet.io/simulated-busy-percent": "40"}, **BY_US}
    run_pod(at_work, "scaled", STAY, {"limits": {"nvidia.com/gpu": "1"}}, **busy)
    told = (200, "400m")
    awaited("its use", lambda: used_ratio(at_work, "scaled") == told, lambda: state(at_work))
    before = registered(at_work)
    assert len(before) == 3
    first, second = component(at_work, "metrics-apis")
    with at_work.api() as api:
        api.call("DELETE", f"{PODS}/{first['metadata']['name']}?gracePeriodSeconds=0")

    def others() -> list[Object]:
        pods = component(at_work, "metrics-apis")
        return [one for one in pods if one["metadata"]["uid"] != first["metadata"]["uid"] and ready(one)]

    answers: list[tuple[int, str]] = []
    while len(others()) == 1 and told not in answers:
        answers.append(used_ratio(at_work, "scaled"))
    assert told in answers, answers
    awaited("two again", lambda: len(others()) == 2, lambda: state(at_work), READY_WAIT_S)
    assert second["metadata"]["uid"] in {one["metadata"]["uid"] for one in others()}
    awaited("both answer", lambda: {used_ratio(at_work, "scaled") for _ in range(20)} == {told})
    assert registered(at_work) == before
    delete_pod(at_work, "scaled")


def test_no_kernel_was_compiled_in_the_cluster(at_work: LocalCluster) -> None:
    """All that numba found are links into the image; what it had to compile would be a file."""
    for pod in component(at_work, "scheduler"):
        volumes = f"/var/lib/kubelet/pods/{pod['metadata']['uid']}/volumes/kubernetes.io~empty-dir"
        kernels = list(at_work.node.path(f"{volumes}/kernels").rglob("*.nb[ic]"))
        assert len(kernels) > 50
        assert [path.name for path in kernels if not path.is_symlink()] == []


def test_an_agent_in_a_pod_writes_of_its_own_node(at_work: LocalCluster) -> None:
    """The policy knows the node from the pod's token, which no test made."""
    name = at_work.node.name

    def told() -> bool:
        with at_work.api() as api:
            node = api.call("GET", f"/api/v1/nodes/{name}")
        conditions = {one["type"]: one["status"] for one in node["status"]["conditions"]}
        labels = node["metadata"]["labels"]
        return conditions.get("gpufleet.io/GPUHealthy") == "True" and "nvidia.com/gpu.product" in labels

    awaited("condition and labels", told, lambda: state(at_work))
    with at_work.api() as api:
        names = [one["metadata"]["name"] for one in api.call("GET", DEVICES)["items"]]
    assert names == [name]


def test_three_people_see_through_its_service_what_each_may_see(at_work: LocalCluster) -> None:
    """The page in a pod asks with the chart's own rights who they are and what they may list."""
    all_ready(at_work, "web", 1)
    run_pod(at_work, "seen", STAY, {"limits": {"nvidia.com/gpu": "1"}}, **BY_US)
    await_pod(at_work, "seen", "Running")
    with at_work.api() as api:
        for name in (READER, MEMBER, STRANGER):
            account(api, name)
        bind(api, READER, "gpufleet-explain")
        bind(api, MEMBER, "view", "default")
        tokens = {name: token(api, name) for name in (READER, MEMBER, STRANGER)}
    try:
        with forwarded(at_work) as port:
            people = {name: person(port, one) for name, one in tokens.items()}
            about = {name: one.get("/api/about") for name, one in people.items()}
            node = people[READER].get(f"/api/node/{at_work.node.name}")
            work = {name: one.ask("/api/work/pod/default/seen").status for name, one in people.items()}
            refused = person(port, tokens[STRANGER]).ask(f"/api/node/{at_work.node.name}").status
    finally:
        delete_pod(at_work, "seen")
    assert about[READER]["user"] == f"system:serviceaccount:default:{READER}"
    assert "namespaces" not in about[READER]
    assert (about[MEMBER]["namespaces"], about[STRANGER]["namespaces"]) == (["default"], [])
    assert work == {READER: 200, MEMBER: 200, STRANGER: 404}
    assert refused == 404
    # Use comes from the agent's page, which the page may read in its own namespace.
    (held,) = (card for card in node["row"]["cards"] if card.get("holders"))
    assert held["holders"][0]["name"] == "seen"
    (use,) = (one for one in node["use"] if one["id"] == held["id"])
    assert use["memory_bytes"] > 0
    assert use["age_s"] < FRESH_S


def sharing(sliced: str) -> str:
    """The same, and one more card in turns of four."""
    return SHARING + f"  - gpus: [{sliced}]\n    timeSlice: {{replicas: 4, renameByDefault: true}}\n"


def given(cluster: LocalCluster) -> dict[str, tuple[object, ...]]:
    """Of each pod that users run: which container it is, how often it began, and what it holds."""
    found: dict[str, tuple[object, ...]] = {}
    with cluster.api() as api:
        pods = api.call("GET", USERS_PODS)["items"]
    for pod in pods:
        (container,) = pod["status"]["containerStatuses"]
        held = sorted(
            one["device"] for one in holders(cluster) if one.get("podUID") == pod["metadata"]["uid"]
        )
        found[pod["metadata"]["name"]] = (container["containerID"], container["restartCount"], held)
    return found


def offered(cluster: LocalCluster) -> dict[str, str]:
    """What the node has to give of GPUs."""
    with cluster.api() as api:
        node = api.call("GET", f"/api/v1/nodes/{cluster.node.name}")
    found: dict[str, str] = node["status"]["allocatable"]
    # The kubelet remembers for minutes what somebody offered before, as none.
    return {name: amount for name, amount in found.items() if "gpu" in name and amount != "0"}


def offers(cluster: LocalCluster, **wanted: int) -> None:
    """Return when that is so: ``whole`` cards, ``turns`` and ``slots`` for parts."""
    names = {"whole": "nvidia.com/gpu", "turns": "nvidia.com/gpu.shared", "slots": "gpufleet.io/gpu-share"}
    expected = {names[name]: str(amount) for name, amount in wanted.items()}
    awaited(f"it offers {expected}", lambda: offered(cluster) == expected, lambda: state(cluster))


@pytest.fixture(scope="module")
def in_use(at_work: LocalCluster) -> LocalCluster:
    """The same with a pod on a whole GPU, and one on a part of another."""
    run_pod(at_work, "whole", STAY, {"limits": {"nvidia.com/gpu": "1"}}, **BY_US)
    part = {"annotations": {"gpufleet.io/gpu-fraction": "0.5"}, **BY_US}
    run_pod(at_work, "part", STAY, {"limits": {"gpufleet.io/gpu-share": "1"}}, **part)
    for name in ("whole", "part"):
        await_pod(at_work, name, "Running")
    awaited("both hold theirs", lambda: len(holders(at_work)) == 2)
    return at_work


def test_an_upgrade_replaces_the_agent_and_leaves_running_pods_their_devices(in_use: LocalCluster) -> None:
    before = given(in_use)
    schedulers = {one["metadata"]["uid"] for one in component(in_use, "scheduler")}
    (agent,) = component(in_use, "agent")
    with in_use.api() as api:
        devices = api.call("GET", f"{DEVICES}/{in_use.node.name}")["spec"]["devices"]
    busy = {one["device"] for one in holders(in_use)}
    free = next(one["id"] for one in devices if one["id"] not in busy)
    values = {
        **values_in(in_use.folder.parent),
        "agent.sharing.configs": {"default": sharing(free)},
        "agent.sharing.readFrom": "api",
        "agent.extraArgs": ["--sample-every-s=5"],
    }
    in_cluster(in_use, "upgrade", RELEASE, CHART, *as_options(values))

    def replaced() -> bool:
        pods = component(in_use, "agent")
        return len(pods) == 1 and pods[0]["metadata"]["uid"] != agent["metadata"]["uid"] and ready(pods[0])

    awaited("another agent", replaced, lambda: state(in_use), READY_WAIT_S)
    offers(in_use, whole=2, turns=4, slots=10)
    (agent,) = component(in_use, "agent")
    assert "--sample-every-s=5" in agent["spec"]["containers"][0]["args"]
    assert {one["metadata"]["uid"] for one in component(in_use, "scheduler")} == schedulers
    assert given(in_use) == before
    assert of_release(in_use) == kept(in_cluster(in_use, "get", "manifest", RELEASE))


def test_an_edit_of_the_sharing_config_counts_without_another_agent(in_use: LocalCluster) -> None:
    """The right to read it is the chart's own, and it is enough."""
    before, (agent,) = given(in_use), component(in_use, "agent")
    with in_use.api() as api:
        patch = {"data": {"default": SHARING}}
        api.call("PATCH", SHARING_MAP, patch, content_type="application/merge-patch+json")
    offers(in_use, whole=3, slots=10)
    (now,) = component(in_use, "agent")
    assert now["metadata"]["uid"] == agent["metadata"]["uid"]
    assert now["status"]["containerStatuses"][0]["restartCount"] == 0
    assert given(in_use) == before


def test_an_uninstall_leaves_running_pods_and_the_definitions_and_nothing_on_nodes(
    in_use: LocalCluster,
) -> None:
    """Last, because it takes everything else away."""
    before = given(in_use)
    assert written(in_use) > {"labels", "condition"}
    in_cluster(in_use, "uninstall", RELEASE)
    assert written(in_use) == {"NodeDevices"}
    awaited("no pods", lambda: not [pod for name in COMPONENTS for pod in component(in_use, name)])
    only = {("CustomResourceDefinition", f"{kind.plural}.gpufleet.io") for kind in OWN_KINDS}
    awaited(
        "nothing but the definitions", lambda: of_release(in_use) == only, lambda: str(of_release(in_use))
    )
    assert given(in_use) == before


def written(cluster: LocalCluster) -> set[str]:
    """What agents wrote that is there."""
    with cluster.api() as api:
        node = api.call("GET", f"/api/v1/nodes/{cluster.node.name}")
        reports, _ = api.request("GET", f"{DEVICES}/{cluster.node.name}")
    metadata, conditions = node["metadata"], node["status"]["conditions"]
    found = {
        "labels": any(name.startswith(("nvidia.com/", "gpufleet.io/")) for name in metadata["labels"]),
        "condition": any(one["type"].startswith("gpufleet.io/") for one in conditions),
        "annotations": any(name.startswith("gpufleet.io/") for name in metadata.get("annotations", {})),
        "taints": any(one["key"].startswith("gpufleet.io/") for one in node["spec"].get("taints", ())),
        "NodeDevices": reports == 200,
    }
    return {name for name, there in found.items() if there}


def test_what_an_uninstall_leaves_goes_with_the_command_of_the_page(in_use: LocalCluster) -> None:
    """Typed as it stands there, into a shell; what others wrote stays."""
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8").partition("For good, they go with")[2]
    (command,) = re.findall(r"^\$ (.*)$", page, flags=re.MULTILINE)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {"PATH": path, "KUBECONFIG": str(in_use.kubeconfig), "HOME": str(in_use.folder)}
    with in_use.api() as api:
        labels = api.call("GET", f"/api/v1/nodes/{in_use.node.name}")["metadata"]["labels"]
    done = subprocess.run(
        ["/bin/bash", "-c", command], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"$ {command}\n{done.stdout}{done.stderr}"
    assert written(in_use) == set()
    with in_use.api() as api:
        left = api.call("GET", f"/api/v1/nodes/{in_use.node.name}")["metadata"]["labels"]
    assert left == labels
