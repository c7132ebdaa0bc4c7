"""Projects on a real API server: what is made, repaired and left alone."""

import asyncio
import contextlib
import itertools
import random
from typing import Any

import pytest

from gpufleet.kube.client import Client
from gpufleet.kube.clock import MachineClock
from gpufleet.kube.connection import ClusterChoice, connect
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.operator.projects.project_controller import ProjectController
from tests.kube.codec.project_cases import PROJECT_CASES, ProjectCase
from tests.kube.manifests.real_server import Person
from tests.operator.projects.real_projects import (
    BINDING,
    NAMESPACES,
    OPERATOR,
    POLICY,
    PROJECTS,
    QUEUES,
    QUOTA,
    RBAC,
    VISION,
    condition,
    following,
    is_ready,
    made,
    reason,
    running_controller,
    write,
)
from tests.operator.real_server import KillingTransport, until


@pytest.mark.parametrize("case", PROJECT_CASES, ids=str)
def test_the_server_takes_what_the_codec_takes(admin: Person, case: ProjectCase) -> None:
    status, answer = admin.ask("POST", f"{PROJECTS}?dryRun=All", case.object())
    if case.unreadable or (case.refused and not case.stored):
        assert status in {400, 422}, answer
    else:
        assert status == 201, answer


FULL: dict[str, Any] = {
    "members": [{"user": "ann", "role": "Member"}],
    "namespaceQuota": {"requests.nvidia.com/gpu": 8, "limits.memory": "1024Gi"},
    "containerDefaults": {"memory": "1024Mi"},
    "network": {"egress": ["0.0.0.0/0"]},
    "images": {"policy": "Warn", "registries": ["registry.example.com"]},
    "idleRule": {"after": "2h"},
}


def test_a_project_is_made_repaired_and_at_rest(installed: LocalCluster, admin: Person) -> None:
    write(admin, **FULL)

    async def story() -> None:
        async with running_controller(installed) as projects:
            await until(lambda: is_ready(admin), "made")
            await asyncio.sleep(1)
            writes = projects.writes
            await asyncio.sleep(3)
            assert projects.writes == writes
            await drift(admin)

    asyncio.run(story())
    labels = admin.ask("GET", VISION)[1]["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"
    assert labels["theirs"] == "stays"
    assert admin.ask("GET", QUOTA)[1]["spec"]["hard"] == {
        "limits.memory": "1Ti",
        "pods": "7",
        "requests.nvidia.com/gpu": "8",
        "services.loadbalancers": "0",
        "services.nodeports": "0",
    }


async def drift(admin: Person) -> None:
    """Change and delete what is the project's, add what is not, and wait for the repair."""
    enforce = "pod-security.kubernetes.io/enforce"
    assert admin.merge(VISION, {"metadata": {"labels": {enforce: "privileged", "theirs": "stays"}}})[0] == 200
    assert admin.merge(QUOTA, {"spec": {"hard": {"requests.nvidia.com/gpu": "99", "pods": "7"}}})[0] == 200
    for path in (POLICY, BINDING):
        assert admin.ask("DELETE", path)[0] == 200

    def is_repaired() -> bool:
        labels = admin.ask("GET", VISION)[1]["metadata"]["labels"]
        hard = admin.ask("GET", QUOTA)[1]["spec"]["hard"]
        there = all(admin.ask("GET", path)[0] == 200 for path in (POLICY, BINDING))
        return there and labels[enforce] == "restricted" and hard["requests.nvidia.com/gpu"] == "8"

    await until(is_repaired, "repaired")


def test_what_a_project_says_no_more_is_taken_away(installed: LocalCluster, admin: Person) -> None:
    async def story() -> None:
        async with running_controller(installed):
            write(admin, **FULL)
            await until(lambda: is_ready(admin), "made")
            write(admin)
            await until(lambda: is_ready(admin), "changed")

    asyncio.run(story())
    assert "requests.nvidia.com/gpu" not in admin.ask("GET", QUOTA)[1]["spec"].get("hard", {})
    assert not admin.ask("GET", BINDING)[1].get("subjects")
    assert "gpufleet.io/image-policy" not in admin.ask("GET", VISION)[1]["metadata"]["labels"]


def test_a_namespace_of_others_is_left_as_it_is(installed: LocalCluster, admin: Person) -> None:
    made(admin, NAMESPACES, {"metadata": {"name": "theirs"}})
    before = admin.ask("GET", f"{NAMESPACES}/theirs")[1]
    write(admin, "greedy", namespaces=["theirs"])

    async def story() -> None:
        async with running_controller(installed):
            await until(lambda: reason(admin, "greedy") == "NamespaceTaken", "it says so")

    asyncio.run(story())
    assert admin.ask("GET", f"{NAMESPACES}/theirs")[1] == before
    assert admin.ask("GET", f"{NAMESPACES}/theirs/resourcequotas/gpufleet-project")[0] == 404


def subjects(admin: Person, namespace: str, binding: str = "gpufleet-project-members") -> list[str]:
    """Who is bound in a namespace."""
    found = admin.ask("GET", f"{RBAC}/namespaces/{namespace}/rolebindings/{binding}")[1]
    return [one["name"] for one in found.get("subjects", ())]


def test_a_namespace_that_is_named_no_more_keeps_its_content_and_loses_its_bindings(
    installed: LocalCluster, admin: Person
) -> None:
    members = [{"user": "ann", "role": "Member"}]

    async def story() -> None:
        async with running_controller(installed):
            write(admin, "two", namespaces=["two-a", "two-b"], members=members)
            await until(lambda: is_ready(admin, "two"), "made")
            assert subjects(admin, "two-b") == ["ann"]
            write(admin, "two", namespaces=["two-a"], members=members)
            await until(lambda: not subjects(admin, "two-b"), "released")
            await until(lambda: is_ready(admin, "two"), "and ready")

    asyncio.run(story())
    assert subjects(admin, "two-a") == ["ann"]
    assert admin.ask("GET", f"{NAMESPACES}/two-b/resourcequotas/gpufleet-project")[0] == 200
    assert admin.ask("GET", f"{PROJECTS}/two")[1]["status"]["namespaces"] == ["two-a", "two-b"]


def test_a_project_that_is_gone_gives_nobody_rights(installed: LocalCluster, admin: Person) -> None:
    owners = f"{RBAC}/clusterrolebindings/gpufleet-project:gone"

    async def story() -> None:
        async with running_controller(installed):
            write(admin, "gone", namespaces=["gone"], members=[{"user": "olga", "role": "Owner"}])
            await until(lambda: is_ready(admin, "gone"), "made")
            assert subjects(admin, "gone") == ["olga"]
            assert [one["name"] for one in admin.ask("GET", owners)[1]["subjects"]] == ["olga"]
            assert admin.ask("DELETE", f"{PROJECTS}/gone")[0] == 200
            await until(lambda: not subjects(admin, "gone"), "released")
            await until(lambda: not admin.ask("GET", owners)[1].get("subjects"), "owners, too")

    asyncio.run(story())


def test_a_namespace_of_another_project_is_left_to_it(installed: LocalCluster, admin: Person) -> None:
    async def story() -> None:
        async with running_controller(installed):
            write(admin, "first", namespaces=["shared"], members=[{"user": "ann", "role": "Member"}])
            await until(lambda: is_ready(admin, "first"), "made")
            write(admin, "second", namespaces=["shared"], members=[{"user": "bob", "role": "Member"}])
            await until(lambda: reason(admin, "second") == "NamespaceTaken", "it says so")

    asyncio.run(story())
    assert "belongs to project first" in condition(admin, "second")["message"]
    assert subjects(admin, "shared") == ["ann"]


def test_a_project_makes_its_queue_and_keeps_it(installed: LocalCluster, admin: Person) -> None:
    own = {"quotas": [{"resource": "gpu", "nominal": 8, "hardLimit": "16"}]}
    path = f"{QUEUES}/with-queue"

    def nominal() -> object:
        return admin.ask("GET", path)[1].get("spec", {}).get("quotas", [{}])[0].get("nominal")

    async def story() -> None:
        async with running_controller(installed):
            write(admin, "with-queue", namespaces=["queued"], ownQueue=own)
            await until(lambda: is_ready(admin, "with-queue"), "made")
            assert (
                admin.merge(path, {"spec": {"quotas": [{"resource": "gpu", "nominal": 99}], "weight": 3}})[0]
                == 200
            )
            await until(lambda: nominal() == "8", "repaired")

    asyncio.run(story())
    queue = admin.ask("GET", path)[1]
    assert queue["spec"]["quotas"] == [{"resource": "gpu", "nominal": "8", "hardLimit": "16"}]
    assert queue["spec"]["weight"] == 3
    assert queue["spec"]["namespaceSelector"] == {"matchLabels": {"gpufleet.io/project": "with-queue"}}
    labels = admin.ask("GET", f"{NAMESPACES}/queued")[1]["metadata"]["labels"]
    assert labels["gpufleet.io/queue"] == "with-queue"


def test_a_queue_of_others_is_left_as_it_is(installed: LocalCluster, admin: Person) -> None:
    made(
        admin,
        QUEUES,
        {
            "apiVersion": "gpufleet.io/v1alpha1",
            "kind": "FleetQueue",
            "metadata": {"name": "old"},
            "spec": {"weight": 2},
        },
    )
    before = admin.ask("GET", f"{QUEUES}/old")[1]

    async def story() -> None:
        async with running_controller(installed):
            write(admin, "late", namespaces=["late"], queue="old", ownQueue={})
            await until(lambda: reason(admin, "late") == "QueueTaken", "it says so")

    asyncio.run(story())
    assert admin.ask("GET", f"{QUEUES}/old")[1] == before


def test_what_an_ending_project_has_stays_without_rights(installed: LocalCluster, admin: Person) -> None:
    async def story() -> None:
        async with running_controller(installed):
            write(admin, "ends", namespaces=["ends"], members=[{"user": "ann", "role": "Member"}])
            await until(lambda: is_ready(admin, "ends"), "made")
            ending = {"metadata": {"annotations": {"gpufleet.io/project-ending": "true"}}}
            assert admin.merge(f"{PROJECTS}/ends", ending)[0] == 200
            await until(lambda: condition(admin, "ends")["reason"] == "Ending", "it says so")
            await until(lambda: not subjects(admin, "ends"), "nobody is bound")
            assert admin.ask("DELETE", f"{NAMESPACES}/ends")[0] == 200
            await until(lambda: admin.ask("GET", f"{NAMESPACES}/ends")[0] == 404, "gone")
            await asyncio.sleep(2)

    asyncio.run(story())
    assert admin.ask("GET", f"{NAMESPACES}/ends")[0] == 404


def test_killed_at_any_write_the_next_leader_goes_on(installed: LocalCluster, admin: Person) -> None:
    """With nothing in memory: the next process makes what the one before did not."""
    own = {"quotas": [{"resource": "gpu", "nominal": "8"}]}
    write(admin, "restless", namespaces=["restless"], members=[{"user": "o", "role": "Owner"}], ownQueue=own)

    async def story() -> None:
        async with connect(
            ClusterChoice(installed.kubeconfig_for(OPERATOR, ())), connections=12
        ) as connection:
            client, kills = connection.client, 0
            for at, after in itertools.product(range(1, 8), (False, True)):
                transport = KillingTransport(client.transport, at, after=after)
                dying = Client(transport, MachineClock(), random.Random(at))
                task = asyncio.ensure_future(ProjectController(dying, lambda: True).run())
                done, _ = await asyncio.wait({task}, timeout=2)
                if not done:
                    task.cancel()
                    with contextlib.suppress(asyncio.CancelledError):
                        await task
                    continue
                kills += 1
                assert "Killed" in repr(task.exception())
            assert kills >= 2
            async with following(client):
                await until(lambda: is_ready(admin, "restless"), "ready")

    asyncio.run(story())
    assert subjects(admin, "restless") == ["o"]
    assert admin.ask("GET", f"{QUEUES}/restless")[0] == 200


def test_a_project_of_another_release_is_told_and_left_as_it_is(
    installed: LocalCluster, admin: Person
) -> None:
    """A definition of a later release lets in what this one cannot read."""
    definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gpuprojects.gpufleet.io"
    members = [{"user": "ann", "role": "Member"}]

    async def story() -> None:
        async with running_controller(installed):
            write(admin, "later", namespaces=["later"], members=members)
            await until(lambda: is_ready(admin, "later"), "made")
            before = admin.ask("GET", definition)[1]
            loose = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
            versions = [{**one, "schema": {"openAPIV3Schema": loose}} for one in before["spec"]["versions"]]
            assert admin.merge(definition, {"spec": {"versions": versions}})[0] == 200
            try:
                odd = {"spec": {"namespaces": "all of them"}}
                await until(lambda: admin.merge(f"{PROJECTS}/later", odd)[0] == 200, "it is let in")
                await until(lambda: reason(admin, "later") == "Refused", "it is told")
            finally:
                assert admin.merge(f"{PROJECTS}/later", {"spec": {"namespaces": ["later"]}})[0] == 200
                kept = {"spec": {"versions": before["spec"]["versions"]}}
                assert admin.merge(definition, kept)[0] == 200
            assert subjects(admin, "later") == ["ann"]

    asyncio.run(story())
