"""`gpufleet cuda`: the page's walk, its JSON and how it ends."""

import json
import re
import shlex

import pytest

from gpufleet.cli.main import main
from gpufleet.cuda.tables import tables
from tests.conventions.project import ROOT

PAGE = (ROOT / "docs" / "cuda.md").read_text(encoding="utf-8")
SHOWN = re.findall(r"^\$ gpufleet (cuda .*)\n((?:(?!\$ |```).*\n)*)", PAGE, flags=re.MULTILINE)
INSPECTED = "examples/cuda/nvidia-cuda-12.4.1-inspect.json"


@pytest.mark.parametrize(("line", "printed"), SHOWN, ids=[line for line, _ in SHOWN])
def test_the_page_shows_what_the_command_prints(
    line: str, printed: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    arguments, _, pipe = line.partition("; ")
    code = main(shlex.split(arguments))
    said = capsys.readouterr().out
    if pipe:
        said += f"{code}\n"
    assert said == printed


def test_the_page_has_every_answer() -> None:
    assert len(SHOWN) >= 5
    for word in ("it runs", "it does NOT run", "UNKNOWN"):
        assert any(f": {word}\n" in printed for _, printed in SHOWN)


def test_the_page_has_the_sources_and_dates_of_the_tables() -> None:
    for part in (tables().architectures, tables().reported, tables().forward, tables().brands):
        assert part.as_of in PAGE
    for toolkit, branches in tables().forward.branches.items():
        assert f"| {toolkit} | {', '.join(str(branch) for branch in branches)} |" in PAGE
    for row in tables().architectures.rows:
        last = (
            row.last_toolkit
            if "." in row.last_toolkit
            else f"{row.last_toolkit}.x"
            if row.last_toolkit
            else ""
        )
        cells = (row.name, ", ".join(row.capabilities), row.first_toolkit, last, str(row.last_branch or ""))
        assert "| " + " | ".join(cells) + " |" in PAGE.replace("|  |", "|  |")


@pytest.mark.parametrize(
    ("arguments", "code", "answer"),
    [
        ([INSPECTED, "550.54.15", "A100"], 0, "ok"),
        ([INSPECTED, "530.30.02", "A100"], 1, "no"),
        (["nvidia/cuda:12.4.1-base", "550.54.15", "A100"], 4, "unknown"),
        (["nvidia/cuda:12.4.1-base", "550.54.15", "A100", "--env=NVIDIA_DISABLE_REQUIRE=1"], 0, "ok"),
    ],
)
def test_json_and_codes(
    arguments: list[str],
    code: int,
    answer: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(ROOT)
    image, driver, gpu, *more = arguments
    asked = ["cuda", f"--image={image}", f"--driver={driver}", f"--gpu={gpu}", *more, "-o", "json"]
    assert main(asked) == code
    found = json.loads(capsys.readouterr().out)
    assert (found["schema"], found["answer"]) == ("gpufleet.io/cuda/v1", answer)
    assert [one["question"] for one in found["checks"]] == [
        "toolkit",
        "requirement",
        "architecture",
        "driver",
    ]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--image=missing.tar", "--driver=550.54.15", "--gpu=A100"], 3, "No such file"),
        (["--image=a", "--driver=x", "--gpu=A100"], 2, "driver: not a version"),
        (["--image=a", "--driver=550.54.15", "--gpu=A100", "--env=x"], 2, "NAME=VALUE"),
        (["--image=a", "--driver=550.54.15"], 2, "--gpu"),
    ],
)
def test_what_cannot_be_done_is_told(
    arguments: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["cuda", *arguments]) == code
    assert said in capsys.readouterr().err
