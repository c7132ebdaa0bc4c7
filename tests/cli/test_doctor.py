"""What a diagnosis looks like to people and to programs."""

import json
from dataclasses import replace

import pytest

from gpufleet.cli.doctor_output import EVIDENCE_MOST, lines, show
from gpufleet.cli.main import main
from gpufleet.doctor.check import Check, Failure, Good, Grade, Layer, Point, Remedy, Unjudged
from gpufleet.doctor.checks import all_checks
from gpufleet.doctor.diagnosis import diagnose
from tests.doctor.facts_of_text import facts_of

NODE = """
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {nvidia.com/gpu.present: "true"}}
status: {capacity: {nvidia.com/gpu: 8}, allocatable: {nvidia.com/gpu: 8}}
"""
MEND = Remedy("start it again", "kubectl rollout restart daemonset plugin", "a: 1\nb: 2")
WRONG = Failure(
    "n1: no plugin \x1b[31m", ("Node n1",), ("capacity 8", "allocatable 0"), (MEND,), frozenset({"Pod p"})
)
PLUGIN = Check(
    "plugin", Point.STACK, Layer.STACK, "Plugin", "It tells the kubelet.", lambda _: (WRONG, Good("seen"))
)
WAITS = Check(
    "waits",
    Point.PLACING,
    Layer.PLACEMENT,
    "Waits",
    "It waits.",
    lambda _: (Failure("Pod p: waits", ("Pod p",), (), ()), Unjudged("no metrics")),
)
SICK = diagnose(facts_of(NODE), [PLUGIN, WAITS])
WELL = diagnose(facts_of(NODE), [])


def test_people_read_the_points_and_then_each_cause_with_its_mend() -> None:
    told = list(lines(SICK, 100, verbose=False))
    assert told[0] == "1 node, 1 with GPUs; 0 GPU workloads; Kubernetes v1.37.0"
    assert " 2  failed     Driver, toolkit, plugin and exporter work" in told
    cause = told.index("1. n1: no plugin \x1b[31m  [plugin]")
    assert told[cause + 1 : cause + 9] == [
        "   seen: capacity 8",
        "   seen: allocatable 0",
        "   why:  It tells the kubelet.",
        "   mend: start it again",
        "           kubectl rollout restart daemonset plugin",
        "           a: 1",
        "           b: 2",
        "   follows: Pod p: waits  [waits]",
    ]
    assert told[-1] == (
        "1 cause, 1 more that follows from it; not judged: "
        "8 of 10 points and 1 part of others (-v tells which)"
    )


def test_a_healthy_cluster_is_told_so_in_one_line() -> None:
    told = list(lines(WELL, 100, verbose=False))
    assert told[-1] == "nothing is wrong; not judged: 10 of 10 points"
    sharing = told.index(" 4  not judged Sharing is as configured")
    assert told[sharing + 1] == " " * 15 + "? no node shares its GPUs, and no configuration says so"


def test_long_evidence_is_cut_and_says_how_much_is_left() -> None:
    seen = tuple(f"node {number}" for number in range(EVIDENCE_MOST + 3))
    many = Check("many", Point.NODES, Layer.NODE, "t", "w", lambda _: (Failure("many", (), seen, ()),))
    told = list(lines(diagnose(facts_of(NODE), [many]), 100, verbose=False))
    assert "   seen: and 3 more" in told


@pytest.mark.parametrize("color", ["never", "always"])
def test_what_a_cluster_says_moves_no_cursor(color: str, capsys: pytest.CaptureFixture[str]) -> None:
    show(SICK, "text", color, verbose=True)
    out = capsys.readouterr().out
    assert "no plugin \\x1b[31m" in out
    assert ("\x1b[" in out) == (color == "always")


def test_programs_read_a_schema_that_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    show(SICK, "json", "never", verbose=False)
    report = json.loads(capsys.readouterr().out)
    assert (report["schema"], report["healthy"]) == ("gpufleet.io/doctor/v1", False)
    assert [(one["number"], one["status"]) for one in report["points"][:3]] == [
        (1, "not judged"),
        (2, "failed"),
        (3, "failed"),
    ]
    (cause,) = report["causes"]
    assert (cause["check"], cause["subjects"]) == ("plugin", ["Node n1"])
    assert cause["mends"][0]["command"] == "kubectl rollout restart daemonset plugin"
    assert [one["check"] for one in cause["follows"]] == ["waits"]


@pytest.mark.parametrize(
    ("grades", "fail_on", "fails"),
    [
        ([], "risk", False),
        ([Grade.RISK], "risk", True),
        ([Grade.RISK], "broken", False),
        ([Grade.RISK, Grade.BROKEN], "broken", True),
        ([Grade.BROKEN], "never", False),
    ],
)
def test_what_fails_a_run_is_the_callers_choice(grades: list[Grade], fail_on: str, fails: bool) -> None:
    checks = [replace(PLUGIN, id=str(number), grade=grade) for number, grade in enumerate(grades)]
    assert diagnose(facts_of(NODE), checks).fails(fail_on) is fails


def test_every_check_is_listed_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--checks"]) == 0
    listed = [line.split()[1] for line in capsys.readouterr().out.splitlines()]
    assert listed == [one.id for one in all_checks()]
    assert len(set(listed)) == len(listed)
