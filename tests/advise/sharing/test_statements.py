"""What a person says of workloads: whom a pattern names, which of several counts, and what names nobody."""

import json
from pathlib import Path

import pytest

from gpufleet.advise.sharing.statements import Statement, read_statement, stated
from gpufleet.cli.main import main
from gpufleet.model.model_errors import InputError
from gpufleet.usage.samples import Sample, SampleKind

SAMPLES = [
    Sample(workload, "p", 0, 50, 1000, 1, "T4", namespace=namespace)
    for namespace, workload in (("lab", "one"), ("lab", "two"), ("web", "one"), ("", "plain"))
]


def kinds(*texts: str) -> dict[str, SampleKind]:
    found = stated(SAMPLES, [read_statement(text) for text in texts])
    assert len(found) == len(SAMPLES)
    return {
        f"{one.namespace}/{one.workload}": one.kind for one in found if one.kind is not SampleKind.UNKNOWN
    }


def test_a_pattern_names_workloads_with_their_namespace() -> None:
    assert kinds("lab/*=notebook") == {"lab/one": SampleKind.NOTEBOOK, "lab/two": SampleKind.NOTEBOOK}
    assert kinds("*/one=inference") == {"lab/one": SampleKind.INFERENCE, "web/one": SampleKind.INFERENCE}
    assert kinds("plain=training") == {"/plain": SampleKind.TRAINING}


def test_the_last_word_counts() -> None:
    assert kinds("lab/*=notebook", "lab/two=training") == {
        "lab/one": SampleKind.NOTEBOOK,
        "lab/two": SampleKind.TRAINING,
    }
    assert kinds("lab/*=notebook", "*=") == {}


def test_isolation_leaves_the_kind() -> None:
    (first, *_) = stated(SAMPLES, [read_statement("lab/one=notebook"), Statement("lab/*")])
    assert (first.kind, first.strict) == (SampleKind.NOTEBOOK, True)
    assert [one.strict for one in stated(SAMPLES, [Statement("lab/*")])] == [True, True, False, False]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("notebook", "--kind: names no workload, found 'notebook'"),
        ("lab/*=webinar", "--kind: no such kind, found 'webinar'"),
        ("labs/*=notebook", r"--kind: no workload of this name, found 'labs/\*'; expected one of lab/one"),
    ],
)
def test_what_says_nothing_is_refused(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        stated(SAMPLES, [read_statement(text)])


def test_the_command_follows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # Two pods of 5 % each: as a fraction if nobody says more, in turns as notebooks.
    header = "workload,namespace,pod,time,gpu_util_pct,memory_used_mib,gpus_requested,gpu_model,node\n"
    rows = "".join(f"nb,lab,{pod},0,5,1000,1,T4,n\n" for pod in "ab")
    (tmp_path / "use.csv").write_text(header + rows, encoding="utf-8")
    for options, mode in (
        ([], "fraction"),
        (["--kind=lab/nb=notebook"], "time-slice"),
        (["--isolate=*"], "whole"),
    ):
        assert main(["advise", "sharing", str(tmp_path / "use.csv"), "-o", "json", *options]) == 0
        (work,) = json.loads(capsys.readouterr().out)["workloads"]
        assert (work["name"], work["mode"]) == ("lab/nb", mode)
