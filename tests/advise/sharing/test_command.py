"""`gpufleet advise sharing`: the page's walk, what is printed to apply, Parquet, and bad input."""

import json
import re
import shlex
from pathlib import Path

import msgspec
import pyarrow.csv
import pyarrow.parquet
import pytest

from gpufleet.cli.main import main
from gpufleet.devices.facts import Driver, Fleet, GpuFacts
from gpufleet.devices.sharing.own import read_sharing
from gpufleet.devices.sharing.plan import Mig, replicas_of
from gpufleet.devices.sharing.plugin import read_plugin_config
from gpufleet.model.gpu_catalogue import Vendor
from gpufleet.model.identifiers import DeviceId
from tests.conventions.project import ROOT

PAGE = (ROOT / "docs" / "advise-sharing.md").read_text(encoding="utf-8")
USE, NODES = ROOT / "examples" / "advise" / "use.csv", ROOT / "examples" / "advise" / "nodes.csv"
HEADER = "workload,pod,time,gpu_util_pct,memory_used_mib,gpus_requested,gpu_model,node,kind,isolation\n"
GPU_FACTS = tuple(
    GpuFacts(
        DeviceId(f"GPU-{at}"),
        Vendor.NVIDIA,
        at,
        "NVIDIA A100-SXM4-80GB",
        memory_mib=81920,
        compute_capability=(8, 0),
        mig_enabled=at == 6,
    )
    for at in range(8)
)


def asked(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, object]:
    assert main(["advise", "sharing", *map(str, arguments), "-o", "json"]) == 0
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


def test_the_page_shows_what_the_command_prints(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    # The other command of the page asks a Prometheus server.
    (line, printed), _ = re.findall(
        r"^```console\n\$ gpufleet ([^\n]*)\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE
    )
    assert main(shlex.split(line)) == 0
    assert capsys.readouterr().out == printed


def test_the_example_by_hand(capsys: pytest.CaptureFixture[str]) -> None:
    # Today 4 + 4 + 4 + 2 + 2 = 16 GPUs. Four for pretrain and two for chat stay whole; the notebooks, the
    # servers and the tenants take one each: 9. Seven at 2.50 for 730 hours are 12,775. Two notebooks of 80 %
    # meet in one of twenty instants.
    found = asked(capsys, USE, f"--nodes={NODES}", "--price=A100-80GB=2.50")
    assert found["gpusToday"] == {"A100-80GB": 16}
    assert found["gpusSaved"] == {"A100-80GB": 7}
    assert found["savedAMonth"] == "12775.00"
    pools = {pool["mode"]: pool for pool in found["pools"]}  # type: ignore[attr-defined]
    assert pools["time-slice"]["risk"] == 0.05
    assert {mode: len(pool["gpus"]) for mode, pool in pools.items()} == {
        "whole": 6,
        "mig": 1,
        "mps": 1,
        "time-slice": 1,
    }


def test_the_agent_takes_the_configuration(capsys: pytest.CaptureFixture[str]) -> None:
    config = str(asked(capsys, USE, f"--nodes={NODES}")["agentConfig"])
    fleet = Fleet(Driver(Vendor.NVIDIA, "580.65.06"), GPU_FACTS)
    first = {plan.uuid: plan.mode for plan in read_sharing(config, fleet, "shared-1").plans}
    assert (replicas_of(first[DeviceId("GPU-7")]), replicas_of(first[DeviceId("GPU-0")])) == (4, 1)
    uncut = Fleet(fleet.driver, tuple(msgspec.structs.replace(gpu, mig_enabled=False) for gpu in GPU_FACTS))
    second = {plan.uuid: plan.mode for plan in read_sharing(config, uncut, "shared-2").plans}
    assert replicas_of(second[DeviceId("GPU-0")]) == 4


def test_the_agent_takes_a_card_of_several_sizes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # 40, 25 and 10 % of one A100 are 3g, 2g and 1g, which stand together (NVIDIA's MIG User Guide).
    rows = "".join(f"{use},p,0,{use},1000,1,A100-80GB,n,,strict\n" for use in (40, 25, 10))
    (tmp_path / "use.csv").write_text(HEADER + rows, encoding="utf-8")
    found = asked(capsys, tmp_path / "use.csv")
    instances = [pool["migInstances"] for pool in found["pools"]]  # type: ignore[attr-defined]
    assert instances == [{"n/0": ["1g.10gb", "2g.20gb", "3g.40gb"]}]
    cards = tuple(msgspec.structs.replace(gpu, mig_enabled=gpu.index == 0) for gpu in GPU_FACTS[:3])
    fleet = Fleet(Driver(Vendor.NVIDIA, "580.65.06"), cards)
    (first, *_) = read_sharing(str(found["agentConfig"]), fleet, "shared-1").plans
    assert isinstance(first.mode, Mig)
    assert first.mode.layout is not None
    assert sorted(one.profile for one in first.mode.layout) == ["1g.10gb", "2g.20gb", "3g.40gb"]
    assert {one["name"]: one["pod"].splitlines()[-1] for one in found["workloads"]} == {  # type: ignore[attr-defined]
        "40": "    nvidia.com/mig-3g.40gb: 1",
        "25": "    nvidia.com/mig-2g.20gb: 1",
        "10": "    nvidia.com/mig-1g.10gb: 1",
    }


def test_nvidias_plugin_takes_its_file_and_samples_name_the_fleet(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Two nodes with one T4 each; together the notebooks need one.
    rows = "".join(f"nb,{pod},0,5,1000,1,T4,{node},notebook,\n" for pod, node in (("a", "n1"), ("b", "n2")))
    (tmp_path / "use.csv").write_text(HEADER + rows, encoding="utf-8")
    found = asked(capsys, tmp_path / "use.csv")
    assert found["gpusSaved"] == {"T4": 1}
    text = found["pluginConfigs"]["shared-1"]  # type: ignore[index]
    replication = read_plugin_config(text).replication
    assert replication is not None
    assert text.endswith("replicas: 2\n")


def test_parquet_says_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pyarrow.parquet.write_table(pyarrow.csv.read_csv(USE), tmp_path / "use.parquet")
    from_parquet = asked(capsys, tmp_path / "use.parquet", f"--nodes={NODES}")
    assert from_parquet == asked(capsys, USE, f"--nodes={NODES}")


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("w,p,x,5,1,1,T4,n,,", "use.csv, row 2, time: not a plain number"),
        ("w,p,0,101,1,1,T4,n,,", "more than a whole GPU"),
        ("w,p,0,-1,1,1,T4,n,,", "gpu_util_pct: not a plain number"),
        ("w,p,0,5,1.5,1,T4,n,,", "memory_used_mib: not a whole number"),
        ("w,p,0,5,1,0,T4,n,,", "gpus_requested: not a number of whole GPUs"),
        ("w,p,0,5,1,1,V100,n,,", "several models have this name"),
        ("w,p,0,5,1,1,T4,n,webinar,", "no such kind"),
        ("w,p,0,5,1,1,T4,n,,very", "unknown isolation"),
        (",p,0,5,1,1,T4,n,,", "workload: not a name"),
        ("w,p,0,5,1,1,T4,,,", "the GPUs of the fleet are not named"),
        ("", "no sample"),
    ],
)
def test_bad_input_is_told(row: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "use.csv").write_text(HEADER + row + "\n", encoding="utf-8")
    assert main(["advise", "sharing", str(tmp_path / "use.csv")]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("price", ["A100-80GB", "A100-80GB=x", "A100-80GB=-1", "A100-80GB=nan", "A100=1"])
def test_a_bad_price_is_told(price: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["advise", "sharing", str(USE), f"--nodes={NODES}", f"--price={price}"]) == 2
    assert "--price" in capsys.readouterr().err
