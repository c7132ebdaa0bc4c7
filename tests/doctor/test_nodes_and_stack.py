"""Checks of nodes, stack, placing and sharing in cases that no simulated cluster shows."""

import pytest

from gpufleet.doctor.check import Check, Failure, Good
from gpufleet.doctor.checks import (
    driver_skew,
    failed_mig_config,
    fits_nowhere,
    foreign_holders,
    forgotten_holders,
    misnamed_resource,
    missing_labels,
    missing_reports,
    rival_plugins,
    sick_devices,
    stale_sharing,
)
from gpufleet.doctor.facts import Facts
from tests.doctor.facts_of_text import facts_of

NODE = """
apiVersion: v1
kind: Node
metadata:
  name: gpu-1
  labels: {{nvidia.com/gpu.present: "true"{labels}}}
spec: {{{spec}}}
status:
  capacity: {{cpu: "64", memory: 512Gi, {gpus}}}
  allocatable: {{cpu: "64", memory: 512Gi, {gpus}}}
  conditions: [{{type: Ready, status: "True"}}]
"""
WHOLE = 'nvidia.com/gpu: "8"'
CLOUD = "providerID: cloud://1"


def a_node(gpus: str = WHOLE, spec: str = "", labels: str = "") -> str:
    return NODE.format(gpus=gpus, spec=spec, labels=labels)


def a_pod(resource: str, made: str = "2026-11-22T11:55:00Z", **limits: str) -> str:
    """A pod that waits; by the clock of these tests it is five minutes old."""
    asked = {resource: "1", **limits}
    return f"""
---
apiVersion: v1
kind: Pod
metadata: {{name: waits, namespace: default, creationTimestamp: "{made}"}}
spec: {{containers: [{{name: main, image: "train:1", resources: {{limits: {asked}}}}}]}}
status: {{phase: Pending}}
"""


def failures(check: Check, facts: Facts) -> list[Failure]:
    return [one for one in check.judge(facts) if isinstance(one, Failure)]


def test_a_node_may_still_come_for_a_young_pod() -> None:
    facts = facts_of(a_node(spec=CLOUD) + a_pod("nvidia.com/gpu.shared"))
    for check in (fits_nowhere.CHECK, misnamed_resource.CHECK):
        assert not failures(check, facts)


def test_no_node_has_come_for_an_old_pod() -> None:
    facts = facts_of(a_node(spec=CLOUD) + a_pod("nvidia.com/gpu.shared", "2026-11-22T11:00:00Z"))
    for check in (fits_nowhere.CHECK, misnamed_resource.CHECK):
        assert failures(check, facts)


def test_a_wrong_name_is_wrong_on_every_node_that_may_come() -> None:
    facts = facts_of(a_node(spec=CLOUD) + a_pod("nvidia.com/gpus"))
    (found,) = failures(misnamed_resource.CHECK, facts)
    assert found.mends[0].does == "did you mean nvidia.com/gpu?"


def test_what_the_scheduler_makes_claims_of_is_no_wrong_name() -> None:
    device_class = """
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: small}
spec: {extendedResourceName: example.com/gpu-small}
"""
    asking = a_node() + a_pod("example.com/gpu-small")
    assert failures(misnamed_resource.CHECK, facts_of(asking))
    assert not failures(misnamed_resource.CHECK, facts_of(asking + device_class))


@pytest.mark.parametrize(
    ("resource", "way_out"),
    [
        ("amd.com/gpu", "ask for nvidia.com/gpu"),
        ("nvidia.com/mig-1g.5gb", "no GPU is split into MIG instances of this profile"),
    ],
)
def test_what_fits_nowhere_has_the_way_out_that_explain_gives(resource: str, way_out: str) -> None:
    """The words of `tests/localkube/waiting_on_nodes.py`, which are the same on every surface."""
    (found,) = failures(fits_nowhere.CHECK, facts_of(a_node() + a_pod(resource)))
    assert found.mends[0].does.startswith(way_out)
    assert found.mends[0].does.endswith("or add nodes that have it")


def test_too_many_gpus_have_the_way_out_that_explain_gives() -> None:
    asking = a_pod("nvidia.com/gpu").replace("'nvidia.com/gpu': '1'", "'nvidia.com/gpu': '16'")
    (found,) = failures(fits_nowhere.CHECK, facts_of(a_node() + asking))
    assert found.mends[0].does.startswith("ask for at most 8 in one pod")


def test_who_waits_for_a_card_to_come_back_is_not_told_to_ask_for_less() -> None:
    """``gpufleet explain`` says that a node would do if its GPUs were well."""
    asking = a_pod("nvidia.com/gpu").replace("'nvidia.com/gpu': '1'", "'nvidia.com/gpu': '8'")
    one_is_out = a_node().replace(
        f'allocatable: {{cpu: "64", memory: 512Gi, {WHOLE}',
        'allocatable: {cpu: "64", memory: 512Gi, nvidia.com/gpu: "7"',
    )
    assert 'nvidia.com/gpu: "7"' in one_is_out
    assert not failures(fits_nowhere.CHECK, facts_of(one_is_out + asking))
    assert failures(fits_nowhere.CHECK, facts_of(one_is_out + asking.replace("'8'", "'9'")))


def test_cpu_and_memory_that_no_one_node_has_together() -> None:
    small = a_node().replace("gpu-1", "gpu-2").replace('cpu: "64"', 'cpu: "16"').replace("512Gi", "1Ti")
    facts = facts_of(a_node() + "---" + small + a_pod("nvidia.com/gpu", cpu="32", memory="800Gi"))
    (found,) = failures(fits_nowhere.CHECK, facts)
    assert "more CPU and memory together" in found.says


REPORT = """
---
apiVersion: gpufleet.io/v1alpha1
kind: NodeDevices
metadata: {name: gpu-1}
spec:
  devices:
  - {id: "GPU-1::0", vendor: nvidia, health: unhealthy, healthReason: "REASON"}
  - {id: "GPU-1::1", vendor: nvidia, health: unhealthy, healthReason: "REASON"}
  - {id: "GPU-2::0", vendor: nvidia}
"""


@pytest.mark.parametrize(
    # What NVIDIA's Xid catalogue advises: 79 restart the machine, 48 reset the GPU.
    ("reason", "mend"),
    [
        ("Xid 79: lost", "reboot the node"),
        ("Xid 48: double-bit", "--gpu-reset -i GPU-1"),
        ("?", "nvidia-smi -q"),
    ],
)
def test_a_card_in_turns_is_told_once_with_what_its_error_asks_for(reason: str, mend: str) -> None:
    (found,) = failures(sick_devices.CHECK, facts_of(a_node() + REPORT.replace("REASON", reason)))
    assert found.subjects == ("Node gpu-1", "GPU-1")
    assert mend in found.mends[0].does


def a_daemon(name: str, image: str, word: str = "") -> str:
    """A DaemonSet with its pod on the node."""
    spec = f'{{containers: [{{name: main, image: "{image}", args: ["{word}"]}}]}}'
    return f"""
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {{name: {name}, namespace: gpus}}
spec: {{template: {{spec: {spec}}}}}
---
apiVersion: v1
kind: Pod
metadata:
  name: {name}-1
  namespace: gpus
  ownerReferences: [{{kind: DaemonSet, name: {name}, controller: true}}]
spec: {spec[:-1]}, nodeName: gpu-1}}
status: {{phase: Running, conditions: [{{type: Ready, status: "True"}}]}}
"""


PLUGIN = a_daemon("plugin", "nvcr.io/nvidia/k8s-device-plugin:v0.20.0")


def test_a_dra_driver_may_stand_beside_a_plugin() -> None:
    second = a_daemon("hami", "projecthami/hami:v2.10.0")
    driver = a_daemon("nvidia-dra-driver-gpu", "nvcr.io/nvidia/k8s-dra-driver-gpu:v0.5.0")
    assert failures(rival_plugins.CHECK, facts_of(a_node() + PLUGIN + second))
    assert not failures(rival_plugins.CHECK, facts_of(a_node() + PLUGIN + driver))


def test_general_discovery_writes_no_product() -> None:
    general = a_daemon("nfd", "registry.k8s.io/nfd/node-feature-discovery:v0.18")
    own = a_daemon("gfd", "nvcr.io/nvidia/k8s-device-plugin:v0.20.0", "gpu-feature-discovery")
    assert not failures(missing_labels.CHECK, facts_of(a_node() + general))
    assert failures(missing_labels.CHECK, facts_of(a_node() + own))


def test_a_layout_that_a_manager_is_making_is_waited_for() -> None:
    labels = ", nvidia.com/mig.config: all-1g.10gb, nvidia.com/mig.config.state: pending"
    manager = a_daemon("mig", "nvcr.io/nvidia/cloud-native/k8s-mig-manager:v0.15.0")
    assert failures(failed_mig_config.CHECK, facts_of(a_node(labels=labels)))
    assert not failures(failed_mig_config.CHECK, facts_of(a_node(labels=labels) + manager))


def test_a_layout_that_the_agent_makes_is_waited_for_and_a_failed_one_has_its_reason() -> None:
    def asked(state: str) -> Facts:
        labels = f", nvidia.com/mig.config: all-1g.10gb, nvidia.com/mig.config.state: {state}"
        annotated = "name: gpu-1\n  annotations: {gpufleet.io/mig-layout-states: '{}'}"
        return facts_of(a_node(labels=labels).replace("name: gpu-1", annotated))

    assert not failures(failed_mig_config.CHECK, asked("pending"))
    (found,) = failures(failed_mig_config.CHECK, asked("failed"))
    (command,) = (one.command for one in found.mends if one.does.startswith("read why"))
    assert "gpufleet\\.io/mig-layout-states" in command


def test_a_layout_that_is_asked_for_where_no_manager_runs_is_not_called_made() -> None:
    labels = ", nvidia.com/mig.config: all-1g.10gb"
    (found,) = failures(failed_mig_config.CHECK, facts_of(a_node(labels=labels)))
    assert "a MIG layout is asked for, and no MIG manager is there to make it" in found.says
    assert found.mends[0].does.startswith("run NVIDIA's MIG manager")
    assert not [
        one for one in failed_mig_config.CHECK.judge(facts_of(a_node(labels=labels))) if isinstance(one, Good)
    ]


SHARED = """
---
apiVersion: v1
kind: ConfigMap
metadata: {name: sharing, namespace: gpus}
data:
  config.yaml: |
    version: v1
    sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}
"""


@pytest.mark.parametrize(("offered", "is_stale"), [("8", True), ("32", False), ("16", True)])
def test_two_times_as_many_replicas_are_told_as_none(offered: str, is_stale: bool) -> None:
    # Eight cards, as feature discovery counts them, in four turns each are 32.
    node = a_node(f'nvidia.com/gpu: "{offered}"', labels=', nvidia.com/gpu.count: "8"')
    volumes = "containers:", "volumes: [{name: config, configMap: {name: sharing}}], containers:"
    facts = facts_of(node + PLUGIN.replace(*volumes) + SHARED)
    assert bool(failures(stale_sharing.CHECK, facts)) is is_stale


def test_cut_cards_are_not_counted() -> None:
    node = a_node('nvidia.com/mig-1g.10gb: "56"', labels=', nvidia.com/gpu.count: "8"')
    volumes = "containers:", "volumes: [{name: config, configMap: {name: sharing}}], containers:"
    assert not failures(stale_sharing.CHECK, facts_of(node + PLUGIN.replace(*volumes) + SHARED))


def test_a_node_that_is_only_played_has_no_driver_to_differ_from() -> None:
    nodes = "---\n".join(
        "apiVersion: v1\nkind: Node\n"
        f"metadata: {{name: {name}, labels: {{nvidia.com/gpu.product: NVIDIA-L4}}}}\n"
        f"---\napiVersion: gpufleet.io/v1alpha1\nkind: NodeDevices\nmetadata: {{name: {name}}}\n"
        f"spec: {{driver: {driver}, devices: [{{id: GPU-{name}}}]}}\n"
        for name, driver in (("played", "simulated"), ("real", "580.95.05"))
    )
    assert not [one for one in driver_skew.judge(facts_of(nodes)) if isinstance(one, Failure)]


def granted(text: str) -> str:
    """A pod that runs on gpu-1 with this grant."""
    return f"""
---
apiVersion: v1
kind: Pod
metadata: {{name: runs, namespace: default, annotations: {{gpufleet.io/grant: '{text}'}}}}
spec:
  nodeName: gpu-1
  containers: [{{name: main, image: "train:1", resources: {{limits: {{nvidia.com/gpu: "1"}}}}}}]
status: {{phase: Running}}
"""


REPORT_OF = """
---
apiVersion: gpufleet.io/v1alpha1
kind: NodeDevices
metadata: {name: NAME}
spec: {devices: [{id: GPU-1}]}
"""
BY_ID = '{"v":1,"epoch":3,"containers":{"main":[{"id":"GPU-1","kind":"whole","gpuMilli":1000}]}}'
WITHOUT_IDS = '{"v":1,"epoch":3,"containers":{}}'


def test_a_node_whose_pods_hold_gpus_by_id_and_that_does_not_report_them() -> None:
    (found,) = failures(missing_reports.CHECK, facts_of(a_node() + granted(BY_ID)))
    assert "gpu-1: Pod default/runs holds GPUs of it by their ids" in found.evidence
    assert "kubectl get crd nodedevices.gpufleet.io" in str(found.mends[0].command)
    assert failures(missing_reports.CHECK, facts_of(a_node() + granted('{"v":99}')))
    (found,) = failures(
        missing_reports.CHECK, facts_of(a_node() + granted(BY_ID) + REPORT_OF.replace("NAME", "gpu-2"))
    )
    assert "see whether the agent runs on the node" in found.mends[0].does


def test_a_node_of_an_agent_that_does_not_report_it() -> None:
    node = a_node().replace("conditions: [", 'conditions: [{type: gpufleet.io/GPUHealthy, status: "True"}, ')
    (found,) = failures(missing_reports.CHECK, facts_of(node))
    assert "gpu-1: it has the condition gpufleet.io/GPUHealthy" in found.evidence


def test_nodes_that_report_and_nodes_without_an_agent_miss_no_report() -> None:
    assert not failures(missing_reports.CHECK, facts_of(a_node() + granted(WITHOUT_IDS)))
    assert not failures(
        missing_reports.CHECK, facts_of(a_node() + granted(BY_ID) + REPORT_OF.replace("NAME", "gpu-1"))
    )
    ended = granted(BY_ID).replace("Running", "Succeeded")
    assert not failures(missing_reports.CHECK, facts_of(a_node() + ended))


def held_by(*holders: str) -> str:
    """The report of a node's agent, with these holders."""
    return f"""
---
apiVersion: gpufleet.io/v1alpha1
kind: NodeDevices
metadata: {{name: gpu-1}}
spec:
  devices: [{{id: GPU-1, sharing: whole, health: healthy}}, {{id: GPU-2, sharing: whole, health: healthy}}]
  holders: [{", ".join(holders)}]
"""


def test_gpus_held_without_a_grant_are_named_with_their_holders() -> None:
    granted = "{device: GPU-1, podUID: u, container: c}"
    theirs = "{device: GPU-2, podUID: v, container: c, foreign: team/theirs}"
    (found,) = failures(foreign_holders.CHECK, facts_of(a_node() + held_by(granted, theirs)))
    assert found.says == "1 GPU on gpu-1 is held without a grant, by team/theirs"
    assert found.evidence == ("NodeDevices gpu-1: team/theirs holds GPU-2",)
    (found,) = failures(foreign_holders.CHECK, facts_of(a_node() + held_by("{device: GPU-1}", theirs)))
    assert found.says == "2 GPUs on gpu-1 are held without a grant, by a process of no pod, team/theirs"
    assert not failures(foreign_holders.CHECK, facts_of(a_node() + held_by(granted)))


def test_mig_instances_held_without_a_grant_are_counted_as_instances() -> None:
    first, second = (
        f"{{device: GPU-2, kind: mig, migProfile: 1g.10gb, migStart: {start}, foreign: team/theirs}}"
        for start in (0, 1)
    )
    (found,) = failures(foreign_holders.CHECK, facts_of(a_node() + held_by(first, second)))
    assert found.says == "2 MIG instances on gpu-1 are held without a grant, by team/theirs"
    held = "MIG instance 1g.10gb of GPU-2"
    assert found.evidence == (f"NodeDevices gpu-1: team/theirs holds {held}, {held}",)
    (found,) = failures(foreign_holders.CHECK, facts_of(a_node() + held_by("{device: GPU-1}", first)))
    assert found.says.startswith("1 GPU and 1 MIG instance on gpu-1 are held without a grant")


def test_gpus_of_which_the_kubelet_lost_its_record_are_named() -> None:
    known = "{device: GPU-1, podUID: u, container: c}"
    forgotten = "{device: GPU-2, podUID: v, container: c, unknownToKubelet: true}"
    (found,) = failures(forgotten_holders.CHECK, facts_of(a_node() + held_by(known, forgotten)))
    assert found.says == "1 container on gpu-1 runs on GPUs that the kubelet counts as free"
    assert found.evidence == ("NodeDevices gpu-1: container c of pod v runs on GPU-2",)
    assert not failures(forgotten_holders.CHECK, facts_of(a_node() + held_by(known)))
