"""GPU049: what counts as idle, for how long, in which workload, and what cannot be judged."""

import datetime as dt
from pathlib import Path

import pytest

from gpufleet.cli.main import main
from tests.lint.linting import findings_of, report_of
from tests.usage.prometheus.server import prometheus
from tests.usage.prometheus.stories import Story, honoured

RULE = "GPU049"
HEADER = "workload,namespace,pod,time,gpu_util_pct,memory_used_mib,gpus_requested,gpu_model\n"
GPU = "spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: 1}}}]}"


def deployment(name: str = "api", namespace: str = "web", kind: str = "Deployment") -> str:
    place = f", namespace: {namespace}" if namespace else ""
    head = f"apiVersion: apps/v1\nkind: {kind}\nmetadata: {{name: {name}{place}}}\n"
    return f"{head}spec: {{template: {{{GPU}}}}}\n"


def rows(
    *uses: float | None,
    workload: str = "api",
    namespace: str = "web",
    pod: str = "p",
    memory_mib: int = 0,
    gpus: int = 1,
    every_s: int = 3600,
) -> str:
    """A row for each use in percent; None is a reading that is missing."""
    return "".join(
        f"{workload},{namespace},{pod},{at * every_s},{use},{memory_mib},{gpus},T4\n"
        for at, use in enumerate(uses)
        if use is not None
    )


def judged(table: str, text: str = "") -> str:
    """found, passed or unjudged."""
    report = report_of(text or deployment(), use=HEADER + table)
    if any(one.rule.id == RULE for one in report.findings):
        return "found"
    return "unjudged" if any(one.rule.id == RULE for one in report.unjudged) else "passed"


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        # A reading each hour speaks for an hour: five are five hours, four are four and no more.
        (rows(0, 0, 0, 0, 0), "found"),
        (rows(0, 0, 0, 0), "passed"),
        (rows(4.9, 4.9, 4.9, 4.9, 4.9), "found"),
        (rows(5, 5, 5, 5, 5), "passed"),
        # Two stretches of three hours are no stretch of six.
        (rows(0, 0, 0, 50, 0, 0, 0), "passed"),
        (rows(50, 0, 0, 0, 0, 0, 50), "found"),
        # One missing reading is bridged; of three hours in a row nobody knows anything.
        (rows(0, 0, None, 0, 0, 0), "found"),
        (rows(0, 0, 0, None, None, None, 0, 0, 0), "passed"),
        # Readings each minute for an hour are an hour.
        (rows(*[0] * 60, every_s=60), "passed"),
        (rows(*[0] * 241, every_s=60), "found"),
        (rows(0), "passed"),
        # One busy pod does not excuse another.
        (rows(*[90] * 6, pod="a") + rows(*[0] * 6, pod="b"), "found"),
        # Of two readings of one moment the higher counts.
        (rows(*[0] * 6) + rows(0, 0, 80, 0, 0, 0), "passed"),
    ],
)
def test_how_long_is_idle(table: str, expected: str) -> None:
    assert judged(table) == expected


@pytest.mark.parametrize(
    ("text", "table", "expected"),
    [
        (deployment(), rows(*[0] * 6, workload="other"), "unjudged"),
        (deployment(), rows(*[0] * 6, namespace="lab"), "unjudged"),
        # Either side may not know the namespace.
        (deployment(), rows(*[0] * 6, namespace=""), "found"),
        (deployment(namespace=""), rows(*[0] * 6), "found"),
        (deployment(namespace=""), rows(*[0] * 6) + rows(*[0] * 6, namespace="lab"), "unjudged"),
        (deployment(), rows(*[0] * 6) + rows(*[0] * 6, namespace="lab"), "found"),
        # Namesakes of two kinds, as they come from Prometheus.
        (deployment(kind="StatefulSet"), rows(*[0] * 6, workload="api (StatefulSet)"), "found"),
        (deployment(kind="StatefulSet"), rows(*[0] * 6, workload="api (Deployment)"), "unjudged"),
    ],
)
def test_whose_use_it_is(text: str, table: str, expected: str) -> None:
    assert judged(table, text) == expected


def test_without_metrics_it_does_not_judge() -> None:
    report = report_of(deployment())
    (unknown,) = [one for one in report.unjudged if one.rule.id == RULE]
    assert unknown.lacks == "what its pods used of their GPUs (--metrics USE, or --prometheus URL)"


def test_it_says_how_much_that_was() -> None:
    # Pod a: 6 h with 4 GPUs, pod b: 5 h with 4: 44 GPU-hours.
    table = rows(*[1] * 6, pod="a", gpus=4, memory_mib=500) + rows(
        90, *[0] * 5, pod="b", gpus=4, memory_mib=800
    )
    (said,) = findings_of(RULE, deployment(), use=HEADER + table)
    assert said.startswith("2 pods held GPUs below 5 % for 44.0 GPU-hours, up to 6.0 h at a stretch")
    assert said.endswith(", with up to 800 MiB in memory")


@pytest.mark.parametrize(("memory_mib", "word"), [(1023, "no program is loaded"), (1024, "let it share")])
def test_what_sits_in_memory_is_stopped_otherwise(memory_mib: int, word: str) -> None:
    report = report_of(deployment(), use=HEADER + rows(*[0] * 6, memory_mib=memory_mib))
    (finding,) = [one for one in report.findings if one.rule.id == RULE]
    assert word in finding.advice


def test_a_name_that_the_server_completes_is_nobodys() -> None:
    text = deployment().replace("name: api", "generateName: api")
    assert judged(rows(*[0] * 6), text) == "unjudged"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a manifest and its use: six idle hours of four T4."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "api.yaml").write_text(deployment())
    (tmp_path / "use.csv").write_text(HEADER + rows(*[0] * 6, gpus=4))
    return tmp_path


@pytest.mark.usefixtures("folder")
def test_the_command_says_what_it_cost(capsys: pytest.CaptureFixture[str]) -> None:
    # 24 GPU-hours at 0.25 are 6.
    assert main(["lint", "api.yaml", "--metrics", "use.csv", "--price", "T4=0.25"]) == 1
    assert "for 24.0 GPU-hours, 6.00 at the price given, up to 6.0 h" in capsys.readouterr().out


@pytest.mark.parametrize(("hours", "is_found"), [("5.9", True), ("6", False)])
def test_the_settings_say_how_long(
    hours: str, is_found: bool, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / ".gpufleet-lint.yaml").write_text(f"idle-hours: {hours}\n")
    main(["lint", "api.yaml", "--metrics", "use.csv"])
    assert (RULE in capsys.readouterr().out) == is_found


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--metrics", "use.csv", "--prometheus", "http://x"], "either --metrics or --prometheus"),
        (["--price", "T4=1"], "--price needs measured use"),
        (["--metrics", "use.csv", "--price", "T4=x"], "--price"),
        (["--metrics", "empty.csv"], "empty.csv: no sample"),
        (["--metrics", "bad.csv"], "bad.csv, row 2, gpu_util_pct"),
        (["--metrics", "use.csv", "--config", "settings"], "idle-hours"),
    ],
)
def test_what_makes_no_sense_is_told(
    arguments: list[str], said: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "empty.csv").write_text(HEADER)
    (folder / "bad.csv").write_text(HEADER + rows(900))
    (folder / "settings").write_text("idle-hours: 0\n")
    assert main(["lint", "api.yaml", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_a_real_server_is_asked(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    story = Story(minutes=300)
    story.up()
    story.gpu("GPU-0", honoured("web", "api-7c9f6d8b54-x7k2v"), lambda _: 0, 20000)
    (folder / "server").mkdir()
    with prometheus(folder / "server", story) as url:
        # Without kube-state-metrics the pod's name tells the workload.
        assert (
            main(["lint", "api.yaml", "--prometheus", url, "--window=5h", f"--until={_iso(story.end_s)}"])
            == 1
        )
    assert "pod api-7c9f6d8b54-x7k2v held GPUs below 5 % for 5.0 GPU-hours" in capsys.readouterr().out


def _iso(at_s: int) -> str:
    return dt.datetime.fromtimestamp(at_s, dt.UTC).isoformat()
