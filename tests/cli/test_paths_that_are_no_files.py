"""A path that leads to no file ends every command at once, with the path and the way out, and code 2."""

import gzip
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from gpufleet.cli.main import ExitCode, main

COMMANDS = {
    "rerun": "rerun {}",
    "replay-nodes": "replay --nodes {}",
    "replay-pods": "replay --pods {}",
    "replay-arrivals": "replay --arrivals {}",
    "scenario": "scenario run {}",
    "lint": "lint {}",
    "lint-cluster": "lint {manifest} --cluster {}",
    "lint-config": "lint {manifest} --config {}",
    "lint-baseline": "lint {manifest} --baseline {}",
    "lint-metrics": "lint {manifest} --metrics {}",
    "fit-json": "fit {}.json",
    "fit-gguf": "fit {}.gguf",
    "fit-safetensors": "fit {}.safetensors",
    "fit-cluster": "fit llama-3.1-8b --cluster={}",
    "cuda": "cuda --image {} --driver 550.54.15 --gpu A100",
    "import": "import kueue {}",
    "plan-catalogue": "plan --catalogue {} --kubeconfig {kubeconfig}",
    "plan-snapshot": "plan --snapshot {}",
    "mig-plan-config": "mig plan --config all-balanced --config-file {}",
    "mig-apply-config": "mig apply --config all-balanced --config-file {} --kubeconfig {kubeconfig}",
    "mig-plan-snapshot": "mig plan --snapshot {}",
    "plan-submit": "plan --submit {}",
    "whatif-submit": "whatif --submit {}",
    "whatif-snapshot": "whatif --add-nodes 1 --snapshot {}",
    "advise-samples": "advise sharing {}",
    "advise-token": "advise sharing --prometheus http://127.0.0.1:1 --prometheus-token-file {}",
    "advise-authority": "advise sharing --prometheus https://127.0.0.1:1 --prometheus-ca-file {}",
    "kubeconfig": "explain nothing --kubeconfig {}",
    "agent-simulated": "agent --node-name n --simulated {} --kubeconfig {kubeconfig}",
    "agent-counters": "agent --node-name n --simulated {machine} --counters {} --kubeconfig {kubeconfig}",
}
MACHINE = "gpus:\n  - {model: H100-80GB, count: 1}\n"
KUBECONFIG = """
current-context: one
contexts: [{name: one, context: {cluster: one}}]
clusters: [{name: one, cluster: {server: "http://127.0.0.1:1"}}]
"""
MANIFEST = "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: team\n"


def pipe(path: Path) -> Path:
    os.mkfifo(path)
    return path


def unix_socket(path: Path) -> Path:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
    return path


def linked(target: str) -> Callable[[Path], Path]:
    """A name of the usual ending, behind which something else is."""

    def made(path: Path) -> Path:
        path.symlink_to(target)
        return path

    return made


KINDS: dict[str, tuple[Callable[[Path], Path], str]] = {
    "pipe": (pipe, "is a pipe"),
    "zeros": (linked("/dev/zero"), "is a device"),
    "random": (linked("/dev/urandom"), "is a device"),
    "socket": (unix_socket, "is a socket"),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("command", COMMANDS)
def test_what_is_no_file_is_named_and_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: str,
    kind: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    make, words = KINDS[kind]
    written = COMMANDS[command]
    given = "odd" + ("" if "{}." not in written else written.partition("{}")[2].split()[0])
    make(tmp_path / given)
    Path("manifest.yaml").write_text(MANIFEST, encoding="utf-8")
    Path("machine.yaml").write_text(MACHINE, encoding="utf-8")
    Path("config").write_text(KUBECONFIG, encoding="utf-8")
    line = written.format("odd", manifest="manifest.yaml", machine="machine.yaml", kubeconfig="config")
    assert main(line.split()) == ExitCode.BAD_INPUT
    said = "".join(capsys.readouterr())
    assert given in said
    assert words in said
    assert "regular file" in said or "written into one first" in said or "gpufleet snapshot" in said


@pytest.mark.parametrize("command", ["rerun", "whatif-snapshot", "lint-cluster", "fit-cluster"])
def test_a_bomb_of_zeros_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bomb").write_bytes(gzip.compress(bytes(64 << 20)))
    Path("manifest.yaml").write_text(MANIFEST, encoding="utf-8")
    assert main(COMMANDS[command].format("bomb", manifest="manifest.yaml").split()) == ExitCode.BAD_INPUT
    assert "the gzip unfolds to more than 500 times its size" in capsys.readouterr().err


def test_an_image_that_unfolds_without_end_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    head = b"layer.tar".ljust(124, b"\0") + b"%011o\0" % (8**11 - 1)
    member = head.ljust(148, b"\0") + b" " * 8 + b"0"
    member = member.ljust(257, b"\0") + b"ustar\x0000"
    member = member.ljust(512, b"\0")
    checksum = b"%06o\0 " % sum(member)
    member = member[:148] + checksum + member[156:]
    Path("bomb").write_bytes(gzip.compress(member + bytes(320 << 20)))
    assert main(["cuda", "--image", "bomb", "--driver", "550.54.15", "--gpu", "A100"]) == ExitCode.BAD_INPUT
    assert "unfolds to more than 200 times its size" in capsys.readouterr().err
