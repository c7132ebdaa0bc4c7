"""What is read from a cluster: every kind that is served, without what nobody asks, and what was refused."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import cast

import msgspec
import pytest

from gpufleet.cli.main import ExitCode, main
from gpufleet.doctor.live.gathering import Gathered, gather
from gpufleet.kube.client import Client
from gpufleet.kube.listing import ALL, Page, Selection
from gpufleet.kube.resources import Kind
from gpufleet.kube.status import Forbidden, NotFound, Status
from gpufleet.model.taint import Taint
from tests.lint.linting import pod

NODE = {
    "metadata": {"name": "n", "labels": {"nvidia.com/gpu.product": "Tesla-T4"}, "managedFields": [{}]},
    "spec": {"taints": [{"key": "gpu", "value": "true", "effect": "NoSchedule"}]},
    "status": {"allocatable": {"nvidia.com/gpu": "4", "cpu": "8"}, "images": [{"names": ["a"]}]},
}
PLUGIN = {
    "metadata": {"name": "plugin", "namespace": "gpu"},
    "spec": {
        "template": {
            "spec": {
                "containers": [{"name": "c", "image": "nvcr.io/nvidia/k8s-device-plugin:v0.17.0"}],
                "volumes": [{"name": "config", "configMap": {"name": "plugin-config"}}],
            }
        }
    },
}
CONFIG = {"metadata": {"name": "plugin-config", "namespace": "gpu"}, "data": {"any": "version: v1"}}


class Server:
    """A client of a cluster with one node and a device plugin, where PriorityClasses may not be listed."""

    async def read(self, target: str) -> bytes:
        """The documents of discovery."""
        served = ["apps", "node.k8s.io", "scheduling.k8s.io", "custom.metrics.k8s.io"]
        documents = {
            "/version": {"gitVersion": "v1.37.0"},
            "/apis": {"groups": [{"name": name} for name in served]},
            "/apis/custom.metrics.k8s.io/v1beta2": {"resources": [{"name": "pods/queue_depth"}]},
        }
        return json.dumps(documents[target]).encode()

    async def versions(self, group: str) -> tuple[str, ...]:
        """Versions of a group."""
        return ("v1beta2",) if group == "custom.metrics.k8s.io" else ("v1",)

    async def kinds(self, group: str, version: str) -> tuple[Kind, ...]:
        """A few kinds."""
        names = {
            "": ("Node",),
            "apps": ("DaemonSet",),
            "node.k8s.io": ("RuntimeClass",),
            "scheduling.k8s.io": ("PriorityClass",),
        }
        return tuple(Kind(group, version, name.lower() + "s", name) for name in names[group])

    async def list_pages(self, kind: Kind, *, selection: Selection = ALL) -> AsyncIterator[Page]:
        """One page of each kind."""
        assert not selection.labels
        if kind.name == "PriorityClass":
            raise Forbidden(Status(code=403, message="may not list priorityclasses"))
        found = {"Node": NODE, "DaemonSet": PLUGIN}.get(kind.name)
        yield Page([msgspec.Raw(json.dumps(found).encode())] if found else None)

    async def get(self, kind: Kind, name: str, *, namespace: str = "") -> bytes:
        """The plugin's ConfigMap."""
        if (kind.name, namespace, name) == ("ConfigMap", "gpu", "plugin-config"):
            return json.dumps(CONFIG).encode()
        raise NotFound(Status(code=404))


def found() -> Gathered:
    return asyncio.run(gather(cast("Client", Server())))


def test_a_node_has_its_labels_taints_and_gpus() -> None:
    (node,) = found().cluster.nodes
    assert (node.name, node.gpus, node.taints) == ("n", {"nvidia.com/gpu": 4}, (Taint("gpu", "true"),))
    assert node.labels == {"nvidia.com/gpu.product": "Tesla-T4"}


def test_what_servers_add_for_themselves_is_not_kept() -> None:
    node = next(one for one in found().objects if one.kind == "Node")
    assert not node.root.at("metadata", "managedFields").exists
    assert not node.root.at("status", "images").exists


def test_a_kind_that_was_listed_and_is_empty_is_known() -> None:
    assert found().cluster.knows("RuntimeClass")
    assert found().cluster.names("RuntimeClass") == frozenset()


def test_a_kind_that_is_not_served_is_known_to_be_empty() -> None:
    assert found().cluster.knows("ClusterPolicy")


def test_what_may_not_be_listed_is_unknown_and_says_why() -> None:
    assert found().refused == {"PriorityClass": "may not list priorityclasses"}
    assert not found().cluster.knows("PriorityClass")


def test_config_maps_are_read_only_where_the_gpu_stack_names_them() -> None:
    maps = [one for one in found().objects if one.kind == "ConfigMap"]
    assert [(one.namespace, one.name) for one in maps] == [("gpu", "plugin-config")]


def test_the_metrics_that_are_served_are_known_by_name() -> None:
    assert found().metrics == {"custom.metrics.k8s.io": frozenset({"pods/queue_depth"})}


def test_a_cluster_that_cannot_be_reached_is_the_world_failing(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = {"server": "http://127.0.0.1:1"}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": server}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    }
    monkeypatch.chdir(str(tmp_path))
    for name, text in (("config", json.dumps(config)), ("pod.yaml", pod())):
        with open(name, "w", encoding="utf-8") as file:  # noqa: PTH123  in the folder just entered
            file.write(text)
    assert main(["lint", "pod.yaml", "--live", "--kubeconfig", "config"]) == ExitCode.WORLD_FAILED
    assert main(["doctor", "--kubeconfig", "config"]) == ExitCode.WORLD_FAILED


def test_a_file_and_a_live_cluster_are_one_too_many() -> None:
    assert main(["lint", "a.yaml", "--live", "--cluster", "b.yaml"]) == ExitCode.BAD_INPUT
