"""An amount in a file that cannot be ends its command at once: with the file, the field and code 2."""

from pathlib import Path

import pytest

from gpufleet.cli.main import ExitCode, main
from tests.cli.command_parameters import write_good_files

HUGE = "9" * 26
AMOUNTS = ("nan", ".nan", "1e999", HUGE, "-1")
NODES = "sn,cpu_milli,memory_mib,gpu,model\nn,64000,262144,{},V100M16\n"
USE = (
    "workload,pod,time,gpu_util_pct,memory_used_mib,gpus_requested,gpu_model\n"
    "a,a-1,0,50,{0},1,A100-80GB\na,a-1,60,50,{0},1,A100-80GB\n"
)
MACHINE = "gpus:\n  - {{model: H100-80GB, count: {}}}\n"
CONFIG = (
    '{{"model_type": "llama", "hidden_size": {}, "num_hidden_layers": 32, "num_attention_heads": 32,'
    ' "vocab_size": 128256, "intermediate_size": 14336}}'
)
WORK = """\
scenario: v1
title: Work with an amount that cannot be
source: "By hand."
work: [{{name: a, gpus: {}}}]
expect: {{running: {{a: 1}}}}
"""
NODE_OF_SCENARIO = """\
scenario: v1
title: A node with an amount that cannot be
source: "By hand."
nodes: [{{name: n, gpus: {}}}]
work: [{{name: a, gpus: 1}}]
expect: {{running: {{a: 1}}}}
"""
CLUSTER_QUEUE = """\
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata: {{name: q}}
spec:
  resourceGroups:
    - coveredResources: [nvidia.com/gpu]
      flavors: [{{name: f, resources: [{{name: nvidia.com/gpu, nominalQuota: {}}}]}}]
"""

CASES = {
    "replay-nodes": ("replay --nodes {} --pods tasks.csv --policy fgd --jobs 1 --quiet", NODES, "gpu"),
    "advise": ("advise sharing {}", USE, "memory_used_mib"),
    "machine": ("agent --node-name n --simulated {} --kubeconfig config --state-folder s", MACHINE, "gpus"),
    "configuration": ("fit {}", CONFIG, "hidden_size"),
    "scenario-work": ("scenario run {}", WORK, "gpus"),
    "scenario-node": ("scenario run {}", NODE_OF_SCENARIO, "gpus"),
    "kueue": ("import kueue {}", CLUSTER_QUEUE, ""),
}
NAMES = {"configuration": "config.json", "replay-nodes": "bad.csv", "advise": "bad.csv"}


@pytest.mark.parametrize("amount", AMOUNTS)
@pytest.mark.parametrize("case", CASES)
def test_an_amount_that_cannot_be_is_refused_by_its_field(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    case: str,
    amount: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    write_good_files(tmp_path)
    line, text, field = CASES[case]
    name = NAMES.get(case, "bad.yaml")
    (tmp_path / name).write_text(text.format(amount), encoding="utf-8")
    code = main(line.format(name).split())
    said = capsys.readouterr().err
    assert code == ExitCode.BAD_INPUT, said
    assert "Traceback" not in said
    assert field in said or name in said
    assert len(said) <= 1500
