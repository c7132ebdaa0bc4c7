"""What the chart makes run: how many, as whom, with which settings."""

import importlib
from typing import Any

import click
import pytest

from gpufleet.agent.dra.device_pools import DRIVERS
from gpufleet.devices.sharing.nvidia_places import NVIDIA_CONFIG_MAPS, NVIDIA_NAMES
from gpufleet.model.taint import Taint, Toleration, untolerated
from tests.chart.rendering import FULL_VALUES, Object, one, pod_specs, rendered


@pytest.fixture(scope="module")
def default() -> list[Object]:
    """The chart as it comes."""
    return rendered()


@pytest.fixture(scope="module")
def full() -> list[Object]:
    """The chart with every value set."""
    return rendered(FULL_VALUES)


def agent_pod(objects: list[Object]) -> Object:
    return pod_specs(objects)["DaemonSet gpufleet-agent"]


def scheduler_pod(objects: list[Object]) -> Object:
    return pod_specs(objects)["Deployment gpufleet-scheduler"]


def matches(labels: dict[str, str], selector: dict[str, Any]) -> bool:
    wanted: dict[str, str] = selector["matchLabels"]
    return wanted.items() <= labels.items()


def test_two_schedulers_and_a_drain_takes_one_at_a_time(default: list[Object]) -> None:
    deployment = one(default, "Deployment", "gpufleet-scheduler")
    budget = one(default, "PodDisruptionBudget", "gpufleet-scheduler")
    assert deployment["spec"]["replicas"] == 2
    assert budget["spec"]["maxUnavailable"] == 1
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert matches(labels, budget["spec"]["selector"])
    agents = one(default, "DaemonSet", "gpufleet-agent")["spec"]["template"]["metadata"]["labels"]
    assert not matches(agents, budget["spec"]["selector"])


def test_nobody_has_rights_that_are_not_ours_to_give(default: list[Object]) -> None:
    """Every account that is bound to something is one of this release."""
    accounts = {
        (its["metadata"]["namespace"], its["metadata"]["name"])
        for its in default
        if its["kind"] == "ServiceAccount"
    }
    subjects = {
        (subject["namespace"], subject["name"]) for its in default for subject in its.get("subjects", ())
    }
    assert subjects == accounts
    for its in default:
        for rule in its.get("rules", ()):
            assert "*" not in [*rule["verbs"], *rule["resources"], *rule["apiGroups"]], its["metadata"][
                "name"
            ]


def test_every_pod_runs_as_an_account_of_its_own(default: list[Object]) -> None:
    names = {name: spec["serviceAccountName"] for name, spec in pod_specs(default).items()}
    assert names == {
        "Deployment gpufleet-scheduler": "gpufleet-scheduler",
        "DaemonSet gpufleet-agent": "gpufleet-agent",
        "Pod gpufleet-check": "gpufleet-check",
        "Job gpufleet-leave": "gpufleet-leave",
    }


def test_every_container_has_bounds_and_no_more_rights_than_it_needs(default: list[Object]) -> None:
    for name, spec in pod_specs(default).items():
        for container in spec["containers"]:
            assert "memory" in container["resources"]["limits"], name
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }, name
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name


def test_the_agent_sees_processes_of_the_node_only_with_accounting(
    default: list[Object], full: list[Object]
) -> None:
    assert "hostPID" not in agent_pod(default)
    assert agent_pod(full)["hostPID"] is True
    assert "--accounting" in agent_pod(full)["containers"][0]["args"]
    for spec in (*pod_specs(default).values(), *pod_specs(full).values()):
        assert "hostNetwork" not in spec
        assert "hostIPC" not in spec


def test_mps_gets_what_its_daemons_need_and_only_then(default: list[Object]) -> None:
    (plain,) = agent_pod(default)["containers"]
    assert {"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "utility"} in plain["env"]
    pod = agent_pod(rendered({"agent.mps.enabled": True}))
    (container,) = pod["containers"]
    assert pod["hostPID"] is True
    assert {"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "utility,compute"} in container["env"]
    assert "--mps-root=/run/nvidia/mps" in container["args"]
    mounts = {its["name"] for its in container["volumeMounts"]}
    assert mounts - {its["name"] for its in plain["volumeMounts"]} == {"mps", "shared-memory"}


def test_cards_for_claims_need_rights_and_folders_and_only_then(default: list[Object]) -> None:
    (plain,) = agent_pod(default)["containers"]
    assert "gpufleet-agent-dra" not in {its["metadata"]["name"] for its in default}
    objects = rendered({"agent.dra.cards": "all"}, namespace="gpu")
    (container,) = agent_pod(objects)["containers"]
    assert set(container["args"]) - set(plain["args"]) == {"--dra-cards=all"}
    mounts = {its["name"] for its in container["volumeMounts"]}
    assert mounts - {its["name"] for its in plain["volumeMounts"]} == {
        "plugins-registry",
        *(f"plugin-{driver.replace('.', '-')}" for driver in DRIVERS.values()),
    }
    rules = one(objects, "ClusterRole", "gpufleet-agent-dra")["rules"]
    assert {its["resources"][0]: its["verbs"] for its in rules} == {
        "resourceslices": ["get", "list", "watch", "create", "update", "delete"],
        "resourceclaims": ["get"],
    }
    (subject,) = one(objects, "ClusterRoleBinding", "gpufleet-agent-dra")["subjects"]
    assert subject == {"kind": "ServiceAccount", "name": "gpufleet-agent", "namespace": "gpu"}


@pytest.mark.parametrize(
    ("values", "argument"),
    [
        ({"agent.dra": {"cards": "all", "migOnDemand": True}}, "--dra-mig-on-demand"),
        ({"agent.mig.layouts": True}, "--mig-layouts"),
        ({"agent.mig.configMap": "mine"}, "--mig-config-file=/etc/gpufleet/mig/config.yaml"),
    ],
)
def test_an_agent_that_cuts_cards_may_do_so_and_no_other(values: Object, argument: str) -> None:
    pod = agent_pod(rendered(values))
    (container,) = pod["containers"]
    assert argument in container["args"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["SYS_ADMIN"]}
    assert {"name": "NVIDIA_MIG_CONFIG_DEVICES", "value": "all"} in container["env"]
    mounted = {its["name"]: its.get("configMap") for its in pod["volumes"]}
    assert mounted.get("mig-config") == ({"name": "mine"} if "mig-config" in argument else None)


def test_folders_with_data_are_mounted_for_reading_at_their_own_paths(default: list[Object]) -> None:
    (plain,) = agent_pod(default)["containers"]
    pod = agent_pod(rendered({"agent.data.folders": ["/var/lib/models", "/mnt/data"]}))
    (container,) = pod["containers"]
    assert set(container["args"]) - set(plain["args"]) == {
        "--data-folder=/var/lib/models",
        "--data-folder=/mnt/data",
    }
    folders = {its["name"]: its["hostPath"]["path"] for its in pod["volumes"] if "hostPath" in its}
    mounts = [its for its in container["volumeMounts"] if its["name"].startswith("data-")]
    assert [(its["mountPath"], folders[its["name"]], its["readOnly"]) for its in mounts] == [
        ("/var/lib/models", "/var/lib/models", True),
        ("/mnt/data", "/mnt/data", True),
    ]


def test_only_the_cache_is_mounted_for_writing_and_a_store_without_one_is_not_mounted(
    default: list[Object],
) -> None:
    (plain,) = agent_pod(default)["containers"]
    data = {"stores": ["/mnt/shared"], "cache": "/data/models", "folders": ["/data/models", "/mnt/own"]}
    pod = agent_pod(rendered({"agent.data": data}))
    (container,) = pod["containers"]
    assert set(container["args"]) - set(plain["args"]) == {
        "--data-folder=/data/models",
        "--data-folder=/mnt/own",
        "--data-store=/mnt/shared",
        "--data-cache=/data/models",
        "--data-copy-mib-per-s=500",
    }
    known = {its["mountPath"] for its in plain["volumeMounts"]}
    mounts = {its["mountPath"]: its.get("readOnly", False) for its in container["volumeMounts"]}
    assert {path: mounts[path] for path in mounts.keys() - known} == {
        "/mnt/shared": True,
        "/mnt/own": True,
        "/data/models": False,
    }
    (alone,) = agent_pod(rendered({"agent.data.stores": ["/mnt/shared"]}))["containers"]
    assert alone["args"] == plain["args"]


def test_servers_of_data_are_options_and_ports_and_no_mounts(default: list[Object]) -> None:
    (plain,) = agent_pod(default)["containers"]
    data = {
        "servers": ["oci+https://registry.example:5000/models", "hf+https://hub.example"],
        "redirects": ["https://cdn.example"],
        "serverPorts": [443, 5000],
        "cache": "/data/models",
    }
    objects = rendered({"agent.data": data, "networkPolicy.enabled": True})
    (container,) = agent_pod(objects)["containers"]
    assert set(container["args"]) - set(plain["args"]) == {
        "--data-store=oci+https://registry.example:5000/models",
        "--data-store=hf+https://hub.example",
        "--data-redirect=https://cdn.example",
        "--data-cache=/data/models",
        "--data-copy-mib-per-s=500",
    }
    known = {its["mountPath"] for its in plain["volumeMounts"]}
    assert {its["mountPath"] for its in container["volumeMounts"]} - known == {"/data/models"}
    agent = next(
        its
        for its in objects
        if its["kind"] == "NetworkPolicy" and its["metadata"]["name"] == "gpufleet-agent"
    )
    assert [one["port"] for one in agent["spec"]["egress"][1]["ports"]] == [443, 5000, 53, 53]


def test_images_are_known_by_the_runtimes_socket_alone(default: list[Object]) -> None:
    (plain,) = agent_pod(default)["containers"]
    images = {"socket": "/run/containerd/containerd.sock", "registries": ["registry.example/team"]}
    pod = agent_pod(rendered({"agent.data": {"images": images}}))
    (container,) = pod["containers"]
    assert set(container["args"]) - set(plain["args"]) == {
        "--runtime-socket=/run/containerd/containerd.sock",
        "--pull-registry=registry.example/team",
    }
    assert runtime_socket(pod) == (
        {"path": "/run/containerd", "type": "Directory"},
        {"mountPath": "/run/containerd", "readOnly": True, "mountPropagation": "HostToContainer"},
    )


def runtime_socket(pod: Object) -> tuple[Object, Object]:
    """What the agent has of the host for the runtime's socket, and where."""
    (volume,) = [its for its in pod["volumes"] if its["name"] == "runtime-socket"]
    (mount,) = [its for its in pod["containers"][0]["volumeMounts"] if its["name"] == "runtime-socket"]
    return volume["hostPath"], {key: value for key, value in mount.items() if key != "name"}


@pytest.mark.parametrize("socket", ["/run/cri-dockerd.sock", "/var/run/cri-dockerd.sock"])
def test_of_a_folder_that_others_have_too_the_agent_has_the_socket_alone(socket: str) -> None:
    pod = agent_pod(rendered({"agent.data": {"images": {"socket": socket}}}))
    assert runtime_socket(pod) == ({"path": socket, "type": "Socket"}, {"mountPath": socket})


def test_every_option_is_one_that_the_program_knows(default: list[Object], full: list[Object]) -> None:
    for objects in (default, full):
        for spec in pod_specs(objects).values():
            word, *options = spec["containers"][0]["args"]
            found = command(word)
            if isinstance(found, click.Group):
                found = found.commands[options.pop(0)]
            known = {one for its in found.params for one in (*its.opts, *its.secondary_opts)}
            assert {option.partition("=")[0] for option in options} <= known


def command(word: str) -> click.Command:
    """The command that a pod runs."""
    found: click.Command = importlib.import_module(f"gpufleet.cli.{word}").command
    return found


def test_the_agent_knows_its_node_from_where_it_runs(default: list[Object]) -> None:
    (container,) = agent_pod(default)["containers"]
    node = next(its for its in container["env"] if its["name"] == "NODE_NAME")
    assert node["valueFrom"] == {"fieldRef": {"fieldPath": "spec.nodeName"}}
    assert "--node-name=$(NODE_NAME)" in container["args"]


def test_the_agent_goes_where_gpus_are_tainted(default: list[Object]) -> None:
    keys = {its["key"] for its in agent_pod(default)["tolerations"]}
    assert {"nvidia.com/gpu", "amd.com/gpu", "gpufleet.io/shared"} <= keys


def test_a_digest_goes_before_the_tag(default: list[Object], full: list[Object]) -> None:
    assert {spec["containers"][0]["image"] for spec in pod_specs(default).values()} == {
        "gpufleet.local/gpufleet:0.1.0"
    }
    (image,) = {spec["containers"][0]["image"] for spec in pod_specs(full).values()}
    assert image.startswith("registry.example.org:5000/platform/gpufleet@sha256:0123")


def test_an_agent_gives_gpus_for_grants_alone_and_by_cdi_unless_told_otherwise(default: list[Object]) -> None:
    (container,) = agent_pod(default)["containers"]
    assert {"--require-grant", "--device-list-strategy=cdi-cri"} <= {*container["args"]}


def test_what_is_set_arrives(full: list[Object]) -> None:
    assert "--scheduler-name=fleet-scheduler" in scheduler_pod(full)["containers"][0]["args"]
    assert "--silent-watch=60" in scheduler_pod(full)["containers"][0]["args"]
    for spec in (scheduler_pod(full), agent_pod(full)):
        (container,) = spec["containers"]
        assert {"name": "TZ", "value": "UTC"} in container["env"]
        assert {"name": "extra", "mountPath": "/extra"} in container["volumeMounts"]
        assert {"name": "extra", "emptyDir": {}} in spec["volumes"]
        assert spec["priorityClassName"] == "platform"
        assert spec["imagePullSecrets"] == [{"name": "registry"}]
    assert agent_pod(full)["runtimeClassName"] == "nvidia"
    arguments = agent_pod(full)["containers"][0]["args"]
    assert {"--device-list-strategy=envvar", "--device-list-strategy=cdi-cri"} <= {*arguments}
    assert "--require-grant" not in arguments
    assert "--dra-cards=0,1" in arguments
    paths = {its["hostPath"]["path"] for its in agent_pod(full)["volumes"] if "hostPath" in its}
    assert paths == {
        "/data/kubelet/device-plugins",
        "/data/kubelet/pod-resources",
        *(f"/data/kubelet/plugins/{driver}" for driver in DRIVERS.values()),
        "/data/kubelet/plugins_registry",
        "/etc/cdi",
        "/data/gpufleet",
        "/data/mps",
        "/mnt/models",
        "/mnt/shared",
        "/data/models",
        "/run/containerd",
        "/dev/shm",  # noqa: S108
    }
    assert {its["metadata"]["labels"]["team"] for its in full} == {"platform"}


def test_configs_are_mounted_as_a_folder_so_that_edits_arrive() -> None:
    mounted = rendered({"agent.sharing": {"configs": {"default": "a", "big": "b"}, "default": "big"}})
    assert one(mounted, "ConfigMap", "gpufleet-sharing")["data"].keys() == {"default", "big"}
    (container,) = agent_pod(mounted)["containers"]
    mount = next(its for its in container["volumeMounts"] if its["name"] == "sharing")
    assert mount == {"name": "sharing", "mountPath": "/etc/gpufleet/sharing", "readOnly": True}
    assert "--config=/etc/gpufleet/sharing" in container["args"]
    assert "--config-default=big" in container["args"]
    assert not [its for its in mounted if its["metadata"]["name"] == "gpufleet-agent-sharing"]
    own = rendered({"agent.sharing.existingConfigMap": "mine"})
    volume = next(its for its in agent_pod(own)["volumes"] if its["name"] == "sharing")
    assert volume["configMap"] == {"name": "mine"}
    assert not [its for its in own if its["kind"] == "ConfigMap"]


@pytest.mark.parametrize(
    ("sharing", "name"),
    [({"configs": {"default": "a"}}, "gpufleet-sharing"), ({"existingConfigMap": "mine"}, "mine")],
)
def test_configs_are_read_from_the_api_with_the_right_to_that_one(sharing: Object, name: str) -> None:
    objects = rendered({"agent.sharing": {**sharing, "readFrom": "api", "default": "big"}}, namespace="gpu")
    (container,) = agent_pod(objects)["containers"]
    assert f"--config-map=gpu/{name}" in container["args"]
    assert "--config-default=big" in container["args"]
    assert "--config=/etc/gpufleet/sharing" not in container["args"]
    assert "sharing" not in {its["name"] for its in agent_pod(objects)["volumes"]}
    role = one(objects, "Role", "gpufleet-agent-sharing")
    assert role["metadata"]["namespace"] == "gpu"
    assert role["rules"] == [
        {
            "apiGroups": [""],
            "resources": ["configmaps"],
            "resourceNames": [name],
            "verbs": ["get", "list", "watch"],
        }
    ]
    (subject,) = one(objects, "RoleBinding", "gpufleet-agent-sharing")["subjects"]
    assert subject == {"kind": "ServiceAccount", "name": "gpufleet-agent", "namespace": "gpu"}


def test_without_configs_those_of_nvidias_guides_are_followed_with_the_right_to_these_names() -> None:
    objects = rendered(namespace="gpu")
    (container,) = agent_pod(objects)["containers"]
    followed = [f"{namespace}/{name}" for namespace, name in NVIDIA_CONFIG_MAPS]
    assert [its for its in container["args"] if its.startswith("--nvidia-config-map=")] == [
        f"--nvidia-config-map={place}" for place in followed
    ]
    (rule,) = one(objects, "ClusterRole", "gpufleet-agent-nvidia-configs")["rules"]
    assert rule["resourceNames"] == list(NVIDIA_NAMES)
    (subject,) = one(objects, "ClusterRoleBinding", "gpufleet-agent-nvidia-configs")["subjects"]
    assert subject == {"kind": "ServiceAccount", "name": "gpufleet-agent", "namespace": "gpu"}


def test_only_what_is_followed_may_be_read() -> None:
    fewer = rendered({"agent.sharing.nvidiaConfigMaps": ["ops/gpus", "kube-system/gpus"]})
    (rule,) = one(fewer, "ClusterRole", "gpufleet-agent-nvidia-configs")["rules"]
    assert rule["resourceNames"] == ["gpus"]


@pytest.mark.parametrize(
    "sharing", [{"nvidiaConfigMaps": []}, {"configs": {"default": "a"}}, {"existingConfigMap": "mine"}]
)
def test_where_none_is_followed_there_is_no_right_to_any(sharing: Object) -> None:
    objects = rendered({"agent.sharing": sharing})
    (container,) = agent_pod(objects)["containers"]
    assert not [its for its in container["args"] if its.startswith("--nvidia-config-map=")]
    assert "gpufleet-agent-nvidia-configs" not in {its["metadata"]["name"] for its in objects}


@pytest.mark.parametrize(
    ("key", "value"),
    [("nvidia.com/gpu", "true"), ("nvidia.com/gpu", "present"), ("gpu", "true"), ("sku", "gpu")],
)
def test_the_agent_tolerates_the_taints_that_guides_teach(
    default: list[Object], key: str, value: str
) -> None:
    tolerations = [
        Toleration(its.get("key", ""), its["operator"], its.get("value", ""), its.get("effect", ""))
        for its in agent_pod(default)["tolerations"]
    ]
    for effect in ("NoSchedule", "NoExecute"):
        assert untolerated([Taint(key, value, effect)], tolerations) is None


def test_series_keep_their_own_pod_and_namespace(default: list[Object], full: list[Object]) -> None:
    assert not [its for its in default if its["kind"] == "ServiceMonitor"]
    on = rendered({"serviceMonitor.enabled": True, "serviceMonitor.additionalLabels": {"release": "kps"}})
    for component in ("scheduler", "agent"):
        monitor = one(on, "ServiceMonitor", f"gpufleet-{component}")
        service = one(on, "Service", f"gpufleet-{component}-metrics")
        (endpoint,) = monitor["spec"]["endpoints"]
        assert endpoint["honorLabels"] is True
        assert monitor["metadata"]["labels"]["release"] == "kps"
        assert matches(service["metadata"]["labels"], monitor["spec"]["selector"])
        assert endpoint["port"] == service["spec"]["ports"][0]["name"]
    assert one(full, "ServiceMonitor", "gpufleet-agent")["spec"]["endpoints"][0]["honorLabels"] is False


def test_metrics_and_probes_speak_https_with_a_certificate_from_a_secret(default: list[Object]) -> None:
    on = rendered({"metrics.tls.secretName": "tls", "serviceMonitor.enabled": True}, namespace="gpu")
    for component, pod, plain in (
        ("scheduler", scheduler_pod(on), scheduler_pod(default)),
        ("agent", agent_pod(on), agent_pod(default)),
    ):
        (container,), (before,) = pod["containers"], plain["containers"]
        (mount,) = [its for its in container["volumeMounts"] if its["name"] == "metrics-certificate"]
        assert mount["readOnly"] is True
        assert set(container["args"]) - set(before["args"]) >= {
            f"--metrics-certificate={mount['mountPath']}/tls.crt",
            f"--metrics-key={mount['mountPath']}/tls.key",
        }
        (volume,) = [its for its in pod["volumes"] if its["name"] == "metrics-certificate"]
        assert volume["secret"]["secretName"] == "tls"
        assert volume["secret"]["defaultMode"] == 0o440
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            assert container[probe]["httpGet"]["scheme"] == "HTTPS"
            assert "scheme" not in before[probe]["httpGet"]
        (endpoint,) = one(on, "ServiceMonitor", f"gpufleet-{component}")["spec"]["endpoints"]
        assert endpoint["scheme"] == "https"
        assert endpoint["tlsConfig"] == {
            "ca": {"secret": {"name": "tls", "key": "ca.crt"}},
            "serverName": f"gpufleet-{component}-metrics.gpu.svc",
        }


def test_how_prometheus_checks_the_certificate_can_be_said(full: list[Object]) -> None:
    for component in ("scheduler", "agent"):
        (endpoint,) = one(full, "ServiceMonitor", f"gpufleet-{component}")["spec"]["endpoints"]
        assert endpoint["tlsConfig"] == {"insecureSkipVerify": True}


def test_without_agents_nothing_of_them_is_left() -> None:
    left = [its for its in rendered({"agent.enabled": False}) if "agent" in its["metadata"]["name"]]
    assert left == []


def test_the_runtime_class_is_made_or_not() -> None:
    def classes(values: dict[str, str]) -> list[str]:
        objects = rendered(values)
        return [its["metadata"]["name"] for its in objects if its["kind"] == "RuntimeClass"]

    assert classes({"runtimeClass.create": "auto"}) == ["nvidia"]
    assert classes({"runtimeClass.create": "never"}) == []
    assert classes({"runtimeClass.create": "always"}) == ["nvidia"]


def test_a_network_policy_lets_the_metrics_in_and_the_api_server_out(full: list[Object]) -> None:
    for component in ("scheduler", "agent"):
        policy = one(full, "NetworkPolicy", f"gpufleet-{component}")["spec"]
        assert policy["ingress"][0]["ports"] == [{"port": "metrics", "protocol": "TCP"}]
        assert "from" in policy["ingress"][0]
        assert policy["egress"][0] == {"ports": [{"port": 6443, "protocol": "TCP"}]}
        # The agent's stores that are servers have a test of their own.
        assert len(policy["egress"]) == (2 if component == "agent" else 1)


def test_pods_start_on_nodes_that_the_image_is_for(default: list[Object], full: list[Object]) -> None:
    """An index of several images is for each node of them."""
    assert {spec["nodeSelector"]["kubernetes.io/arch"] for spec in pod_specs(default).values()} == {"amd64"}
    assert not [
        name for name, spec in pod_specs(full).items() if "kubernetes.io/arch" in spec["nodeSelector"]
    ]
    arm = pod_specs(rendered({"image.architectures": ["arm64"]}))
    assert {spec["nodeSelector"]["kubernetes.io/arch"] for spec in arm.values()} == {"arm64"}
