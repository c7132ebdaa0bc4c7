"""No answer of a command hides anything: whatever stands in the names of objects, files and messages."""

import dataclasses
import enum
import io
import json
import logging
import os
import re
import sys
import types
import typing
import unicodedata
from collections import abc
from collections.abc import Callable
from pathlib import Path

import click
import msgspec
import pytest
import yaml

from gpufleet.advise.fit.on_cluster import ClusterAnswer
from gpufleet.cli import (
    cuda_output,
    defragment_output,
    drain_output,
    explain_output,
    fit_cluster_output,
    fit_output,
    fit_training_output,
    mig_output,
    plan_history_output,
    plan_output,
    whatif_output,
)
from gpufleet.cli.main import ExitCode, main
from gpufleet.cli.output import echo_json, terminal_of, visible_streams
from gpufleet.cuda.judging import Judgement
from gpufleet.daemon.json_log import JsonFormatter, TerminalFormatter
from gpufleet.defragment.plan import DefragmentPlan
from gpufleet.doctor.report import Report
from gpufleet.drain.plan import DrainPlan
from gpufleet.explain.answer import Answer
from gpufleet.explain.queue_answer import QueuesAnswer
from gpufleet.fit.answer import Answer as FitAnswer
from gpufleet.fit.answer import TrainingAnswer
from gpufleet.fit.basis import Basis
from gpufleet.plan.answer import Plan as PurchasePlan
from gpufleet.plan.history.answer import HistoryPlan
from gpufleet.repartition.answer import RepartitionPlan
from gpufleet.whatif.answer import Answer as WhatifAnswer

ALARMING = (
    "a\x1b[31mb\x1b]0;t\x07c\u202ed\u2066e\u200bf\x85g\x9b2Jh\x7fi\rj\u2028k\x00l\ufeffm\u061cn\U000e0041"
)
DEEPEST = 5
HIDING = ("Cc", "Cf", "Cs", "Zl", "Zp")


def hides(text: str) -> set[str]:
    return {ascii(one) for one in text if unicodedata.category(one) in HIDING and one not in "\n\t"}


def _field(name: str, kind: typing.Any, depth: int) -> typing.Any:
    """A field; times are written by us."""
    is_time = (
        name in {"at", "start", "end", "begins", "ends", "since", "until"} and str(kind).find("str") >= 0
    )
    return "2026-11-23T10:00:00Z" if is_time else filled(kind, depth)


def filled(kind: typing.Any, depth: int = 0) -> typing.Any:
    """A value of this type in which every text is alarming."""
    if kind is Basis:
        return Basis(unchecked=ALARMING)
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        return filled(arguments[0], depth + 1)
    if origin in {typing.Union, types.UnionType}:
        return filled(next(one for one in arguments if one is not type(None)), depth)
    if origin is typing.Literal:
        return arguments[0]
    if origin is tuple and arguments[-1:] != (...,):
        return tuple(filled(one, depth) for one in arguments)
    if origin in {tuple, list, frozenset, abc.Sequence, abc.Iterable}:
        if depth > DEEPEST:
            return ()
        return (tuple if origin in {tuple, abc.Sequence} else list)([filled(arguments[0], depth + 1)])
    if origin in {dict, abc.Mapping}:
        return {filled(arguments[0], depth + 1): filled(arguments[1], depth + 1)}
    if hasattr(kind, "__supertype__"):
        return filled(kind.__supertype__, depth)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return next(iter(kind))
    if isinstance(kind, type) and (issubclass(kind, msgspec.Struct) or dataclasses.is_dataclass(kind)):
        hints = typing.get_type_hints(kind, include_extras=True)
        names = (
            kind.__struct_fields__
            if issubclass(kind, msgspec.Struct)
            else [field.name for field in dataclasses.fields(kind)]
        )
        return kind(**{name: _field(name, hints[name], depth) for name in names})
    return {str: ALARMING, int: 1, float: 1.0, bool: True}[kind]


ANSWERS: dict[str, Callable[[str], None]] = {
    "explain": lambda form: explain_output.show(filled(Answer), form, "never"),
    "mig plan": lambda form: mig_output.show(filled(RepartitionPlan), form),
    "plan": lambda form: plan_output.show(filled(PurchasePlan), form),
    "plan --history": lambda form: plan_history_output.show(filled(HistoryPlan), form),
    "whatif": lambda form: whatif_output.show(filled(WhatifAnswer), form),
    "defragment": lambda form: defragment_output.show(filled(DefragmentPlan), form),
    "drain": lambda form: drain_output.show(filled(DrainPlan), form),
    "fit": lambda form: fit_output.show(filled(FitAnswer), form, detailed=True),
    "fit-cluster": lambda form: fit_cluster_output.show_places(filled(ClusterAnswer), form),
    "fit-training": lambda form: fit_training_output.show_training(
        filled(TrainingAnswer), form, detailed=True
    ),
    "cuda": lambda form: cuda_output.show(filled(Judgement), as_json=form == "json"),
    "doctor": lambda _: echo_json(filled(Report)),
    "queues": lambda _: echo_json(filled(QueuesAnswer)),
}


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("command", ANSWERS)
def test_an_answer_hides_nothing(capsys: pytest.CaptureFixture[str], command: str, form: str) -> None:
    ANSWERS[command](form)
    said = "".join(capsys.readouterr())
    assert "202e" in said
    assert not hides(said)


@pytest.mark.parametrize("show", [explain_output.show])
def test_yaml_hides_nothing_and_says_the_same(
    capsys: pytest.CaptureFixture[str], show: Callable[..., None]
) -> None:
    show(filled(Answer), "yaml", "never")
    said = capsys.readouterr().out
    assert not hides(said)
    assert yaml.safe_load(said)["summary"] == ALARMING


def test_colours_are_our_own_and_no_others(capsys: pytest.CaptureFixture[str]) -> None:
    with visible_streams():
        explain_output.show(filled(Answer), "text", "always")
    said = capsys.readouterr().out
    ours = re.compile(r"\x1b\[[0-9;]*m")
    assert ours.search(said)
    assert "a\\x1b[31mb" in said
    assert not hides(ours.sub("", said))


MANIFEST = f"""
apiVersion: v1
kind: Pod
metadata:
  name: {json.dumps(ALARMING)}
  namespace: {json.dumps(ALARMING)}
  labels: {{{json.dumps(ALARMING)}: {json.dumps(ALARMING)}}}
spec:
  containers:
    - name: {json.dumps(ALARMING)}
      image: {json.dumps(ALARMING)}
      resources: {{limits: {{nvidia.com/gpu: 1.5, {json.dumps(ALARMING)}: 1}}}}
"""
ODD_FILE = os.fsdecode(b"a\x1b[31m\xff\xe2\x80\xae.yaml")


@pytest.mark.parametrize("form", ["text", "json", "sarif", "junit", "github"])
@pytest.mark.parametrize("content", [MANIFEST, "a: [", "kind: Pod\napiVersion: v1\nspec: 3\n"])
def test_lint_hides_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    form: str,
    content: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(ODD_FILE).write_text(content, encoding="utf-8")
    code = main(["lint", ODD_FILE, "--output", form])
    said = "".join(capsys.readouterr())
    assert code in {1, ExitCode.BAD_INPUT}
    assert "lint: " not in said or "bug" not in said
    assert not hides(said)


@pytest.mark.parametrize(
    "line",
    [
        ["fit", ALARMING],
        ["cuda", "--image", ALARMING, "--driver", "550.1.1", "--gpu", ALARMING],
        ["cuda", "--image", "x", "--driver", ALARMING, "--gpu", "A100"],
        ["rerun", ODD_FILE],
        ["replay", "--nodes", ODD_FILE],
        ["scenario", "run", ODD_FILE],
        ["import", "kueue", ODD_FILE],
        ["plan", "--catalogue", ODD_FILE],
        ["plan", "--type", ALARMING],
        ["plan", "--history", ODD_FILE, "--wait", "p95=1h"],
        ["whatif", "--add-nodes", ALARMING, "--snapshot", ODD_FILE],
        ["whatif", "--set-quota", ALARMING, "--snapshot", ODD_FILE],
        ["whatif", "--submit", ODD_FILE, "--snapshot", ODD_FILE],
        ["advise", "sharing", ODD_FILE],
        ["advise", "sharing", "--prometheus", ALARMING],
        ["explain", "x", "--kubeconfig", ODD_FILE],
        [ALARMING],
    ],
)
@pytest.mark.parametrize("is_there", [True, False])
def test_an_error_hides_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    line: list[str],
    is_there: bool,
) -> None:
    monkeypatch.chdir(tmp_path)
    if is_there:
        Path(ODD_FILE).write_text(MANIFEST, encoding="utf-8")
    code = main([word.replace("\0", "") for word in line])
    said = "".join(capsys.readouterr())
    assert code in {ExitCode.BAD_INPUT, ExitCode.WORLD_FAILED}
    assert not hides(said)


def test_whatever_else_writes_to_the_streams_hides_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with visible_streams():
        sys.stdout.write(ALARMING)
        click.echo(ALARMING, err=True)
        sys.stderr.writelines([ALARMING, "\n"])
        assert terminal_of(sys.stdout) is not sys.stdout
    said = "".join(capsys.readouterr())
    assert said.count("\\u202e") == 3
    assert not hides(said)


@pytest.mark.parametrize("as_json", [True, False])
def test_logs_hide_nothing(as_json: bool) -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter() if as_json else TerminalFormatter())
    error = ValueError(ALARMING)
    record = logging.LogRecord(
        "tried", logging.ERROR, "file", 1, "it was %s \ud800", (ALARMING,), (ValueError, error, None)
    )
    record.problem = ALARMING
    handler.handle(record)
    said = stream.getvalue()
    assert "202e" in said
    assert not hides(said)
    if as_json:
        assert json.loads(said)["problem"] == ALARMING
