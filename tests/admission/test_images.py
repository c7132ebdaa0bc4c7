"""On a real API server and in Python alike: pinned digests and allowed registries."""

from typing import Any

import pytest

from gpufleet.admission.images import (
    LABEL,
    REGISTRIES,
    ImagePolicy,
    image_findings,
    images_of,
    policy_of,
)
from gpufleet.admission.verdicts import manifest_of
from tests.admission.judging_server import JudgingServer, a_pod
from tests.waiting import until

DIGEST = "@sha256:" + "a" * 64
ALLOWED = "registry.example.com/team, docker.io/library"
MERGE = "application/strategic-merge-patch+json"


@pytest.fixture(scope="module", autouse=True)
def namespaces(server: JudgingServer) -> None:
    server.namespace("any", {LABEL: "deny"})
    server.namespace("team", {LABEL: "deny"}, **{REGISTRIES: ALLOWED})
    server.namespace("free")
    # The server takes up what a namespace says a moment after it is made.
    until(lambda: {server.create(pod("a:1"), name).status for name in ("any", "team")} == {403}, 30)


def pod(image: str, **parts: Any) -> dict[str, Any]:
    return a_pod("one", {"containers": [{"name": "main", "image": image}], **parts})


@pytest.mark.parametrize(
    ("image", "is_allowed"),
    [
        ("registry.example.com/team/train" + DIGEST, True),
        ("registry.example.com/team/train:1.2" + DIGEST, True),
        ("registry.example.com/team/train:1.2", False),
        ("registry.example.com/teams/train" + DIGEST, False),
        ("registry.example.com:5000/team/train" + DIGEST, False),
        ("registry.example.com/other" + DIGEST, False),
        ("ubuntu" + DIGEST, True),
        ("docker.io/library/ubuntu:24.04" + DIGEST, True),
        ("someone/ubuntu" + DIGEST, False),
        ("localhost/team/train" + DIGEST, False),
        ("ubuntu@sha256:" + "a" * 63, False),
        ("ubuntu@sha512:" + "a" * 64, False),
    ],
)
def test_both_say_the_same_of_a_reference(server: JudgingServer, image: str, is_allowed: bool) -> None:
    assert server.create(pod(image), "team").status == (201 if is_allowed else 403)
    assert (image_findings(image, policy_of({REGISTRIES: ALLOWED})) == []) == is_allowed


def test_without_a_list_any_registry_will_do(server: JudgingServer) -> None:
    assert server.create(pod("someone/else" + DIGEST), "any").status == 201
    assert image_findings("someone/else" + DIGEST, ImagePolicy()) == []
    assert server.create(pod("someone/else"), "free").warnings == ()


def test_init_containers_and_volumes_of_images_count(server: JudgingServer) -> None:
    good = "ubuntu" + DIGEST
    init = pod(good, initContainers=[{"name": "init", "image": "ubuntu"}])
    assert server.create(init, "any").status == 403
    volume = pod(good, volumes=[{"name": "model", "image": {"reference": "ubuntu"}}])
    assert server.create(volume, "any").status == 403
    assert images(init) == [good, "ubuntu"]
    assert images(volume) == [good, "ubuntu"]


def images(one: dict[str, Any]) -> list[str]:
    (template,) = manifest_of(one).templates
    return images_of(template)


def test_the_image_of_a_model_server_counts() -> None:
    spec = {"predictor": {"model": {"image": "ubuntu"}}}
    service = {"apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService", "spec": spec}
    assert images(service) == ["ubuntu"]


def test_an_ephemeral_container_counts_and_what_was_there_goes_on(server: JudgingServer) -> None:
    server.namespace("late")
    server.create(pod("ubuntu:24.04"), "late", dry_run=False)
    body = {"metadata": {"labels": {LABEL: "deny"}}}
    server.api.call("PATCH", "/api/v1/namespaces/late", body, "application/merge-patch+json")
    until(lambda: server.create(pod("ubuntu:24.04"), "late").status == 403, 10)
    path = "/api/v1/namespaces/late/pods/one"

    def debug(image: str) -> int:
        container = {"name": "debug", "image": image}
        body = {"spec": {"ephemeralContainers": [container]}}
        return server.api.request("PATCH", f"{path}/ephemeralcontainers?dryRun=All", body, MERGE)[0]

    assert debug("busybox") == 403
    assert debug("busybox" + DIGEST) == 200
    labels = {"metadata": {"labels": {"a": "b"}}}
    assert server.api.request("PATCH", path, labels, MERGE)[0] == 200
    other = {"spec": {"containers": [{"name": "main", "image": "ubuntu:25.04"}]}}
    assert server.api.request("PATCH", path, other, MERGE)[0] == 403
