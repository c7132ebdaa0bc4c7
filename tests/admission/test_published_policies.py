"""On a real API server and in Python alike: cases of Gatekeeper, Kyverno and Capsule on images and GPUs."""

from typing import Any

import pytest

from gpufleet.admission.images import LABEL, REGISTRIES, image_findings, policy_of
from gpufleet.admission.policies import LABEL as ADMISSION
from tests.admission.judging_server import JudgingServer, a_pod
from tests.published_cases import expected, name_of, published_cases
from tests.waiting import until

GATEKEEPER = published_cases(__file__, "gatekeeper")
KYVERNO = published_cases(__file__, "kyverno")
PINNED = [*GATEKEEPER["digests"], *KYVERNO["digests"], *GATEKEEPER["tags"], *KYVERNO["tags"]]
CAPSULE = published_cases(__file__, "capsule")
REGISTERED = [*GATEKEEPER["registries"], *KYVERNO["registries"], *CAPSULE["registries"]]
SHA256, SHA512 = "@sha256:" + "a" * 64, "@sha512:" + "a" * 128
JUDGED = {201: "passes", 403: "refused"}
PODS = {"Pod": [], "Deployment": ["template"], "CronJob": ["jobTemplate", "spec", "template"]}
"""Where the pod of a kind is in its spec."""


def namespace_of(case: dict[str, Any]) -> str:
    """One namespace for each list of registries."""
    lists = sorted({one["registries"] for one in REGISTERED})
    return f"list-{lists.index(case['registries'])}" if "registries" in case else "published"


@pytest.fixture(scope="module", autouse=True)
def namespaces(server: JudgingServer) -> None:
    labels = {LABEL: "deny", ADMISSION: "off"}
    lists = {namespace_of(one): one["registries"] for one in REGISTERED}
    server.namespace("published", labels)
    for name, text in lists.items():
        server.namespace(name, labels, **{REGISTRIES: text})
    # The server takes up what a namespace says a moment after it is made.
    probe = a_pod("probe", {"containers": [{"name": "main", "image": "nowhere.example.com/a"}]})
    until(lambda: all(server.create(probe, name).status == 403 for name in ("published", *lists)), 30)


def object_of(case: dict[str, Any], images: list[str], init: list[str]) -> dict[str, Any]:
    """An object of the kind of the case with these images."""
    containers, first = (
        [{"name": f"{name}-{number}", "image": image} for number, image in enumerate(found)]
        for name, found in (("main", images), ("init", init))
    )
    kind = case.get("kind", "Pod")
    is_job = kind == "CronJob"
    spec = {
        "containers": containers,
        "initContainers": first,
        **({"restartPolicy": "Never"} if is_job else {}),
    }
    if kind == "Pod":
        return a_pod("one", spec)
    whole: dict[str, Any] = {"spec": spec, "metadata": {"labels": {"app": "x"}}}
    for part in reversed(PODS[kind]):
        whole = {part: whole}
    own = {"schedule": "* * * * *"} if is_job else {"selector": {"matchLabels": {"app": "x"}}}
    version = "batch/v1" if is_job else "apps/v1"
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "one"}, "spec": {**own, **whole}}


def in_python(images: list[str], registries: str | None) -> str:
    """The verdict of the webhook and of plans."""
    policy = policy_of({} if registries is None else {REGISTRIES: registries})
    return "refused" if any(image_findings(one, policy) for one in images) else "passes"


@pytest.mark.parametrize("case", PINNED, ids=name_of)
def test_images_are_judged_by_their_digests(server: JudgingServer, case: dict[str, Any]) -> None:
    images, init = (
        [one.replace("@SHA256", SHA256).replace("@SHA512", SHA512) for one in case.get(part, ())]
        for part in ("images", "init")
    )
    assert JUDGED[server.create(object_of(case, images, init), "published").status] == expected(case)
    assert in_python([*images, *init], None) == expected(case)


@pytest.mark.parametrize("case", REGISTERED, ids=name_of)
def test_images_are_judged_by_their_registries(server: JudgingServer, case: dict[str, Any]) -> None:
    images, init = ([one + SHA256 for one in case.get(part, ())] for part in ("images", "init"))
    found = server.create(object_of(case, images, init), namespace_of(case))
    assert JUDGED[found.status] == expected(case)
    assert in_python([*images, *init], case["registries"]) == expected(case)


@pytest.mark.parametrize("case", GATEKEEPER["gpu"], ids=name_of)
def test_gpus_are_judged_where_errors_are_refused(server: JudgingServer, case: dict[str, Any]) -> None:
    containers: list[dict[str, Any]] = [
        {
            "name": f"main-{number}",
            "image": "nvidia/cuda:12.4.1-runtime-ubuntu22.04",
            "resources": {"limits": {"nvidia.com/gpu": gpus}},
        }
        for number, gpus in enumerate(case.get("gpus", ()))
    ]
    spec: dict[str, Any] = {"containers": containers or [{"name": "web", "image": "nginx:1.27"}]}
    if case.get("shared_memory"):
        spec["volumes"] = [{"name": "dshm", "emptyDir": {"medium": "Memory"}}]
        containers[0]["volumeMounts"] = [{"name": "dshm", "mountPath": "/dev/shm"}]  # noqa: S108
    if "node_selector" in case:
        spec["nodeSelector"] = case["node_selector"]
    if "deadline_s" in case:
        spec["activeDeadlineSeconds"] = case["deadline_s"]
    assert JUDGED[server.create(a_pod("one", spec), "deny").status] == expected(case)
