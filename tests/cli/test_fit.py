"""``gpufleet fit`` as typed."""

import json
import re
import shlex
import subprocess
import sys

import pytest

from gpufleet.cli.main import main
from tests.conventions.project import ROOT

DOCUMENT = ROOT / "docs" / "fit.md"


def test_it_says_what_a_platform_engineer_would(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fit", "llama-3.3-70b", "--gpu", "h100-80", "--context", "32768"]) == 0
    text = capsys.readouterr().out
    assert "H100-80GB: fits on 4 GPUs, tensor parallel 4" in text
    assert "weights      131.4 GiB in bf16" in text
    assert "327,680 bytes of keys and values" in text
    assert "2 GPUs with weights in fp8: --weights fp8" in text


def test_json_has_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fit", "llama-3.3-70b", "--gpu", "h100-80", "--context", "32768", "-o", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["schema"] == 2
    assert answer["kv_bytes_per_token"] == 327_680
    assert answer["cards"][0]["verdict"] == "yes"
    assert answer["cards"][0]["gpus"] == 4


def test_without_a_card_all_are_tried(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fit", "llama-3.1-8b"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("L4 ") for line in lines)
    assert any("It fits on no number of:" in line for line in lines)


def test_the_catalogue_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fit", "--list"]) == 0
    text = capsys.readouterr().out
    assert "llama-3.3-70b" in text
    assert "MI300X" in text


def test_mistakes_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fit"]) == 2
    assert main(["fit", "llama-3.3-70b", "--gpu", "h1000"]) == 2
    assert "no such GPU" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["llama-3.1-8b", "--gpu", "l4"], 0),
        (["llama-3.1-405b", "--gpu", "t4", "--gpu", "h100-80"], 0),
        (["llama-3.1-8b", "--gpu", "l4", "--context", "1m"], 1),
        (["llama-3.1-8b", "--gpu", "t4", "--tp", "1"], 1),
        (["llama-3.1-405b", "--train", "full", "--gpu", "l4"], 1),
        (["llama-3.1-8b", "--train", "qlora", "--gpu", "l4"], 0),
    ],
)
def test_a_script_can_tell_a_yes_from_a_no(words: list[str], code: int) -> None:
    assert main(["fit", *words]) == code


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("32768", 32768), ("32k", 32768), ("128K", 131_072), ("0.5m", 0), ("-1", 0), ("k", 0)],
)
def test_lengths_are_written_as_people_write_them(
    text: str, tokens: int, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["fit", "llama-3.1-8b", "--gpu", "h100-80", "--context", text])
    if tokens:
        assert code == 0
        assert f"1 x {tokens} tokens" in capsys.readouterr().out
    else:
        assert code == 2


def test_it_says_why_fewer_do_not_do(capsys: pytest.CaptureFixture[str]) -> None:
    """141 GB of weights are 65.7 GiB on each of two GPUs, of 71.3 that the engine may use."""
    main(["fit", "llama-3.3-70b", "--gpu", "h100-80", "--context", "32768"])
    assert "  not on            2 GPUs: " in capsys.readouterr().out


def test_where_length_is_in_the_way_no_hundred_gpus_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    main(["fit", "gemma-2-9b", "--gpu", "l4", "--context", "32k"])
    assert "L4: does not fit (2 GPUs" in capsys.readouterr().out


def test_nothing_heavy_is_imported() -> None:
    program = (
        "import sys; from gpufleet.cli.main import main; main(['fit', 'llama-3.1-8b', '--gpu', 'l4']);"
        "print([name for name in ('numpy', 'numba', 'gpufleet.engine', 'rich') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


WALK = [
    line
    for block in re.findall(
        r"^```\n(.*?)^```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    for line in block.splitlines()
    if line.startswith("gpufleet fit ")
]


@pytest.mark.parametrize("line", WALK)
def test_every_command_of_the_document_answers(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(shlex.split(line)[1:]) == 0
    assert capsys.readouterr().out


def test_the_document_says_what_the_first_command_answers(capsys: pytest.CaptureFixture[str]) -> None:
    assert "The first answers: four H100, tensor parallel 4, 12 to 13 sequences of 32,768 tokens" in " ".join(
        DOCUMENT.read_text(encoding="utf-8").split()
    )
    main(shlex.split(WALK[0])[1:])
    text = capsys.readouterr().out
    assert "fits on 4 GPUs, tensor parallel 4" in text
    assert re.search(r"at once +12 to 13 sequences of 32768 tokens", text)


def test_the_page_shows_how_near_the_estimates_come(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fit", "--list-evidence"]) == 0
    summary = capsys.readouterr().out.partition("PART              FITTED")[2].partition("\n\n")[0]
    assert len(summary.splitlines()) > 4
    assert summary in (ROOT / "docs" / "fit.md").read_text(encoding="utf-8")


def test_evidence_is_data_for_programs_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fit", "--list-evidence", "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    first = document["rows"][0]
    assert first["off"] == pytest.approx(first["estimate_gib"] / first["row"]["measured_gib"] - 1, abs=1e-4)
    assert {one["fitted"] for one in document["nearness"]} == {True, False}
