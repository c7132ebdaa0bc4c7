"""Pods that were never made, as events and conditions tell of them.

The messages are those of Kubernetes' admission plugins and webhooks, as a server of 1.37 writes them.
"""

import pytest

from gpufleet.doctor.checks import all_checks
from gpufleet.doctor.diagnosis import diagnose
from tests.doctor.facts_of_text import facts_of

EXCEEDED = (
    'pods "serve-x" is forbidden: exceeded quota: team, requested: requests.nvidia.com/gpu=8,'
    " used: requests.nvidia.com/gpu=12, limited: requests.nvidia.com/gpu=16"
)
TEXT = """\
apiVersion: v1
kind: Node
metadata: {{name: metal-1, labels: {{nvidia.com/gpu.present: "true"}}}}
status:
  capacity: {{nvidia.com/gpu: 8}}
  allocatable: {{nvidia.com/gpu: 8}}
  conditions: [{{type: Ready, status: "True"}}]
---
apiVersion: apps/v1
kind: ReplicaSet
metadata: {{name: serve-6b7, namespace: team}}
spec:
  replicas: {wanted}
  template:
    spec:
      containers:
        - {{name: main, image: "registry.example/serve:1", resources: {{limits: {{{resource}: 8}}}}}}
status: {{replicas: {made}}}
---
apiVersion: v1
kind: Event
metadata: {{name: serve-6b7.1, namespace: team}}
type: Warning
reason: FailedCreate
involvedObject: {{kind: ReplicaSet, namespace: team, name: serve-6b7}}
message: >-
  Error creating: {message}
"""
QUOTA = """\
---
apiVersion: v1
kind: ResourceQuota
metadata: {{name: team, namespace: team}}
status:
  hard: {{requests.nvidia.com/gpu: {hard}}}
  used: {{requests.nvidia.com/gpu: 12}}
"""


def found(
    message: str, wanted: int = 1, made: int = 0, resource: str = "nvidia.com/gpu", beside: str | None = None
) -> set[str]:
    """The checks that fail where a ReplicaSet was told this; ``beside`` are objects instead of a quota."""
    text = TEXT.format(message=message, wanted=wanted, made=made, resource=resource)
    text += QUOTA.format(hard=16) if beside is None else beside
    return {one.check.id for one in diagnose(facts_of(text), all_checks()).causes}


@pytest.mark.parametrize(
    ("message", "check"),
    [
        (EXCEEDED, "quota-full"),
        (
            'pods "serve-x" is forbidden: failed quota: team: must specify limits.cpu for: main',
            "quota-demands",
        ),
        (
            'pods "serve-x" is forbidden: maximum nvidia.com/gpu usage per Pod is 4, but limit is 8',
            "limit-range-refuses",
        ),
        (
            'admission webhook "validate.kyverno.svc-fail" denied the request: resource Pod was blocked',
            "policy-denies",
        ),
        (
            'pods "serve-x" is forbidden: violates PodSecurity "baseline:latest": privileged',
            "pod-security-refuses",
        ),
        (
            'pods "serve-x" is forbidden: error looking up service account team/train: "train" not found',
            "pods-refused",
        ),
    ],
)
def test_the_words_of_the_server_tell_which_check_it_is(message: str, check: str) -> None:
    assert check in found(message)


def test_what_was_made_since_is_no_refusal() -> None:
    assert "quota-full" not in found(EXCEEDED, wanted=1, made=1)


def test_what_wants_no_pods_any_more_is_no_refusal() -> None:
    assert "quota-full" not in found(EXCEEDED, wanted=0, made=0)


def test_work_without_gpus_is_not_the_doctors() -> None:
    assert "quota-full" not in found(EXCEEDED, resource="cpu")


EXPORTER = """\
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: dcgm-exporter, namespace: default}
spec:
  template:
    spec:
      containers: [{name: dcgm-exporter, image: "nvcr.io/nvidia/k8s/dcgm-exporter:3.3.5-3.4.1-ubuntu22.04"}]
status: {desiredNumberScheduled: 5, currentNumberScheduled: 0}
---
apiVersion: v1
kind: Event
metadata: {name: dcgm-exporter.1, namespace: default}
type: Warning
reason: FailedCreate
involvedObject: {kind: DaemonSet, namespace: default, name: dcgm-exporter}
message: >-
  Error creating: pods "dcgm-exporter-x" is forbidden: ValidatingAdmissionPolicy 'gpufleet-device-access'
  with binding 'gpufleet-device-access' denied request: container dcgm-exporter
  names devices by NVIDIA_VISIBLE_DEVICES
"""


def test_a_part_of_the_gpu_stack_that_is_refused_is_told() -> None:
    causes = diagnose(facts_of(EXPORTER), all_checks()).causes
    told = next(one.failure.says for one in causes if one.check.id == "policy-denies")
    assert told.startswith("DaemonSet default/dcgm-exporter: ")
    assert "names devices by NVIDIA_VISIBLE_DEVICES" in told


def test_the_mend_raises_the_quota_to_what_would_be_needed() -> None:
    text = TEXT.format(message=EXCEEDED, wanted=1, made=0, resource="nvidia.com/gpu") + QUOTA.format(hard=16)
    causes = diagnose(facts_of(text), all_checks()).causes
    failure = next(one.failure for one in causes if one.check.id == "quota-full")
    # 12 are used and 8 are asked for.
    assert '"requests.nvidia.com/gpu": "20"' in failure.mends[0].command
    assert failure.affects >= {"ReplicaSet team/serve-6b7"}


def test_a_quota_that_was_raised_since_refuses_nothing_any_more() -> None:
    assert "quota-full" in found(EXCEEDED)
    assert "quota-full" not in found(EXCEEDED, beside=QUOTA.format(hard=32))


def test_a_quota_that_is_gone_refuses_nothing_any_more() -> None:
    demands = 'pods "serve-x" is forbidden: failed quota: team: must specify limits.cpu for: main'
    assert not {"quota-full", "quota-demands"} & (found(EXCEEDED, beside="") | found(demands, beside=""))
