"""The command that `make demo` writes, as nothing is installed by hand: it replays with several workers."""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.conventions.project import ROOT
from tests.replay.small_traces import small_files


def placed(folder: Path) -> Path:
    """The command, as the Makefile places it among the scripts of an environment."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    found = re.search(r"^define PLACE\n(.*?)^endef", makefile, re.DOTALL | re.MULTILINE)
    assert found
    recipe = found[1].replace("$(CURDIR)", str(ROOT))
    here = f"import sysconfig; sysconfig.get_path = lambda *_: {str(folder)!r}\n"
    subprocess.run([sys.executable, "-c", here + recipe], check=True)
    return folder / "gpufleet"


def test_a_replay_with_several_workers_comes_to_its_end(tmp_path: Path) -> None:
    nodes, tasks = small_files(tmp_path)
    command = placed(tmp_path)
    options = [f"--nodes={nodes}", f"--pods={tasks}", "--seed=1..2", "--jobs=2"]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [str(command), "replay", *options], capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
