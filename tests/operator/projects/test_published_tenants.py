"""Cases of Capsule and of the benchmarks of multi-tenancy, asked by an owner of a real API server."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from gpufleet.localkube.cluster import LocalCluster
from gpufleet.simulation.object_patch import merge
from tests.kube.manifests.real_server import Person
from tests.operator.projects.real_projects import (
    POLICY,
    PROJECTS,
    QUOTA,
    VISION,
    is_ready,
    running_controller,
    write,
)
from tests.operator.projects.test_escalations import FULL, MERGE, OLGA, tolerating
from tests.operator.real_server import until
from tests.published_cases import expected, name_of, published_cases

BENCHMARKS = published_cases(__file__, "multi_tenancy_benchmarks")
CAPSULE = published_cases(__file__, "capsule")
GROUPS = {"networkpolicies": "networking.k8s.io", "roles": "rbac.authorization.k8s.io"}
GROUPS["rolebindings"] = GROUPS["roles"]


@pytest.fixture(scope="module", autouse=True)
def _there(installed: LocalCluster, admin: Person) -> None:
    """Project vision of owner olga, and two projects of others."""
    write(admin, **{**FULL, "images": {"policy": "Off"}})
    write(admin, "others", namespaces=["others"], members=[{"user": "zoe", "role": "Owner"}])
    write(admin, "vision-lab", namespaces=["vision-lab"], members=[{"user": "zoe", "role": "Owner"}])

    async def story() -> None:
        async with running_controller(installed):
            await until(
                lambda: all(is_ready(admin, one) for one in ("vision", "others", "vision-lab")), "made"
            )

    asyncio.run(story())


@pytest.fixture(scope="module")
def olga(installed: LocalCluster) -> Iterator[Person]:
    """The owner."""
    with Person(installed, "olga") as person:
        yield person


def path_of(case: dict[str, Any]) -> str:
    """Where a request goes; what it would write is not kept."""
    asked = str(case["ask"])
    if asked.startswith("./"):
        group = GROUPS.get(asked[2:].partition("/")[0])
        asked = (VISION if group is None else f"/apis/{group}/v1/namespaces/vision") + asked[1:]
    return asked if "body" not in case else f"{asked}?dryRun=All"


def asked_pod(case: dict[str, Any]) -> Any:
    """A pod that is right in all but what the case changes."""
    pod = tolerating()
    (container,) = pod["spec"]["containers"]
    spec = merge(pod["spec"], case.get("pod", {}))
    return {**pod, "spec": {**spec, "containers": [merge(container, case.get("container", {}))]}}


def answer(person: Person, case: dict[str, Any]) -> tuple[int, object]:
    """The answer of the API server."""
    if "project" in case:
        return person.merge(f"{PROJECTS}/vision?dryRun=All", {"spec": case["project"]})
    if "ask" not in case:
        return person.ask("POST", f"{VISION}/pods?dryRun=All", asked_pod(case))
    method = case.get("method", "POST" if "body" in case else "GET")
    kind = MERGE if method == "PATCH" else "application/json"
    return person.ask(method, path_of(case), case.get("body"), kind)


@pytest.mark.parametrize("case", [*BENCHMARKS["requests"], *CAPSULE["requests"]], ids=name_of)
def test_an_owner_is_answered_as_in_their_case(olga: Person, case: dict[str, Any]) -> None:
    status, said = answer(olga, case)
    # What is no right of an owner is refused with 403, and what a definition refuses with 422.
    words = {200: "allowed", 201: "allowed", 403: "refused", 422: "refused"}
    assert words.get(status) == expected(case), said


@pytest.mark.parametrize("case", BENCHMARKS["namespace"], ids=name_of)
def test_what_their_benchmarks_want_in_a_namespace(admin: Person, case: dict[str, Any]) -> None:
    if "key" in case:
        there = case["key"] in admin.ask("GET", QUOTA)[1]["spec"]["hard"]
    else:
        spec = admin.ask("GET", POLICY)[1]["spec"]
        peers = [peer for rule in spec["ingress"] for peer in rule["from"]]
        # Pods of the namespace itself alone.
        there = "Ingress" in spec["policyTypes"] and all("namespaceSelector" not in one for one in peers)
    assert ("is there" if there else "is not") == expected(case)


def test_the_owner_of_the_cases_is_one(admin: Person) -> None:
    assert OLGA in admin.ask("GET", f"{PROJECTS}/vision")[1]["spec"]["members"]
