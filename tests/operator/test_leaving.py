"""What is left of gpufleet on nodes: found by who wrote it, taken back whole, and nothing of others."""

import asyncio
from typing import Any

import msgspec
import pytest

from gpufleet.kube.client import Client, PatchType
from gpufleet.kube.resources import NODES
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.model.identifiers import FleetPolicyName, NodeName
from gpufleet.operator.leaving import (
    LeavingNode,
    Leftover,
    definitions_gone,
    delete_definitions,
    leftover,
    leftovers,
    take_back,
)
from gpufleet.operator.rollout.stamp import RolloutPhase, Stamp
from tests import waiting
from tests.kube.manifests.real_server import Person
from tests.operator.builders import node_object
from tests.operator.real_server import NODES as PATH
from tests.operator.real_server import Stage, following, play, until

STAMP = Stamp(FleetPolicyName("p"), "new", "old", RolloutPhase.CHANGING, 1, 2, is_cordon_ours=True)
CORDON_OURS = msgspec.json.encode(STAMP).decode()
CORDON_OF_OTHERS = msgspec.json.encode(msgspec.structs.replace(STAMP, is_cordon_ours=False)).decode()
PARTS = "nvidia.com/gpu.deploy.dcgm"


def node(**written: Any) -> LeavingNode:
    """A node as it comes over the wire."""
    made = node_object("n1", **written)
    return msgspec.json.decode(msgspec.json.encode(made), type=LeavingNode)


def cordoned(annotation: str | None) -> LeavingNode:
    """A cordoned node with this stamp of a rollout."""
    made = node_object("n1", annotations=None if annotation is None else {"gpufleet.io/rollout": annotation})
    made.setdefault("spec", {})["unschedulable"] = True
    return msgspec.json.decode(msgspec.json.encode(made), type=LeavingNode)


def test_a_node_without_anything_of_gpufleet_is_left_alone() -> None:
    assert leftover(node()) is None


def test_labels_are_found_by_their_manager_and_not_by_their_name() -> None:
    found = leftover(node(labels={"tier": "gold", "zone": "a"}, ours=("tier",)))
    assert found == Leftover(NodeName("n1"), labels=("tier",), managers=("gpufleet-policy",))


def test_only_taints_that_the_annotation_names_are_ours() -> None:
    taints = (("gpu-only", "", "NoSchedule"), ("repair", "", "NoExecute"))
    found = leftover(node(taints=taints, annotations={"gpufleet.io/policy-taints": "gpu-only:NoSchedule"}))
    assert found is not None
    assert found.taints == (("gpu-only", "NoSchedule"),)
    assert found.words() == ("taint gpu-only:NoSchedule", "annotation gpufleet.io/policy-taints")


@pytest.mark.parametrize(
    ("annotation", "ours"),
    [(CORDON_OURS, True), (CORDON_OF_OTHERS, False), ("not JSON", False), (None, False)],
)
def test_a_cordon_goes_only_where_the_stamp_proves_that_it_is_the_rollouts(
    annotation: str | None, ours: bool
) -> None:
    found = leftover(cordoned(annotation))
    assert (found is not None and found.is_cordoned) is ours


def left_of(found: list[Leftover], name: str) -> list[Leftover]:
    """What is left on one node."""
    return [one for one in found if one.node == name]


def test_a_node_in_the_middle_of_everything_is_schedulable_and_clean_afterwards(
    installed: LocalCluster, stage: Stage
) -> None:
    name = stage.node("a", zone="a")
    policy = stage.policy("p", labels={"tier": "gold"}, taints=[{"key": "gpu-only", "effect": "NoSchedule"}])

    async def story(client: Client) -> None:
        async with following(client):
            await until(lambda: stage.condition(policy, "Ready") == ("True", "AsThePolicySays"), "applied")
        await be_cut_off(client, name)
        before = left_of([one async for one in leftovers(client)], name)
        await take_back(client, [NodeName(name)])
        after = left_of([one async for one in leftovers(client)], name)
        assert (len(before), after) == (1, [])
        assert before[0].is_cordoned
        assert {"tier", "nvidia.com/gpu.count"} == set(before[0].labels)

    play(installed, story)
    found = stage.of(name)
    assert stage.labels(name) == {"zone": "a", PARTS: "true"}
    assert stage.taints(name) == [("example.com/repair", "NoExecute")]
    assert "unschedulable" not in found["spec"]
    assert set(found["metadata"]["annotations"]) == {"example.com/note", "node.alpha.kubernetes.io/ttl"}
    assert [one["type"] for one in found["status"]["conditions"]] == ["Ready"]


async def be_cut_off(client: Client, name: str) -> None:
    """What an agent, a scheduler, a rollout and others have on a node when they end."""
    labels = {"nvidia.com/gpu.count": "8"}
    body: dict[str, Any] = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
    await client.patch(
        NODES, name, body, patch_type=PatchType.APPLY, field_manager="gpufleet-agent-labels", force=True
    )
    node = msgspec.json.decode(await client.get(NODES, name))
    foreign = {"key": "example.com/repair", "effect": "NoExecute"}
    taints = [one for one in node["spec"].get("taints", []) if one["key"] != foreign["key"]] + [foreign]
    notes = {
        "gpufleet.io/rollout": CORDON_OURS,
        "gpufleet.io/gpu-problems": "GPU-1: Xid 79",
        "gpufleet.io/paused-operands": PARTS,
        "example.com/note": "of others",
    }
    spec = {"unschedulable": True, "taints": taints}
    paused = {PARTS: "paused-for-driver-upgrade"}
    await client.patch(NODES, name, {"metadata": {"annotations": notes, "labels": paused}, "spec": spec})
    kinds = ("Ready", "gpufleet.io/GPUHealthy", "gpufleet.io/PodsRejected")
    conditions = [{"type": kind, "status": "True"} for kind in kinds]
    await client.patch(NODES, name, {"status": {"conditions": conditions}}, subresource="status")


def test_it_may_be_killed_anywhere_and_done_again(installed: LocalCluster, stage: Stage) -> None:
    """Whatever was taken back before a kill, the second time takes back the rest."""
    name = stage.node("a")

    async def story(client: Client) -> None:
        for kill_after_writes in range(4):
            await be_cut_off(client, name)
            task = asyncio.ensure_future(take_back(Writing(client, kill_after_writes), [NodeName(name)]))  # type: ignore[arg-type]
            await asyncio.wait([task])
            await take_back(client, [NodeName(name)])
            assert left_of([one async for one in leftovers(client)], name) == []

    play(installed, story)


class Writing:
    """A client whose process ends after so many writes."""

    def __init__(self, client: Client, writes: int) -> None:
        self.client = client
        self.left = writes
        self.get = client.get

    async def patch(self, *arguments: Any, **more: Any) -> bytes:
        """Write, while there is life."""
        if not self.left:
            raise asyncio.CancelledError
        self.left -= 1
        return await self.client.patch(*arguments, **more)


def test_a_node_that_is_gone_is_no_failure(installed: LocalCluster) -> None:
    async def story(client: Client) -> None:
        await take_back(client, [NodeName("never-was")])

    play(installed, story)


DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/example.com/v1/widgets"


def widgets() -> dict[str, Any]:
    """A definition of others."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Cluster",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }


def status_of(cluster: LocalCluster, method: str, path: str, body: object = None) -> int:
    """The status of an answer, which is no JSON where the path is not served."""
    with cluster.api() as api:
        return api.request(method, path, body)[0]


def test_a_definition_is_gone_only_when_its_last_object_is(installed: LocalCluster, admin: Person) -> None:
    """The API server answers before it has deleted the objects, and a finalizer keeps one for longer."""
    held = {"name": "held", "finalizers": ["example.com/slow"]}
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": held}
    assert admin.ask("POST", DEFINITIONS, widgets())[0] == 201
    waiting.until(
        lambda: status_of(installed, "POST", WIDGETS, widget) == 201, 30.0, "widgets are not served"
    )
    names = ("widgets.example.com", "never.example.com")

    async def story(client: Client) -> None:
        assert await delete_definitions(client, names) == names[:1]
        assert await definitions_gone(client, names, limit_s=1.0) == names[:1]
        released = await asyncio.to_thread(admin.merge, f"{WIDGETS}/held", {"metadata": {"finalizers": None}})
        assert released[0] == 200
        assert await definitions_gone(client, names, limit_s=30.0) == ()

    play(installed, story)
    assert status_of(installed, "GET", f"{WIDGETS}/held") == 404


def test_a_person_sees_what_is_left_before_it_goes(
    installed: LocalCluster, stage: Stage, admin: Person, capsys: pytest.CaptureFixture[str]
) -> None:
    from gpufleet.cli.main import main

    name = stage.node("a")

    async def story(client: Client) -> None:
        await be_cut_off(client, name)

    play(installed, story)
    options = [f"--kubeconfig={installed.kubeconfig}"]
    assert main(["leave", *options]) == 0
    said = capsys.readouterr()
    assert f"{name}:\n  label nvidia.com/gpu.count\n" in said.out
    assert "  cordon of a rollout\n" in said.out
    assert "Nothing was changed; --yes does it." in said.err
    assert admin.ask("GET", f"{PATH}/{name}")[1]["spec"]["unschedulable"] is True
    assert main(["leave", "--yes", *options]) == 0
    assert "taken back on 1 node;" in capsys.readouterr().err
    assert "unschedulable" not in admin.ask("GET", f"{PATH}/{name}")[1]["spec"]
