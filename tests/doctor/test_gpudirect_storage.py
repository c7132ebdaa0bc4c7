"""Work that selects GPUDirect Storage has its devices, or is named: the library itself says nothing."""

import pytest

from gpufleet.doctor.checks import all_checks
from gpufleet.doctor.diagnosis import diagnose
from tests.doctor.facts_of_text import facts_of
from tests.doctor.test_host_memory import NODE

POD = """\
---
apiVersion: v1
kind: Pod
metadata: {name: serve, namespace: team}
spec:
  nodeSelector: {gpufleet.io/gpudirect-storage: nvidia-fs}
  containers:
    - name: main
      image: "registry.example/serve:1"
      resources: {limits: {nvidia.com/gpu: 1}}
"""
ENABLED = '      env: [{name: NVIDIA_GDS, value: "enabled"}]\n'
PRIVILEGED = "      securityContext: {privileged: true}\n"
MOUNTED = "      volumeMounts: [{name: fs, mountPath: /dev/nvidia-fs0}]\n"
VOLUME = "  volumes: [{name: fs, hostPath: {path: /dev/nvidia-fs0}}]\n"


def said(text: str) -> list[str]:
    """What the check says of a cluster."""
    found = diagnose(facts_of(NODE + text), all_checks())
    return [one.failure.says for one in found.causes if one.check.id == "gpudirect-storage-off"]


def test_work_without_the_devices_is_named() -> None:
    expected = "Pod team/serve: selects gpufleet.io/gpudirect-storage and asks for no /dev/nvidia-fs*"
    assert said(POD) == [expected]
    assert said(POD + '      env: [{name: NVIDIA_GDS, value: "disabled"}]\n') == [expected]


@pytest.mark.parametrize("more", [ENABLED, PRIVILEGED, MOUNTED + VOLUME])
def test_work_with_the_devices_is_not(more: str) -> None:
    assert said(POD + more) == []


def test_work_that_selects_nothing_of_it_is_not() -> None:
    assert said(POD.replace("gpufleet.io/gpudirect-storage: nvidia-fs", "team: a")) == []
