"""Claims on a real kubelet, containerd and kube-scheduler: a pod sees the devices of its claim and no others.

The classes and claims are as users of NVIDIA's driver write them. Half of the node's simulated cards go to
claims, the others to the device plugin; both are cut on demand.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from gpufleet.devices.simulated.description import read_description
from gpufleet.devices.simulated.machine import Machine
from gpufleet.explain.command import Question, answer_of
from gpufleet.kube.connection import ClusterChoice
from gpufleet.localkube import manifests
from gpufleet.localkube.access.api import Object
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.localkube.control_plane import Options
from gpufleet.localkube.node.agent_program import NAME, agent_folder
from gpufleet.localkube.node.configuration import NODE_NAME
from gpufleet.localkube.node.real_node import AGENT
from gpufleet.localkube.node_agent import SHARING, SYSTEM, await_resource, start_agent
from gpufleet.localkube.processes import plan
from gpufleet.mig.wanted import LAYOUTS_ANNOTATION, STATES_ANNOTATION
from tests.agent.dra.claims import CLASSES
from tests.agent.dra.old_registration import registered_as
from tests.localkube.cluster import KUBERNETES, a_cluster
from tests.localkube.real_node import (
    PODS,
    a_pod,
    await_end,
    awaited,
    delete_pod,
    get_pod,
    logs,
    run_pod,
)
from tests.scheduler.real_scheduler import scheduler_at_work

GPU = "nvidia.com/gpu"
MACHINE = "gpus: [{model: H100-80GB, count: 4}]\n"
RESOURCES = "/apis/resource.k8s.io/v1"
CLAIMS = f"{RESOURCES}/namespaces/default/resourceclaims"
SEE = "echo devices $(cd /dev; ls -d nvidia[0-9]* 2> /dev/null); echo variable $NVIDIA_VISIBLE_DEVICES; "
INSTANCE = SEE.replace("2> /dev/null", "; ls nvidia-caps")
SLEEP = "exec sleep 100000"
BY_KUBERNETES: Object = {
    "nodeName": "",
    "schedulerName": "default-scheduler",
    "nodeSelector": {"type": "real"},
}


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A cluster with a real node, whose agent gives cards 2 and 3 to claims."""
    options = Options(kubernetes=KUBERNETES, kube_scheduler=True)
    with a_cluster(tmp_path_factory.mktemp("dra"), "d", options, real_node=True) as running:
        with running.api() as api:
            manifests.install(api)
            for name, expression in CLASSES.items():
                spec = {"selectors": [{"cel": {"expression": expression}}]}
                api.call("POST", f"{RESOURCES}/deviceclasses", {"metadata": {"name": name}, "spec": spec})
        running.furnished()
        # Without a configuration of sharing cards are offered as they are.
        unshared = f"--nvidia-config-map={SYSTEM}/{SHARING}"
        start_agent(running, MACHINE, ("--dra-cards=2,3", "--dra-mig-on-demand", "--mig-layouts", unshared))
        await_resource(running, GPU, 2)
        awaited("the slices", lambda: offered(running) == ["gpu-2", "gpu-3"], lambda: agent_log(running))
        yield running


def agent_log(cluster: LocalCluster) -> str:
    """The end of what the agent says."""
    log = cluster.folder / plan.LOGS / f"{NAME}.log"
    return log.read_text(encoding="utf-8")[-3000:]


def offered(cluster: LocalCluster) -> list[str]:
    """The whole cards of the node's slices without taints."""
    with cluster.api() as api:
        found = api.call("GET", f"{RESOURCES}/resourceslices")
    return [
        device["name"]
        for one in found["items"]
        if one["spec"].get("nodeName") == NODE_NAME
        for device in one["spec"].get("devices") or ()
        if not device.get("taints") and "-mig-" not in device["name"]
    ]


def make_claim(cluster: LocalCluster, name: str, count: int = 1, **more: Any) -> str:
    """A claim of so many cards; its UID."""
    return create_claim(cluster, name, {"deviceClassName": "gpu.nvidia.com", "count": count}, **more)


def make_mig_claim(cluster: LocalCluster, name: str, profile: str) -> str:
    """A claim of an instance, as NVIDIA's examples write it; its UID."""
    expression = f"device.attributes['gpu.nvidia.com'].profile == '{profile}'"
    exactly = {"deviceClassName": "mig.nvidia.com", "selectors": [{"cel": {"expression": expression}}]}
    return create_claim(cluster, name, exactly)


def create_claim(cluster: LocalCluster, name: str, exactly: Object, **more: Any) -> str:
    """A claim of one request; its UID."""
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": exactly}], **more}}
    with cluster.api() as api:
        made = api.call("POST", CLAIMS, {"metadata": {"name": name}, "spec": spec})
    return str(made["metadata"]["uid"])


def delete_claim(cluster: LocalCluster, name: str) -> None:
    """Delete a claim and wait until it is gone, its devices free."""
    with cluster.api() as api:
        api.call("DELETE", f"{CLAIMS}/{name}")

    def is_gone() -> bool:
        with cluster.api() as api:
            return api.request("GET", f"{CLAIMS}/{name}")[0] == 404

    awaited(f"the end of claim {name}", is_gone)


def pod_with_claim(name: str, claim: str, script: str, containers: int = 1) -> Object:
    """A pod whose containers all use one claim."""
    pod = a_pod(name, script, **BY_KUBERNETES)
    pod["spec"]["resourceClaims"] = [{"name": "cards", "resourceClaimName": claim}]
    (first,) = pod["spec"]["containers"]
    first["resources"] = {"claims": [{"name": "cards"}]}
    pod["spec"]["containers"] = [{**first, "name": f"main-{number}"} for number in range(containers)]
    return pod


def start(cluster: LocalCluster, pod: Object) -> None:
    with cluster.api() as api:
        api.call("POST", PODS, pod)


def seen(cluster: LocalCluster, name: str, container: str = "main-0") -> list[str]:
    """The cards that a container sees; it is void for NVIDIA's runtime."""
    path = f"{PODS}/{name}/log?container={container}"

    def lines() -> list[str]:
        with cluster.api() as api:
            status, body = api.request("GET", path)
        found = body.decode().splitlines() if status == 200 else []
        return found if len(found) == 2 else []

    devices, variable = awaited(f"the words of {name}", lines, lambda: story(cluster, name))
    assert variable == "variable void"
    return devices.split()[1:]


def story(cluster: LocalCluster, name: str) -> str:
    """What is known of a pod that does not come so far."""
    with cluster.api() as api:
        events = api.call(
            "GET", f"/api/v1/namespaces/default/events?fieldSelector=involvedObject.name={name}"
        )
    told = [(one["message"], one.get("count"), one.get("lastTimestamp")) for one in events["items"]]
    log = (cluster.folder / plan.LOGS / "kubelet.log").read_text(encoding="utf-8").splitlines()
    about = [line for line in log if "plugin" in line.lower() or "DRA" in line]
    return "\n".join([str(told), agent_log(cluster), *about[-25:]])


def prepared(cluster: LocalCluster) -> list[str]:
    """The UIDs of the prepared claims, as the agent keeps them on the disk."""
    folder = agent_folder(cluster.folder) / "claims"
    return sorted(path.name.partition(".")[0] for path in folder.glob("*.json"))


@contextmanager
def registered_anew(cluster: LocalCluster) -> Iterator[None]:
    """A block after which the kubelet knows the driver again.

    A claim that comes meanwhile is tried again by the kubelet only after a minute or more.
    """
    log = cluster.folder / plan.LOGS / f"{NAME}.log"

    def answers() -> int:
        return log.read_text(encoding="utf-8").count("the kubelet answered the registration")

    before = answers()
    yield
    awaited("another registration", lambda: answers() > before, lambda: agent_log(cluster))


def test_a_pod_sees_the_card_of_its_claim_and_the_claims_end_takes_it_back(real: LocalCluster) -> None:
    uid = make_claim(real, "one")
    start(real, pod_with_claim("alone", "one", SEE + SLEEP))
    (card,) = seen(real, "alone")
    assert card in {"nvidia2", "nvidia3"}
    assert prepared(real) == [uid]
    files = real.node.cdi_dir.glob(f"*{uid}*")
    assert len(list(files)) == 1
    delete_pod(real, "alone")
    awaited("the claim to be taken back", lambda: prepared(real) == [])
    assert not list(real.node.cdi_dir.glob(f"*{uid}*"))
    delete_claim(real, "one")


def test_two_containers_and_one_that_comes_first_share_a_claim_of_two_cards(real: LocalCluster) -> None:
    make_claim(real, "pair", 2)
    pod = pod_with_claim("twins", "pair", SEE + SLEEP, containers=2)
    (first, _) = pod["spec"]["containers"]
    pod["spec"]["initContainers"] = [{**first, "name": "before", "command": ["sh", "-c", SEE]}]
    start(real, pod)
    for container in ("before", "main-0", "main-1"):
        assert seen(real, "twins", container) == ["nvidia2", "nvidia3"]
    delete_pod(real, "twins")
    delete_claim(real, "pair")


def test_two_pods_share_a_claim_across_restarts_of_agent_and_kubelet(real: LocalCluster) -> None:
    uid = make_claim(real, "shared")
    start(real, pod_with_claim("first", "shared", SEE + SLEEP))
    card = seen(real, "first")
    (record,) = (agent_folder(real.folder) / "claims").glob(f"{uid}*.json")
    whole = record.read_text(encoding="utf-8")
    # What the agent knows of the claim is lost: the kubelet does not have it prepared a second time.
    record.write_text("{}", encoding="utf-8")
    with registered_anew(real):
        real.node.restart(AGENT)
    awaited(
        "the claim to be found again",
        lambda: record.exists() and record.read_text(encoding="utf-8") == whole,
        lambda: agent_log(real),
    )
    start(real, pod_with_claim("second", "shared", SEE + SLEEP))
    assert seen(real, "second") == card
    with registered_anew(real):
        real.node.restart_kubelet()
    awaited("the slices", lambda: offered(real) == ["gpu-2", "gpu-3"], lambda: agent_log(real))
    delete_pod(real, "first")
    assert prepared(real) == [uid]
    start(real, pod_with_claim("third", "shared", SEE + SLEEP))
    assert seen(real, "third") == card
    delete_pod(real, "second")
    delete_pod(real, "third")
    awaited("the claim to be taken back", lambda: prepared(real) == [])
    delete_claim(real, "shared")


def test_gpufleets_scheduler_gives_a_pod_the_card_that_kubernetes_own_has_left(real: LocalCluster) -> None:
    make_claim(real, "theirs")
    start(real, pod_with_claim("beside", "theirs", SEE + SLEEP))
    theirs = seen(real, "beside")
    make_claim(real, "ours")
    pod = pod_with_claim("mine", "ours", SEE + SLEEP)
    pod["spec"]["schedulerName"] = "gpufleet"
    with scheduler_at_work(real):
        start(real, pod)
        ours = seen(real, "mine")
    assert sorted(theirs + ours) == ["nvidia2", "nvidia3"]
    for name, claim in (("beside", "theirs"), ("mine", "ours")):
        delete_pod(real, name)
        delete_claim(real, claim)


def test_what_explain_calls_the_way_out_lets_kubernetes_place_the_pod(real: LocalCluster) -> None:
    make_claim(real, "both", 2)
    start(real, pod_with_claim("holder", "both", SEE + SLEEP))
    seen(real, "holder")
    make_claim(real, "late")
    start(real, pod_with_claim("waiter", "late", SEE + SLEEP))
    awaited("the scheduler's refusal", lambda: "cannot allocate all claims" in events_of(real, "waiter"))
    answer = answer_of(Question("waiter", ClusterChoice(real.kubeconfig, "", "default")))
    gives = "when claim default/both (in use by holder) gives back its devices"
    assert answer.way_out[0] == f"{NODE_NAME} has the devices for it {gives}"
    assert "2 are held by other claims" in answer.why
    delete_pod(real, "holder")
    delete_claim(real, "both")
    assert seen(real, "waiter")
    delete_pod(real, "waiter")
    delete_claim(real, "late")


def test_the_device_plugin_has_the_other_cards(real: LocalCluster) -> None:
    run_pod(real, "plain", SEE, {"limits": {GPU: "2"}})
    assert await_end(real, "plain") == 0
    assert logs(real, "plain").splitlines()[0] == "devices nvidia0 nvidia1"
    delete_pod(real, "plain")


def test_sharing_that_cannot_be_had_is_refused_in_the_pods_events(real: LocalCluster) -> None:
    parameters = {
        "apiVersion": "resource.nvidia.com/v1beta1",
        "kind": "GpuConfig",
        "sharing": {"strategy": "MPS", "mpsConfig": {"defaultActiveThreadPercentage": 50}},
    }
    config = [{"requests": ["gpu"], "opaque": {"driver": "gpu.nvidia.com", "parameters": parameters}}]
    make_claim(real, "by-mps", config=config)
    start(real, pod_with_claim("refused", "by-mps", SEE))
    awaited("the refusal", lambda: "sharing.strategy" in events_of(real, "refused"))
    delete_pod(real, "refused")
    delete_claim(real, "by-mps")


def events_of(cluster: LocalCluster, name: str) -> str:
    with cluster.api() as api:
        events = api.call(
            "GET", f"/api/v1/namespaces/default/events?fieldSelector=involvedObject.name={name}"
        )
    return " ".join(str(one["message"]) for one in events["items"])


def test_the_health_of_its_devices_is_in_a_pods_status(real: LocalCluster) -> None:
    make_claim(real, "watched")
    start(real, pod_with_claim("patient", "watched", SEE + SLEEP))
    seen(real, "patient")

    def health() -> list[str]:
        pod = get_pod(real, "patient") or {"status": {}}
        found = pod["status"].get("containerStatuses", [])
        resources = [one for each in found for one in each.get("allocatedResourcesStatus", [])]
        return [one["health"] for each in resources for one in each.get("resources", [])]

    awaited("its health", lambda: health() == ["Healthy"], lambda: str(get_pod(real, "patient")))
    delete_pod(real, "patient")
    delete_claim(real, "watched")


def test_a_card_is_cut_for_claims_and_is_whole_again(real: LocalCluster) -> None:
    make_mig_claim(real, "small", "2g.20gb")
    start(real, pod_with_claim("slice", "small", INSTANCE + SLEEP))
    # Card 2 with its first GPU instance: 3 + 2 * 135 + 9, by the kernel's list of capabilities.
    made = "made for claim default/small: gpu-2-mig-2g20gb-14-"
    awaited("the word of its making", lambda: made in events_of(real, "slice"), lambda: agent_log(real))
    instance = ["nvidia2", "nvidia-cap282", "nvidia-cap283"]
    assert seen(real, "slice") == instance
    with registered_anew(real):
        # The simulated machine begins anew with its agent, so this is a reset of the cards too.
        real.node.restart(AGENT)
    start(real, pod_with_claim("again", "small", INSTANCE + SLEEP))
    assert seen(real, "again") == instance
    make_mig_claim(real, "large", "3g.40gb")
    pod = pod_with_claim("beside", "large", INSTANCE + SLEEP)
    pod["spec"]["schedulerName"] = "gpufleet"
    with scheduler_at_work(real):
        start(real, pod)
        assert seen(real, "beside") == ["nvidia2", "nvidia-cap291", "nvidia-cap292"]
    for name in ("slice", "again", "beside"):
        delete_pod(real, name)
    awaited("the claims to be taken back", lambda: prepared(real) == [], lambda: agent_log(real))
    for claim in ("small", "large"):
        delete_claim(real, claim)
    make_claim(real, "whole", 2)
    start(real, pod_with_claim("both", "whole", SEE + SLEEP))
    assert seen(real, "both") == ["nvidia2", "nvidia3"]
    delete_pod(real, "both")
    delete_claim(real, "whole")


def test_cards_of_the_device_plugin_are_cut_beside_and_those_of_claims_are_not(real: LocalCluster) -> None:
    cards = [card_of(number) for number in (0, 2)]
    want(real, {card: ["3g.40gb@4"] for card in cards})
    await_resource(real, "nvidia.com/mig-3g.40gb", 1)
    awaited("what the agent says", lambda: layout_states(real)[cards[0]] == "success")
    assert layout_states(real)[cards[1]] == "failed: the card goes to claims (--dra-cards)"
    assert offered(real) == ["gpu-2", "gpu-3"]
    want(real, {cards[0]: None})
    await_resource(real, GPU, 2)


def card_of(number: int) -> str:
    """The UUID of a simulated card."""
    return str(list(Machine(read_description(MACHINE), lambda: 0.0, list, NODE_NAME).gpus)[number])


def want(cluster: LocalCluster, layouts: Object) -> None:
    """Write on the Node which layouts cards shall have."""
    body = {"metadata": {"annotations": {LAYOUTS_ANNOTATION: json.dumps(layouts)}}}
    with cluster.api() as api:
        api.call("PATCH", f"/api/v1/nodes/{NODE_NAME}", body, content_type="application/merge-patch+json")


def layout_states(cluster: LocalCluster) -> dict[str, str]:
    """How far each card is by its agent, and why."""
    with cluster.api() as api:
        node = api.call("GET", f"/api/v1/nodes/{NODE_NAME}")
    found = json.loads(node["metadata"]["annotations"].get(STATES_ANNOTATION, "{}"))
    return {card: ": ".join(filter(None, (one["state"], one.get("problem")))) for card, one in found.items()}


def test_a_kubelet_that_speaks_v1beta1_prepares_claims_and_takes_them_back(real: LocalCluster) -> None:
    """The last test: what comes while the kubelet ends the registration is tried again after a minute."""
    with registered_as(real, "v1beta1.DRAPlugin"):
        make_claim(real, "old")
        start(real, pod_with_claim("older", "old", SEE + SLEEP))
        assert len(seen(real, "older")) == 1
        delete_pod(real, "older")
        awaited("the claim to be taken back", lambda: prepared(real) == [], lambda: agent_log(real))
        # By the kubelet's own count of its calls.
        with real.api() as api:
            _, page = api.request("GET", f"/api/v1/nodes/{NODE_NAME}/proxy/metrics")
        service = "/k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin/"
        for call in ("NodePrepareResources", "NodeUnprepareResources"):
            assert f'grpc_status_code="OK",method_name="{service}{call}"' in page.decode()
    delete_claim(real, "old")
