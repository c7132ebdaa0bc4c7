"""Every command and program with its parameters, found by asking itself, and a line on which each works.

``LINES`` has the words of each command without which it refuses to begin; the files that they name are those
of ``write_good_files``. A new command has to be put there.
"""

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click

from gpufleet.cli import sim, sim_node
from gpufleet.cli.main import COMMANDS, MODULES
from tests.replay.small_traces import small_files

MANIFEST = "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: team\n"
MACHINE = "gpus:\n  - {model: H100-80GB, count: 1}\n"
CERTIFICATES = Path(__file__).parents[1] / "kube" / "certificates"
# Nothing listens on this port of this machine, and nothing may.
KUBECONFIG = """
current-context: one
contexts: [{name: one, context: {cluster: one}}]
clusters: [{name: one, cluster: {server: "http://127.0.0.1:1"}}]
"""
USE = """workload,pod,time,gpu_util_pct,memory_used_mib,gpus_requested,gpu_model
a,a-1,0,50,1000,1,A100-80GB
a,a-1,60,50,1000,1,A100-80GB
"""
MONTH = """{"cluster":"c","ledger":"gpufleet.io/ledger/v2"}
{"type":"followed","from_us":1,"kind":"pod","until_us":1793491200000000}
"""
"""Pods were followed until the end of October 2026."""

PROMETHEUS = "--prometheus http://127.0.0.1:1"


def bench_of(module: str) -> click.Command:
    """The command of a benchmark."""
    command: click.Command = importlib.import_module(module).main
    return command


LINES = {
    "replay": "--nodes nodes.csv --pods tasks.csv --policy fgd --jobs 1 --quiet",
    "rerun": "log",
    "up": "",
    "down": "",
    "admission policies": "",
    "admission plan": "--kubeconfig config",
    "admission serve": "--kubeconfig config",
    "dashboards": "",
    "kubeconfig": "",
    "status": "",
    "explain": "a-pod --kubeconfig config",
    "queues": "--kubeconfig config",
    "top": "--kubeconfig config --once",
    "web": "--kubeconfig config --listen 127.0.0.1:0",
    "snapshot": "--kubeconfig config",
    "plan": "--kubeconfig config",
    "mig plan": "--kubeconfig config",
    "mig apply": "--kubeconfig config",
    "whatif": "--add-nodes 1 --kubeconfig config",
    "drain": "a-node --kubeconfig config",
    "defragment": "--kubeconfig config",
    "advise sharing": "use.csv",
    "cuda": "--image an-image --driver 550.54.15 --gpu A100",
    "fit": "llama-3.1-8b",
    "completion": "bash",
    "import": "kueue manifest.yaml",
    "policy plan": "--kubeconfig config",
    "policy status": "--kubeconfig config",
    "project create": "vision --kubeconfig config",
    "project list": "--kubeconfig config",
    "project show": "vision --kubeconfig config",
    "project invite": "vision --user ann --kubeconfig config",
    "project remove": "vision --user ann --kubeconfig config",
    "project namespace": "vision vision-dev --kubeconfig config",
    "project delete": "vision --yes --kubeconfig config",
    "cost": "seen.ledger",
    "park": "notebook/lab --kubeconfig config",
    "wake": "notebook/lab --kubeconfig config",
    "parked": "--kubeconfig config",
    "close-month": "2026-10 month.ledger --accounts accounts --prices prices.csv",
    "ledger": "--folder months --kubeconfig config --listen 127.0.0.1:0",
    "operator": "--kubeconfig config --listen 127.0.0.1:0",
    "scheduler": "--kubeconfig config",
    "agent": "--node-name n --simulated machine.yaml --kubeconfig config --state-folder state",
    "metrics": "--metrics-certificate certificate.pem --metrics-key key.pem --kubeconfig config "
    "--listen 127.0.0.1:0",
    "expander": "--certificate certificate.pem --key key.pem --kubeconfig config --listen 127.0.0.1:0",
    "simulate-gpu": "",
    "scenario run": "manifest.yaml",
    "doctor": "--kubeconfig config",
    "lint": "manifest.yaml",
    "check": "--kubeconfig config",
    "leave": "--kubeconfig config",
    "gpufleet-sim": "",
    "sim_node": "",
    "bench.agent": "",
    "bench.live": "memory",
    "bench.queues": "openb",
    "bench.lists": "1 1",
    "bench.synthetic": "10",
}
PROGRAMS = {
    "gpufleet-sim": sim.command(),
    "sim_node": sim_node.command,
    "bench.agent": bench_of("bench.agent.__main__"),
    "bench.live": bench_of("bench.live.__main__"),
    "bench.queues": bench_of("bench.queues.__main__"),
    "bench.lists": bench_of("bench.lists"),
    "bench.synthetic": bench_of("bench.synthetic"),
}
"""Programs of their own, which end as the commands do."""


class Parameter(NamedTuple):
    """One option or argument of a command."""

    command: str
    asked: click.Parameter

    @property
    def name(self) -> str:
        """As a user types or reads it."""
        if isinstance(self.asked, click.Option):
            return max(self.asked.opts, key=len)
        return (self.asked.metavar or str(self.asked.name).upper()).strip("[].")

    @property
    def takes_value(self) -> bool:
        """Whether a value follows it."""
        return not (isinstance(self.asked, click.Option) and self.asked.is_flag)

    def __str__(self) -> str:
        return f"{self.command} {self.name}"


def commands() -> dict[str, click.Command]:
    """Every command by the words that call it."""
    found: dict[str, click.Command] = {}
    for name in COMMANDS:
        module = "gpufleet.cli." + MODULES.get(name, name.replace("-", "_"))
        command: click.Command = importlib.import_module(module).command
        if isinstance(command, click.Group):
            found |= {f"{name} {word}": inner for word, inner in command.commands.items()}
        else:
            found[name] = command
    return found | PROGRAMS


def parameters() -> Iterator[Parameter]:
    """Every parameter of every command that takes a value."""
    for name, command in commands().items():
        for asked in command.params:
            parameter = Parameter(name, asked)
            if parameter.takes_value:
                yield parameter


def line_with(parameter: Parameter, value: str, needs: str = "", without: str = "") -> list[str]:
    """The words of a line that works but for this value. ``without`` is an option that would exclude it."""
    words = LINES[parameter.command].split()
    for option in filter(None, (without, *parameter.asked.opts)):
        if option in words:
            place = words.index(option)
            del words[place : place + 2]
    if isinstance(parameter.asked, click.Argument):
        arguments = [one for one in commands()[parameter.command].params if isinstance(one, click.Argument)]
        place = arguments.index(parameter.asked)
        words[place : place + 1] = [value]
    elif parameter.name.startswith("--"):
        words.append(f"{parameter.name}={value}")
    return [*parameter.command.split(), *words, *needs.split()]


def write_good_files(folder: Path) -> None:
    """The files that the lines name."""
    small_files(folder)
    for name, source in (("certificate.pem", "server.crt"), ("key.pem", "server.key")):
        (folder / name).write_bytes((CERTIFICATES / source).read_bytes())
    for name, text in (
        ("manifest.yaml", MANIFEST),
        ("machine.yaml", MACHINE),
        ("config", KUBECONFIG),
        ("use.csv", USE),
        ("budgets.csv", "by,name,period,amount,currency\nqueue,a,month,10,EUR\n"),
        ("prices.csv", "unit,amount,currency\nGPU-hour,2,EUR\n"),
        ("month.ledger", MONTH),
        ("seen.ledger", '{"cluster":"c","ledger":"gpufleet.io/ledger/v2"}\n'),
    ):
        (folder / name).write_text(text, encoding="utf-8")
