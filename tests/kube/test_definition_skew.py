"""Definitions of another release: each field that the server would drop is named, and nothing else."""

import asyncio
import copy
from collections.abc import Iterator
from typing import Any

import pytest

from gpufleet.kube.client import Client
from gpufleet.kube.definition_skew import missing_fields, missing_in, words
from gpufleet.kube.manifests import definitions
from gpufleet.kube.resources import FLEET_POLICIES, FLEET_QUEUES, NODE_DEVICES, OWN_KINDS
from gpufleet.localkube.cluster import LocalCluster
from tests import waiting
from tests.kube.manifests.real_server import Person, install_all
from tests.kube.test_installation import connected
from tests.localkube.cluster import a_cluster

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
PATIENCE_S = 30.0


def an_object(**properties: Any) -> dict[str, Any]:
    """A schema of an object."""
    return {"type": "object", "properties": properties}


TEXT = {"type": "string"}


def test_equal_schemas_lack_nothing() -> None:
    schema = an_object(spec=an_object(a=TEXT, b={"type": "array", "items": an_object(c=TEXT)}))
    assert list(missing_in(schema, schema)) == []


@pytest.mark.parametrize(
    ("shipped", "served", "missing"),
    [
        (an_object(spec=an_object(a=TEXT, b=TEXT)), an_object(spec=an_object(a=TEXT)), ["spec.b"]),
        (an_object(a={"items": an_object(c=TEXT)}), an_object(a={"items": an_object(d=TEXT)}), ["a[].c"]),
        (an_object(a={"additionalProperties": an_object(c=TEXT)}), an_object(a={}), ["a{}"]),
        (an_object(a=an_object(b=TEXT)), an_object(), ["a"]),
    ],
)
def test_what_the_server_would_drop_is_named_by_its_path(
    shipped: dict[str, Any], served: dict[str, Any], missing: list[str]
) -> None:
    assert list(missing_in(shipped, served)) == missing


def test_a_newer_definition_and_one_that_keeps_all_lack_nothing() -> None:
    older = an_object(a=TEXT)
    assert list(missing_in(older, an_object(a=TEXT, b=TEXT))) == []
    assert list(missing_in(older, {"type": "object", "x-kubernetes-preserve-unknown-fields": True})) == []


def test_many_fields_are_a_sentence_of_bearable_length() -> None:
    assert "would drop f0, f1, f2, f3, f4 and 35 more:" in words(tuple(f"f{place}" for place in range(40)))


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A cluster in which everything is installed."""
    with a_cluster(tmp_path_factory.mktemp("skew")) as cluster:
        install_all(cluster)
        yield cluster


def found(cluster: LocalCluster) -> tuple[str, ...]:
    """What the cluster's definitions lack."""

    async def look() -> tuple[str, ...]:
        async with connected(cluster) as client:
            return await missing_fields(client, OWN_KINDS)

    return asyncio.run(look())


def without(definition: dict[str, Any], *path: str) -> dict[str, Any]:
    """The definition of a release that did not have a field yet."""
    older = copy.deepcopy(definition)
    place = older["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for name in path[:-1]:
        place = place["properties"][name]
    del place["properties"][path[-1]]
    # A rule about a field that is not there would be refused.
    place.pop("x-kubernetes-validations", None)
    return older


def test_an_older_definition_is_told_until_it_is_upgraded(installed: LocalCluster) -> None:
    (definition,) = (one for one in definitions() if one["metadata"]["name"] == FLEET_POLICIES.resource)
    with Person(installed, "root", ("system:masters",)) as admin:
        waiting.until(lambda: found(installed) == (), PATIENCE_S, "nothing is missing")
        older = without(definition, "spec", "migLayout")
        replace(admin, older)
        waiting.until(
            lambda: found(installed) == ("FleetPolicy spec.migLayout",), PATIENCE_S, "it is not named"
        )
        replace(admin, definition)
        waiting.until(lambda: found(installed) == (), PATIENCE_S, "it is not there again")


def replace(admin: Person, definition: dict[str, Any]) -> None:
    """Have this definition served."""
    path = f"{CRDS}/{definition['metadata']['name']}"
    version = admin.ask("GET", path)[1]["metadata"]["resourceVersion"]
    written = {**definition, "metadata": {**definition["metadata"], "resourceVersion": version}}
    status, answer = admin.ask("PUT", path, written)
    assert status == 200, answer


def test_a_kind_that_is_not_served_is_missing_as_a_whole(tmp_path: Any) -> None:
    with a_cluster(tmp_path) as cluster:

        async def look() -> tuple[str, ...]:
            async with connected(cluster) as client:
                return await kinds_missing(client)

        assert asyncio.run(look()) == ("NodeDevices", "FleetQueue")


async def kinds_missing(client: Client) -> tuple[str, ...]:
    """What is missing of two kinds."""
    return await missing_fields(client, (NODE_DEVICES, FLEET_QUEUES))
