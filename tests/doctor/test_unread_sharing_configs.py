"""A ConfigMap of NVIDIA's guides that nothing reads is told with the place where it would be read."""

import pytest

from gpufleet.devices.sharing.nvidia_places import NVIDIA_CONFIG_MAPS
from gpufleet.doctor.check import Failure, Unjudged
from gpufleet.doctor.checks import refused_sharing_config, stale_sharing, unread_sharing_config
from gpufleet.doctor.facts import Facts
from tests.doctor.facts_of_text import facts_of

NODE = """apiVersion: v1
kind: Node
metadata: {name: gpu-1, labels: {nvidia.com/gpu.product: Tesla-T4, nvidia.com/gpu.count: "2"}}
status:
  capacity: {nvidia.com/gpu: "2"}
  allocatable: {nvidia.com/gpu: "2"}
  conditions: [{type: Ready, status: "True"}]
"""
NAMESPACE = """---
apiVersion: v1
kind: Namespace
metadata: {name: NAME}
"""
FOLLOWING = [f"--nvidia-config-map={namespace}/{name}" for namespace, name in NVIDIA_CONFIG_MAPS]
AGENT = ("gpufleet-system", "gpufleet-agent", "gpufleet.local/gpufleet:0.1.0")
PLUGIN = ("nvidia-device-plugin", "nvdp", "nvcr.io/nvidia/k8s-device-plugin:v0.20.0")


def daemon(of: tuple[str, str, str], args: list[str] | None = None, volumes: str = "[]") -> str:
    """A DaemonSet with its pod on the node."""
    namespace, name, image = of
    spec = f"{{volumes: {volumes}, containers: [{{name: main, image: {image!r}, args: {args or []}}}]}}"
    return f"""---
apiVersion: apps/v1
kind: DaemonSet
metadata: {{name: {name}, namespace: {namespace}}}
spec: {{template: {{spec: {spec}}}}}
---
apiVersion: v1
kind: Pod
metadata:
  name: {name}-1
  namespace: {namespace}
  ownerReferences: [{{kind: DaemonSet, name: {name}, controller: true}}]
spec: {spec[:-1]}, nodeName: gpu-1}}
status: {{phase: Running, conditions: [{{type: Ready, status: "True"}}]}}
"""


def config_map(namespace: str, name: str, replicas: int = 4, key: str = "any") -> str:
    """As guides write it."""
    return f"""---
apiVersion: v1
kind: ConfigMap
metadata: {{name: {name}, namespace: {namespace}}}
data:
  {key}: |
    version: v1
    sharing: {{timeSlicing: {{resources: [{{name: nvidia.com/gpu, replicas: {replicas}}}]}}}}
"""


def unread(facts: Facts) -> list[Failure]:
    return [one for one in unread_sharing_config.CHECK.judge(facts) if isinstance(one, Failure)]


def test_one_that_was_applied_to_the_namespace_default_is_told_with_the_way_to_where_it_counts() -> None:
    cluster = NODE + daemon(AGENT, FOLLOWING) + NAMESPACE.replace("NAME", "kube-system")
    (found,) = unread(facts_of(cluster + config_map("default", "time-slicing-config", key="config.yaml")))
    assert found.says == (
        "ConfigMap default/time-slicing-config says how GPUs are shared, and no device plugin reads it"
    )
    assert found.mends[0].command == (
        "kubectl create configmap -n kube-system time-slicing-config "
        '--from-literal=config.yaml="$(kubectl get configmap -n default time-slicing-config '
        "-o jsonpath='{.data.config\\.yaml}')\""
    )


@pytest.mark.parametrize("name", ["mps-config", "device-plugin-config", "nvidia-device-plugin-configs"])
def test_one_of_a_name_that_no_agent_follows_is_told(name: str) -> None:
    cluster = NODE + daemon(AGENT, FOLLOWING) + NAMESPACE.replace("NAME", "gpu-operator")
    (found,) = unread(facts_of(cluster + config_map("gpu-operator", name)))
    assert found.subjects == (f"ConfigMap gpu-operator/{name}",)
    assert found.mends[0].command.startswith("kubectl create configmap -n gpu-operator ")


@pytest.mark.parametrize(("namespace", "name"), NVIDIA_CONFIG_MAPS)
def test_one_that_agents_follow_is_read(namespace: str, name: str) -> None:
    assert not unread(facts_of(NODE + daemon(AGENT, FOLLOWING) + config_map(namespace, name)))


def test_one_beside_the_agents_own_configuration_is_told_with_what_they_read() -> None:
    agent = daemon(AGENT, ["--config-map=gpufleet-system/gpufleet-sharing"])
    (found,) = unread(facts_of(NODE + agent + config_map("gpu-operator", "time-slicing-config")))
    assert found.evidence[1] == (
        "DaemonSet gpufleet-system/gpufleet-agent reads ConfigMap gpufleet-system/gpufleet-sharing"
    )
    assert "agent.sharing of gpufleet's chart" in found.mends[0].does


def test_one_that_nvidias_plugin_mounts_is_read_and_another_one_is_not() -> None:
    volumes = "[{name: configs, configMap: {name: nvidia-plugin-configs}}]"
    cluster = NODE + daemon(PLUGIN, volumes=volumes)
    cluster += config_map("nvidia-device-plugin", "nvidia-plugin-configs")
    (found,) = unread(facts_of(cluster + config_map("kube-system", "nvidia-device-plugin-config")))
    assert found.subjects == ("ConfigMap kube-system/nvidia-device-plugin-config",)
    assert "config.name of the plugin's" in found.mends[0].does


def test_what_has_such_a_name_and_says_nothing_of_sharing_is_left_out() -> None:
    other = config_map("default", "time-slicing-config").replace("version: v1", "note: ours")
    assert not unread(facts_of(NODE + daemon(AGENT, FOLLOWING) + other))


def test_without_any_plugin_that_is_seen_nothing_is_judged() -> None:
    facts = facts_of(NODE + config_map("default", "time-slicing-config"))
    (verdict,) = unread_sharing_config.CHECK.judge(facts)
    assert isinstance(verdict, Unjudged)


def test_what_an_agent_finds_by_its_name_is_held_against_what_the_node_offers() -> None:
    facts = facts_of(NODE + daemon(AGENT, FOLLOWING) + config_map("gpu-operator", "time-slicing-config"))
    (found,) = (one for one in stale_sharing.CHECK.judge(facts) if isinstance(one, Failure))
    # Two cards in four turns each.
    assert "8 nvidia.com/gpu are configured, 2 are offered" in found.says


def test_two_that_differ_are_refused_as_the_agent_does() -> None:
    cluster = NODE + daemon(AGENT, FOLLOWING) + config_map("gpu-operator", "time-slicing-config")
    facts = facts_of(cluster + config_map("kube-system", "nvidia-device-plugin-config", replicas=2))
    (found,) = (one for one in refused_sharing_config.CHECK.judge(facts) if isinstance(one, Failure))
    assert "ConfigMap gpu-operator/time-slicing-config says something else" in found.says


CUT = NODE.replace('nvidia.com/gpu: "2"', 'nvidia.com/mig-1g.10gb: "14"')


def refused(text: str) -> list[Failure]:
    return [one for one in refused_sharing_config.CHECK.judge(facts_of(text)) if isinstance(one, Failure)]


def test_one_that_shares_whole_gpus_where_all_are_cut_is_told_with_what_nodes_offer() -> None:
    (found,) = refused(CUT + config_map("kube-system", "nvidia-device-plugin-config"))
    title = "ConfigMap kube-system/nvidia-device-plugin-config"
    assert found.says == f"{title} shares nvidia.com/gpu, which no node offers"
    assert found.mends[0].does == "name what nodes offer, nvidia.com/mig-1g.10gb"


def test_one_that_shares_what_some_node_offers_is_no_fault() -> None:
    config = config_map("kube-system", "nvidia-device-plugin-config")
    assert not refused(CUT + config.replace("nvidia.com/gpu", "nvidia.com/mig-1g.10gb"))
    assert not refused(CUT + "---\n" + NODE.replace("gpu-1", "gpu-2") + config)
    renamed = NODE.replace("nvidia.com/gpu: ", "nvidia.com/gpu.shared: ")
    assert not refused(renamed + config)


def test_one_beside_a_node_that_offers_nothing_is_not_judged_by_its_names() -> None:
    config = config_map("kube-system", "nvidia-device-plugin-config")
    empty = NODE.replace("gpu-1", "gpu-2").replace('nvidia.com/gpu: "2"', 'nvidia.com/gpu: "0"')
    assert not refused(CUT + "---\n" + empty + config)
