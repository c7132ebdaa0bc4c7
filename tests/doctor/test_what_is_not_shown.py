"""Values of variables are nobody's business, but for those by which NVIDIA's runtime is told what to do."""

import msgspec

from gpufleet.doctor.checks import all_checks
from gpufleet.doctor.diagnosis import diagnose
from gpufleet.doctor.report import report_of
from tests.doctor.facts_of_text import facts_of

VALUE = "sesame-open-sesame"
CLUSTER = f"""\
apiVersion: v1
kind: Node
metadata: {{name: metal-1, labels: {{nvidia.com/gpu.present: "true"}}}}
status:
  capacity: {{nvidia.com/gpu: 8}}
  allocatable: {{nvidia.com/gpu: 8}}
  conditions: [{{type: Ready, status: "True"}}]
---
apiVersion: v1
kind: Pod
metadata: {{name: train, namespace: team, labels: {{app: train}}}}
spec:
  nodeName: metal-1
  priorityClassName: missing
  containers:
    - name: main
      image: registry.example/train:1
      securityContext: {{privileged: true}}
      resources: {{limits: {{nvidia.com/gpu: 1}}}}
      env:
        - {{name: HF_TOKEN, value: {VALUE}}}
        - {{name: WANDB_API_KEY, value: {VALUE}}}
        - {{name: DATABASE_PASSWORD, value: {VALUE}}}
        - {{name: CUDA_VISIBLE_DEVICES, value: {VALUE}}}
status:
  phase: Running
  conditions: [{{type: Ready, status: "False"}}]
  containerStatuses:
    - name: main
      restartCount: 5
      state: {{waiting: {{reason: CrashLoopBackOff}}}}
      lastState: {{terminated: {{reason: Error, exitCode: 1, message: "could not log in with {VALUE}"}}}}
"""


def test_no_value_of_a_variable_and_no_last_word_of_a_program_is_shown() -> None:
    report = report_of(diagnose(facts_of(CLUSTER), all_checks()))
    found = {one.check for one in report.causes}
    assert found >= {"token-written", "gpus-held-by-broken", "gpu-work-privileged"}
    assert VALUE not in msgspec.json.encode(report).decode()
