"""Whatever a table of use holds: samples and advice, or an error that names file, row and column."""

import datetime as dt
import json
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import event, example, given, settings
from hypothesis import strategies as st

from gpufleet.cli.sharing_output import document, lines
from gpufleet.cli.sharing_question import Advice, Terms, advise_from_table
from gpufleet.cli.use_input import read_use
from gpufleet.model.model_errors import InputError
from gpufleet.usage.samples import OPTIONAL, REQUIRED, Sample, SampleKind

COLUMNS = (*REQUIRED, *OPTIONAL)
GOOD = dict(
    zip(COLUMNS, ("w", "p", "0", "5", "100", "1", "T4", "n", "notebook", "", "", "", ""), strict=True)
)
CELLS = st.sampled_from(
    [
        "",
        " ",
        "0",
        "-0",
        "1",
        "101",
        "1e3",
        "1.0",
        "9" * 40,
        "0x1",
        "NaN",
        "inf",
        "\u0661",
        "\u00a0",
        "T4",
        "x\ty",
    ]
) | st.text(st.characters(exclude_characters='",\r\n\x00', exclude_categories=["Cs"]), max_size=6)


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """Hypothesis shares it between examples, so it is no folder of one test."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def read(folder: Path, data: bytes, name: str = "use.csv") -> list[Sample] | str:
    """The samples, or what is said."""
    (folder / name).write_bytes(data)
    try:
        return read_use(folder / name)[0]
    except InputError as error:
        return str(error)


def table(*rows: dict[str, str]) -> bytes:
    found = [",".join(COLUMNS), *(",".join(row[name] for name in COLUMNS) for row in rows)]
    return ("\n".join(found) + "\n").encode()


@given(data=st.binary(max_size=300) | st.text(max_size=100).map(str.encode))
@example(data=b"PAR1" + b"\xff" * 50 + b"PAR1")
@example(data=b"\x1f\x8b\x08\x00broken")
@example(data=(",".join(COLUMNS) + "\n" + '"' * 5000).encode())
def test_any_bytes(data: bytes, folder: Path) -> None:
    found = read(folder, data)
    assert isinstance(found, list) or "use.csv" in found


@given(
    changes=st.dictionaries(st.sampled_from(COLUMNS), CELLS, min_size=1, max_size=3), number=st.integers(0, 3)
)
def test_a_bad_cell_is_named_by_row_and_column(changes: dict[str, str], number: int, folder: Path) -> None:
    rows = [GOOD] * number + [{**GOOD, **changes}]
    found = read(folder, table(*rows))
    if isinstance(found, str):
        named = re.match(r"use\.csv, row (\d+), (\w+): ", found.removeprefix(str(folder) + "/"))
        assert named, found
        assert int(named[1]) == number + 2
        assert named[2] in changes
        assert found.isprintable()
    else:
        assert len(found) == number + 1
        assert all(0 <= one.gpu_milli <= 1000 and one.gpus >= 1 for one in found)


VALUES = [
    [1.5], [None], [[1]], [{"a": 1}], [b"\xff"], [True], [dt.datetime(2026, 1, 1, tzinfo=dt.UTC)],
    [dt.date(2026, 1, 1)], [10**18], [float("nan")], ["5"], [dt.timedelta(1)], [""],
]  # fmt: skip


@pytest.mark.parametrize("values", VALUES, ids=lambda values: type(values[0]).__name__)
@pytest.mark.parametrize("column", COLUMNS)
def test_any_type_of_parquet(column: str, values: list[object], tmp_path: Path) -> None:
    columns: dict[str, object] = {name: [cell] for name, cell in GOOD.items()}
    pyarrow.parquet.write_table(pa.table({**columns, column: values}), tmp_path / "use.parquet")
    found = read(tmp_path, (tmp_path / "use.parquet").read_bytes(), "use.parquet")
    if isinstance(found, str):
        assert "use.parquet" in found
        assert column in found


WORKLOAD = st.fixed_dictionaries(
    {
        "gpus_requested": st.sampled_from(["1", "1", "1", "2"]),
        "gpu_model": st.sampled_from(["A100-80GB", "A100-80GB", "A30", "T4"]),
        "kind": st.sampled_from([kind.value for kind in SampleKind]),
        "isolation": st.sampled_from(["", "", "strict"]),
        "cpu_milli": st.sampled_from(["", "4000"]),
        "namespace": st.sampled_from(["", "team"]),
    }
)
USES = st.lists(st.sampled_from(["0", "3", "12", "24", "38", "55", "90"]), min_size=1, max_size=5)
POD = st.tuples(USES, st.sampled_from(["0", "3000", "9000", "30000"]))


@settings(max_examples=60)
@given(
    works=st.lists(st.tuples(WORKLOAD, st.lists(POD, min_size=1, max_size=5)), min_size=1, max_size=4),
    risk=st.sampled_from([0, 5, 100]),
)
def test_any_table_of_workloads_makes_advice_that_holds(
    works: list[tuple[dict[str, str], list[tuple[list[str], str]]]], risk: int, folder: Path
) -> None:
    rows = [
        {
            **GOOD,
            **facts,
            "workload": f"w{number}",
            "pod": f"p{at}",
            "node": facts["gpu_model"],
            "time": str(instant * 60),
            "gpu_util_pct": use,
            "memory_used_mib": memory,
        }
        for number, (facts, pods) in enumerate(works)
        for at, (uses, memory) in enumerate(pods)
        for instant, use in enumerate(uses)
    ]
    (folder / "plan.csv").write_bytes(table(*rows))
    advice = advise_from_table(folder / "plan.csv", Terms(None, 60, risk, {}))
    event(" ".join(sorted({pool.mode.value for pool in advice.plan.pools})))
    check(advice, risk)


def check(advice: Advice, risk: int) -> None:
    """Every pod has one place or is said to have none, no GPU two modes, and no risk is above what is
    allowed.
    """
    plan = advice.plan
    places = [replica for pool in plan.pools for on in pool.on_device.values() for replica in on]
    pods = sum(len(work.replicas) * work.gpus for work in advice.workloads)
    missing = {one.workload.name: one.workload.gpus for one in plan.choices}
    assert len(places) + sum(missing[uid.rpartition("/")[0]] for uid in plan.unplaced) == pods
    devices = [device for pool in plan.pools for device in pool.on_device]
    assert len(devices) == len(set(devices))
    assert all(pool.risk * 100 <= risk for pool in plan.pools)
    if not plan.unplaced_today:
        assert plan.gpus <= sum(plan.today_gpus.values())
    assert json.loads(json.dumps(document(advice)))["schema"]
    assert lines(advice)
