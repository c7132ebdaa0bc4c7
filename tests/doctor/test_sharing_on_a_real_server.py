"""Ways to break sharing: on a real API server with simulated nodes, the right cause is named first.

Expected counts are by hand: 8 GPUs of a node times the replicas that are configured.
"""

from typing import Any

from gpufleet.localkube.access.api import Object
from tests.doctor.patient import Patient, a_deployment, a_pod
from tests.doctor.staging import NAMES, PLUGIN, a_daemon, add_node, running

SLICED = """version: v1
sharing:
  timeSlicing:
    renameByDefault: true
    resources:
    - {name: nvidia.com/gpu, replicas: 4}
"""
PLAIN = "version: v1\n"
HIDDEN = SLICED.replace("    renameByDefault: true\n", "")
LABEL = "nvidia.com/device-plugin.config"
SHARED = "nvidia.com/gpu.shared"
PRODUCT = "nvidia.com/gpu.product"


def a_config(**texts: str) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "sharing"}, "data": texts}


def a_plugin(**spec: Any) -> Object:
    return a_daemon("plugin", PLUGIN, volumes=[{"name": "configs", "configMap": {"name": "sharing"}}], **spec)


def started(patient: Patient, *objects: Object) -> None:
    """Apply, and wait for the plugin to be on every node."""
    patient.apply(*objects, a_plugin())
    running(patient, "plugin")


def label(patient: Patient, name: str, key: str, value: str, back: str | None = None) -> None:
    labels = {"metadata": {"labels": {key: value}}}
    patient.patch_node(name, labels, {"metadata": {"labels": {key: back}}})


def test_an_edit_that_the_plugin_did_not_see(patient: Patient) -> None:
    started(patient, a_config(default=SLICED))
    found = patient.finds(
        "sharing-stale", "gpu-001", "32 nvidia.com/gpu.shared are configured, 0 are offered"
    )
    assert found.failure.mends[0].command == "kubectl rollout restart daemonset -n default plugin"


def test_sharing_as_it_is_configured(patient: Patient) -> None:
    both = ("capacity", "allocatable")
    for name in NAMES:
        sliced = {"status": {part: {"nvidia.com/gpu": "0", SHARED: "32"} for part in both}}
        whole = {"status": {part: {"nvidia.com/gpu": "8", SHARED: None} for part in both}}
        patient.patch_node(name, sliced, whole, status=True)
    started(patient, a_config(default=SLICED))
    patient.is_healthy()


def test_each_node_has_the_configuration_that_its_label_names(patient: Patient) -> None:
    label(patient, "gpu-002", LABEL, "sliced")
    started(patient, a_config(default=PLAIN, sliced=SLICED))
    found = patient.finds("sharing-stale", "gpu-002", "key sliced")
    assert found.failure.subjects == ("Node gpu-002",)


def test_a_label_that_names_no_configuration(patient: Patient) -> None:
    label(patient, "gpu-003", LABEL, "slcied")
    started(patient, a_config(default=PLAIN, sliced=PLAIN))
    patient.finds("sharing-config-missing", "gpu-003", "did you mean sliced?", f"label {LABEL}=slcied")


OWN = """version: gpufleet.io/v1alpha1
pools:
  default:
  - {gpus: [0, 1], timeSlice: {replicas: 4}}
  - {gpus: rest, exclusive: {}}
"""


def an_agent() -> Object:
    return a_daemon(
        "agent", "registry.example/gpufleet:1.0", {"args": ["agent", "--config-map=default/sharing"]}
    )


def test_an_agent_that_does_not_follow(patient: Patient) -> None:
    patient.apply(a_config(default=OWN), an_agent())
    running(patient, "agent")
    # Two cards of eight in four turns each, and six whole ones.
    found = patient.finds("sharing-stale", "14 nvidia.com/gpu are configured, 8 are offered")
    assert found.failure.mends[0].command == "kubectl logs -n default daemonset/agent"


def test_an_agent_waits_for_pods_that_hold_gpus(patient: Patient) -> None:
    holders = [a_pod(f"holds-{name}", nodeName=name) for name in NAMES]
    patient.without_device_policies(holders[0])
    patient.apply(a_config(default=OWN), *holders, an_agent())
    running(patient, "agent")
    assert "sharing-stale" not in {one.check.id for one in patient.examined().causes}


def test_a_config_map_that_is_not_there(patient: Patient) -> None:
    patient.apply(an_agent())
    running(patient, "agent")
    patient.finds("sharing-config-missing", "ConfigMap default/sharing", "it is not there")


def test_a_configuration_that_cannot_be_read(patient: Patient) -> None:
    started(patient, a_config(default=SLICED.replace("replicas: 4", "replicas: 1")))
    patient.finds("sharing-config-refused", "gpu-001", "replicas")


def test_an_agent_that_refuses_its_configuration(patient: Patient) -> None:
    patient.apply(
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": "gpu-004.1"},
            "involvedObject": {"kind": "Node", "name": "gpu-004"},
            "type": "Warning",
            "reason": "SharingConfigRefused",
            "message": "pools.default[0].gpus: no GPU of this index.",
        }
    )
    patient.finds("sharing-config-refused", "gpu-004", "no GPU of this index")


def test_shares_that_look_whole(patient: Patient) -> None:
    both = ("capacity", "allocatable")
    for name in NAMES:
        sliced, whole = ({"status": {part: {"nvidia.com/gpu": n} for part in both}} for n in ("32", "8"))
        patient.patch_node(name, sliced, whole, status=True)
        path = f"/apis/gpufleet.io/v1alpha1/nodedevices/{name}"
        cards = patient.api.call("GET", path)["spec"]["devices"]
        replicas = [{**card, "id": f"{card['id']}::{turn}"} for card in cards for turn in range(4)]
        patient.patch(path, {"spec": {"devices": replicas}}, {"spec": {"devices": cards}})
    started(patient, a_config(default=HIDDEN))
    patient.finds("shares-hidden", "ConfigMap default/sharing", "nvidia.com/gpu several times")


def test_several_shares_for_one_pod(patient: Patient) -> None:
    for name in NAMES:
        label(patient, name, "nvidia.com/gpu.sharing-strategy", "time-slicing")
    patient.apply(a_deployment("double", a_pod("double", 2)))
    patient.finds("shares-several", "Deployment default/double", "asks for 2 of nvidia.com/gpu")


def test_a_layout_that_could_not_be_made(patient: Patient) -> None:
    label(patient, "gpu-005", "nvidia.com/mig.config", "all-1g.10gb")
    label(patient, "gpu-005", "nvidia.com/mig.config.state", "failed")
    patient.finds("mig-config-failed", "gpu-005", "could not be made", "nvidia.com/mig.config=all-1g.10gb")


def test_a_layout_that_nobody_makes(patient: Patient) -> None:
    label(patient, "gpu-005", "nvidia.com/mig.config", "all-1g.10gb")
    label(patient, "gpu-005", "nvidia.com/mig.config.state", "pending")
    patient.finds("mig-config-failed", "gpu-005", "no MIG manager is there")


def test_cards_that_are_cut_in_different_ways(patient: Patient) -> None:
    name = add_node(patient)
    labels = {PRODUCT: "NVIDIA-H100-80GB-HBM3-MIG-INVALID", "nvidia.com/mig.strategy": "single"}
    patient.change(f"/api/v1/nodes/{name}", {"metadata": {"labels": labels}})
    patient.finds("mig-layout-invalid", name, "MIG-INVALID", "nvidia.com/mig.strategy=single")


def test_instances_and_whole_gpus_under_one_name(patient: Patient) -> None:
    name = add_node(patient)
    labels = {PRODUCT: "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb", "nvidia.com/mig.strategy": "single"}
    patient.change(f"/api/v1/nodes/{name}", {"metadata": {"labels": labels}})
    patient.apply(a_deployment("either", a_pod("either")))
    patient.finds("mig-strategies-mixed", "Deployment default/either", f"MIG instance on node {name}")
