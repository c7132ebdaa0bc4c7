"""On a real API server of Kubernetes 1.36, the first with policies that complete pods: the same verdicts."""

from collections.abc import Iterator
from typing import Any

import pytest

from gpufleet.admission.completion_policies import completion_policies
from gpufleet.admission.policies import LABEL
from gpufleet.completion.additions import Addition, Completion
from gpufleet.completion.completing import completing_patch
from gpufleet.completion.json_patch import patched_copy
from tests.admission.judging_server import PRIVILEGED, JudgingServer, a_pod, judging_server, strict
from tests.waiting import until

OLDER = "1.36.3"
CHOSEN = [one for one in Addition if one is not Addition.RUNTIME_CLASS]
COMPLETION = Completion(shared_memory=True)


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JudgingServer]:
    with judging_server(tmp_path_factory.mktemp("older"), OLDER) as found:
        found.namespace("plain", {LABEL: "off"})
        found.namespace("managed", {LABEL: "off", "gpufleet.io/managed": "true"})
        found.install(strict(completion_policies(CHOSEN)))
        yield found


@pytest.mark.parametrize(
    ("limits", "annotations"),
    [
        ({"nvidia.com/gpu": "2", "memory": "6Gi"}, {}),
        ({"cpu": "1"}, {"gpu-fraction": "0.5", "gpu-fraction-num-devices": "2"}),
        ({"nvidia.com/gpu": "1", "nvidia.com/gpumem": "4000"}, {}),
        ({"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "4000"}, {}),
        ({"cpu": "1"}, {}),
    ],
)
def test_pods_are_completed_alike(
    older: JudgingServer, limits: dict[str, str], annotations: dict[str, str]
) -> None:
    container = {"name": "main", "image": "example.com/train:1", "resources": {"limits": limits}}
    pod = a_pod("one", {"containers": [container], "automountServiceAccountToken": False}, **annotations)
    expected = older.create(patched_copy(pod, completing_patch(pod, COMPLETION)), "plain")
    assert expected.status == 201
    until(lambda: in_order(older.create(pod, "managed").body) == in_order(expected.body), 30)


def in_order(pod: dict[str, Any]) -> dict[str, Any]:
    """The spec, in which the server's own tolerations come before those added, or after."""
    spec: dict[str, Any] = pod["spec"]
    return {**spec, "tolerations": sorted(spec.get("tolerations", []), key=lambda one: str(one["key"]))}


def test_what_cannot_work_is_refused(older: JudgingServer) -> None:
    """Every policy of lint is in force there: the fixture waits for a finding of each."""
    assert older.create(a_pod("one", PRIVILEGED), "deny").rules == {"GPU006"}
