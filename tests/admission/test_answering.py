"""What the webhook answers of images: in kinds that no policy reads, and of what comes new."""

import asyncio
import base64
import datetime as dt
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import msgspec
import pytest

from gpufleet.admission.images import REGISTRIES, ImagePolicy
from gpufleet.admission.webhook.answering import Answering
from gpufleet.admission.webhook.record import AdmissionRecord
from gpufleet.completion.additions import Completion
from gpufleet.daemon.http_server import Accepted, Request

Object = dict[str, Any]
NOW = dt.datetime(2026, 6, 1, tzinfo=dt.UTC)
DIGEST = "@sha256:" + "a" * 64


class NoEvents:
    """No Event is told in these tests."""

    def tell(self, namespace: str, pod: Mapping[str, Any], found: object) -> None:
        """Fail."""
        raise AssertionError((namespace, pod, found))


def service(image: str) -> Object:
    spec = {"predictor": {"containers": [{"name": "main", "image": image}]}}
    return {"apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService", "spec": spec}


def answer(path: str, body: Object, old: Object | None = None, **annotations: str) -> Object:
    record = AdmissionRecord(lambda: None)
    policy = ImagePolicy(("docker.io/library",))
    answering = Answering(
        record,
        lambda _: annotations,
        lambda: NOW,
        lambda: Completion(shared_memory=True),
        policy,
        NoEvents(),  # type: ignore[arg-type]
    )
    group = body["apiVersion"].rpartition("/")[0]
    kind = {"group": group, "kind": body["kind"]}
    request: Object = {
        "uid": "u",
        "kind": kind,
        "namespace": "team",
        "operation": "UPDATE" if old else "CREATE",
    }
    request |= {"object": body, "oldObject": old}
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    page = asyncio.run(
        answering.answer(
            Request("POST", path, (), Accepted(), keep_alive=True, body=msgspec.json.encode(review))
        )
    )
    assert page.status == HTTPStatus.OK
    found: Object = msgspec.json.decode(b"".join(page.parts))["response"]
    return found


def test_an_image_of_a_model_server_is_refused_warned_of_or_noted() -> None:
    said = "images policy: ubuntu has no digest"
    refused = answer("/images/deny", service("ubuntu"))
    assert (refused["allowed"], refused["status"]["message"]) == (False, said)
    assert answer("/images/warn", service("ubuntu"))["warnings"] == [said]
    assert answer("/images/audit", service("ubuntu"))["auditAnnotations"] == {"images": said}


def test_a_good_image_passes_without_a_word() -> None:
    assert answer("/images/deny", service("ubuntu" + DIGEST)) == {"uid": "u", "allowed": True}


def test_the_registries_of_the_namespace_go_before_those_of_the_cluster() -> None:
    image = "registry.example.com/team/serve" + DIGEST
    assert answer("/images/deny", service(image))["allowed"] is False
    own = {REGISTRIES: "registry.example.com/team"}
    assert answer("/images/deny", service(image), None, **own)["allowed"] is True


def test_images_that_were_there_before_go_on() -> None:
    assert answer("/images/deny", service("ubuntu"), old=service("ubuntu"))["allowed"] is True
    assert answer("/images/deny", service("ubuntu:1"), old=service("ubuntu"))["allowed"] is False


def test_what_a_policy_judges_is_left_to_it() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "main", "image": "ubuntu"}]}}
    assert answer("/images/deny", pod)["allowed"] is True


# Name of the scheduler, a toleration, the volume and its mount.
@pytest.mark.parametrize(("limits", "added"), [({"nvidia.com/gpu": "2"}, 4), ({"cpu": "1"}, 0)])
def test_a_pod_is_completed_as_the_options_say(limits: Object, added: int) -> None:
    container = {"name": "main", "image": "a:1", "resources": {"limits": limits}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": {"containers": [container]}}
    patch = answer("/complete", pod).get("patch", "")
    found = msgspec.json.decode(base64.b64decode(patch)) if patch else []
    assert len(found) == added
