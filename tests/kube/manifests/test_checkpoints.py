"""On a real API server: when a running pod saved its work last goes forward alone."""

import itertools
from collections.abc import Iterator
from functools import partial

import pytest

from tests.kube.manifests.real_server import Answer, a_grant, until
from tests.kube.manifests.tenants import TENANT, Actors, a_pod, acting, pods_of
from tests.kube.manifests.test_guarded_writes import annotated, binding, pod_path
from tests.localkube.cluster import a_cluster

NAMES = (f"saves-{number}" for number in itertools.count())
KEY = "gpufleet.io/checkpointed-at"
PODS = pods_of(TENANT)
SAVED = "2026-11-22T05:00:00Z"


@pytest.fixture(scope="module")
def actors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Actors]:
    with a_cluster(tmp_path_factory.mktemp("checkpoints")) as cluster, acting(cluster) as actors:
        name = a_running_pod(actors)
        until(partial(is_guarded, actors, name))
        yield actors


def is_guarded(actors: Actors, name: str) -> bool:
    """Whether the server follows the policy by now."""
    path = f"{pod_path(name)}?dryRun=All"
    return actors.admin.merge(path, annotated(KEY, None))[0] == 403


def a_running_pod(actors: Actors, saved: str = SAVED) -> str:
    """A pod that has a node and said when it saved its work."""
    name = next(NAMES)
    assert actors.owner.create(a_pod(name, annotations={KEY: saved}), PODS)[0] == 201
    bound = binding(f"{PODS}/{{name}}/binding")(actors.scheduler, name, "gpufleet.io/grant", a_grant(1))
    assert bound[0] == 201
    return name


def said_again(actors: Actors, name: str, moment: str | None, subresource: str = "") -> Answer:
    return actors.owner.merge(pod_path(name, subresource), annotated(KEY, moment))


@pytest.mark.parametrize("subresource", ["", "status"])
def test_the_checkpoint_of_a_pod_with_a_node_goes_forward_alone(actors: Actors, subresource: str) -> None:
    name = a_running_pod(actors)
    for earlier in ("2026-11-22T04:59:59Z", "2001-01-01T00:00:00Z", None):
        status, answer = said_again(actors, name, earlier, subresource)
        assert status == 403, answer
        assert KEY in answer["message"]
    for later in ("2026-11-22T05:00:00.5Z", "2026-11-22T06:00:00+00:00", "2027-01-01T00:00:00Z"):
        assert said_again(actors, name, later, subresource)[0] == 200


@pytest.mark.parametrize("other", ["yesterday", "", "2026-11-22T09:00:00+05:00", "2026-11-22 06:00:00Z"])
def test_another_form_of_time_is_refused_with_the_right_one(actors: Actors, other: str) -> None:
    status, answer = said_again(actors, a_running_pod(actors), other)
    assert status == 403
    assert "2026-11-22T05:00:00Z" in answer["message"] or "taken back" in answer["message"]


def test_a_pod_that_began_with_what_is_no_time_may_say_one(actors: Actors) -> None:
    name = a_running_pod(actors, "yesterday")
    assert said_again(actors, name, SAVED)[0] == 200


def test_other_edits_and_pods_without_a_node_are_left_alone(actors: Actors) -> None:
    name = a_running_pod(actors)
    assert actors.owner.merge(pod_path(name), {"metadata": {"labels": {"a": "b"}}})[0] == 200
    waits = next(NAMES)
    assert actors.owner.create(a_pod(waits, annotations={KEY: SAVED}), PODS)[0] == 201
    assert said_again(actors, waits, None)[0] == 200
