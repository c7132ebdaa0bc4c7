"""The operator on a real API server: what it writes, what it leaves, and what a kill leaves behind."""

import asyncio
import contextlib
import random

import pytest

from gpufleet.kube.client import Client
from gpufleet.kube.clock import MachineClock
from gpufleet.kube.connection import ClusterChoice, connect
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.operator.service import Following, Operator
from tests.chart import rendering
from tests.operator.builders import DIGEST
from tests.operator.real_server import (
    FOREIGN_TAINT,
    GOLD,
    NODES,
    POLICIES,
    RBAC,
    TAINTS,
    AlwaysLeads,
    KillingTransport,
    Stage,
    following,
    play,
    until,
)


def test_nodes_become_what_a_policy_says_and_nothing_is_written_at_rest(
    installed: LocalCluster, stage: Stage
) -> None:
    node = stage.node("a")
    policy = stage.policy("p", labels=GOLD, taints=TAINTS, sharingConfig="small")

    async def story(client: Client) -> None:
        async with following(client) as leader:
            await until(lambda: stage.condition(policy, "Ready") == ("True", "AsThePolicySays"), "ready")
            rounds, before = leader.rounds, (stage.of(node), stage.status(policy))
            await asyncio.sleep(2)
            assert (stage.of(node), stage.status(policy)) == before
            assert leader.rounds - rounds <= 1

    play(installed, story)
    assert stage.labels(node) == {**GOLD, "nvidia.com/device-plugin.config": "small"}
    assert stage.taints(node) == [("gpu-only", "NoSchedule")]
    status = stage.status(policy)
    assert (status["observedGeneration"], status["selected"]) == (1, 1)
    assert status["nodes"][0]["phase"] == "Applied"


def test_what_others_wrote_is_neither_overwritten_nor_taken_away(
    installed: LocalCluster, stage: Stage
) -> None:
    node = stage.node("a", tier="tin", zone="a")
    # Not written by creating the node, which the node's lifecycle admission may change.
    assert stage.admin.merge(f"{NODES}/{node}", {"spec": {"taints": [FOREIGN_TAINT]}})[0] == 200
    policy = stage.policy("p", labels={**GOLD, "zone": "a", "pool": "x"}, taints=TAINTS)

    async def story(client: Client) -> None:
        async with following(client):
            await until(lambda: stage.condition(policy, "Degraded") == ("True", "ForeignValue"), "conflict")
            await until(lambda: stage.labels(node).get("pool") == "x", "the others are written")
            assert stage.labels(node)["tier"] == "tin"
            message = stage.status(policy)["nodes"][0]["message"]
            assert "label tier is tin, set by" in message
            assert stage.admin.ask("DELETE", f"{POLICIES}/{policy}")[0] == 200
            await until(lambda: "pool" not in stage.labels(node), "ours are taken back")
            await until(lambda: stage.taints(node) == [("example.com/repair", "NoExecute")], "our taint too")

    play(installed, story)
    assert stage.labels(node) == {"tier": "tin", "zone": "a"}
    (foreign,) = (one for one in stage.of(node)["spec"]["taints"] if one["key"] == "example.com/repair")
    assert foreign["timeAdded"] == FOREIGN_TAINT["timeAdded"]
    assert "gpufleet.io/policy-taints" not in stage.of(node)["metadata"].get("annotations", {})


def test_contradictions_leave_a_node_as_it_is_and_both_policies_say_so(
    installed: LocalCluster, stage: Stage
) -> None:
    node = stage.node("a")
    first = stage.policy("first", labels=GOLD)

    async def story(client: Client) -> None:
        async with following(client):
            await until(lambda: stage.labels(node) == GOLD, "the first is applied")
            second = stage.policy("second", labels={"tier": "tin"})
            for policy in (first, second):
                await until(
                    lambda policy=policy: stage.condition(policy, "Degraded") == ("True", "Contradiction"),  # type: ignore[misc]
                    "both say so",
                )
            assert stage.labels(node) == GOLD
            assert stage.admin.ask("DELETE", f"{POLICIES}/{first}")[0] == 200
            await until(lambda: stage.labels(node) == {"tier": "tin"}, "the second holds alone")

    play(installed, story)


def test_a_node_that_opts_out_stays_as_it_is(installed: LocalCluster, stage: Stage) -> None:
    node = stage.node("a")
    policy = stage.policy("p", labels=GOLD)

    async def story(client: Client) -> None:
        async with following(client):
            await until(lambda: stage.labels(node) == GOLD, "applied")
            out = {"metadata": {"labels": {"gpufleet.io/fleet-policy": "ignore"}}}
            assert stage.admin.merge(f"{NODES}/{node}", out)[0] == 200
            await until(lambda: stage.status(policy)["nodes"][0]["phase"] == "OptedOut", "it says so")
            assert stage.admin.ask("DELETE", f"{POLICIES}/{policy}")[0] == 200
            await asyncio.sleep(1)

    play(installed, story)
    assert stage.labels(node)["tier"] == "gold"


def test_a_driver_is_not_changed_on_a_node_that_is_not_ready_and_the_status_says_so(
    installed: LocalCluster, stage: Stage
) -> None:
    stage.node("a")
    policy = stage.policy("p", driver={"source": "Image", "image": DIGEST})

    async def story(client: Client) -> None:
        async with following(client):
            await until(lambda: stage.condition(policy, "Ready") == ("False", "RolloutNeeded"), "told")

    play(installed, story)
    assert "not ready" in stage.status(policy)["rollout"]["reason"]


def test_a_node_that_was_just_deleted_is_not_made_again(installed: LocalCluster, stage: Stage) -> None:
    node = stage.node("a")
    stage.policy("p", labels=GOLD)

    async def story(client: Client) -> None:
        found = Following(client, AlwaysLeads(), "gpufleet-system")  # type: ignore[arg-type]
        tasks = [asyncio.ensure_future(mirror.run()) for mirror in found.mirrors]
        for mirror in found.mirrors:
            await mirror.wait_listed()
        for task in tasks:
            task.cancel()
        assert stage.admin.ask("DELETE", f"{NODES}/{node}")[0] == 200
        await found.turn()

    play(installed, story)
    assert stage.admin.ask("GET", f"{NODES}/{node}")[0] == 404


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_killed_at_any_write_the_next_process_ends_in_the_same_state(
    installed: LocalCluster, stage: Stage, *, after: bool
) -> None:
    nodes = [stage.node(name) for name in ("a", "b")]
    policy = stage.policy("p", labels=GOLD, taints=TAINTS)

    async def story(client: Client) -> None:
        kills = 0
        for at in range(1, 20):
            transport = KillingTransport(client.transport, at, after=after)
            dying = Client(transport, MachineClock(), random.Random(at))
            found = Following(dying, AlwaysLeads(), "gpufleet-system")  # type: ignore[arg-type]
            task = asyncio.ensure_future(found.run())
            done, _ = await asyncio.wait({task}, timeout=3)
            if not done:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
                break
            kills += 1
            assert "Killed" in repr(task.exception())
        assert kills >= 2
        async with following(client):
            await until(lambda: stage.condition(policy, "Ready") == ("True", "AsThePolicySays"), "ready")

    play(installed, story)
    for node in nodes:
        assert stage.labels(node) == GOLD
        assert stage.taints(node) == [("gpu-only", "NoSchedule")]
        assert stage.of(node)["metadata"]["annotations"]["gpufleet.io/policy-taints"] == "gpu-only:NoSchedule"


def test_one_process_leads_and_the_next_one_takes_over(installed: LocalCluster, stage: Stage) -> None:
    node = stage.node("a")
    stage.policy("p", labels=GOLD)

    async def story(client: Client) -> None:
        first, second = (Operator(client, "gpufleet-system", name) for name in ("first", "second"))
        leading = asyncio.ensure_future(first.run())
        await until(lambda: stage.labels(node) == GOLD, "the first leads")
        enter_standby = asyncio.ensure_future(second.run())
        await asyncio.sleep(1)
        assert second.leading is None
        leading.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await leading
        await until(lambda: second.leading is not None, "the second leads")
        enter_standby.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await enter_standby

    play(installed, story)


def test_the_rights_of_the_chart_are_enough(installed: LocalCluster, stage: Stage) -> None:
    objects = rendering.rendered({"operator": {"enabled": True}})
    role = rendering.one(objects, "ClusterRole", "gpufleet-operator")
    roles = f"/apis/{RBAC}/v1/clusterroles"
    binding = {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "operator-of-a-test"},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "gpufleet-operator"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "operator-of-a-test"}],
    }
    assert stage.admin.ask("POST", roles, role)[0] == 201
    assert stage.admin.ask("POST", roles.replace("roles", "rolebindings"), binding)[0] == 201
    node = stage.node("a")
    policy = stage.policy("p", labels=GOLD, taints=TAINTS)

    async def story() -> None:
        choice = ClusterChoice(installed.kubeconfig_for("operator-of-a-test", ()))
        async with connect(choice, connections=12) as connection, following(connection.client):
            await until(lambda: stage.condition(policy, "Ready") == ("True", "AsThePolicySays"), "ready")

    asyncio.run(story())
    assert stage.labels(node) == GOLD
