"""The walk of docs/lint.md, command by command."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from gpufleet.cli.lint import command
from tests.conventions.project import ROOT

PAGE = (ROOT / "docs" / "lint.md").read_text(encoding="utf-8").partition("## What it reads")[0]


def test_the_walk_shows_what_the_commands_print(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = re.findall(r"^```yaml\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)[0]
    shown = re.findall(
        r"^```console\n\$ gpufleet lint (.*?)\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE
    )
    assert len(shown) == 4
    runner = CliRunner()
    monkeypatch.chdir(tmp_path)
    Path("nightly.yaml").write_text(manifest, encoding="utf-8")
    for arguments, output in shown:
        # Of the difference and of the page, the document shows the beginning.
        assert runner.invoke(command, arguments.split(), standalone_mode=False).output.startswith(output)
    assert Path("nightly.yaml").read_text(encoding="utf-8").count("# no ARM image yet") == 1
