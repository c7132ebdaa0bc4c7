"""``gpufleet simulate-gpu``: tell a simulated GPU of a running agent to fail, or to be well again."""

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpufleet.cli.output import echo_line
from gpufleet.cli.parameters import InputFolder, Whole

if TYPE_CHECKING:
    from gpufleet.devices.simulated.orders import AnyOrder, MachineState

# An error after which the GPU needs a reset, which follows.
FLAP_XID = 95
FLAP_HALF_S = 3.0
"""Long enough for the agent to see and report each half of the flap."""


@click.command(name="simulate-gpu")
@click.option("--name", default="local", show_default=True, help="Name of the local cluster.")
@click.option(
    "--state-folder",
    type=InputFolder("the --state-folder of an agent"),
    help="The agent's --state-folder, for an agent outside a local cluster.",
)
@click.option("--gpu", default="0", show_default=True, help="Index or UUID of the GPU.")
@click.option("--xid", type=Whole(1, 10_000), help="The driver reports this error of it.")
@click.option("--instance", help="With --xid: the error is one of this MIG instance alone.")
@click.option("--lose", is_flag=True, help="It falls off the bus.")
@click.option("--hang", is_flag=True, help="Every call about it hangs.")
@click.option("--release", is_flag=True, help="It hangs no more.")
@click.option("--fail-remap", is_flag=True, help="A broken row of its memory cannot be remapped.")
@click.option(
    "--reading",
    metavar="NAME=VALUE",
    help="It tells this from now on: celsius=95, uncorrected-errors=1, throttle-hw-thermal=40 (percent).",
)
@click.option(
    "--flap", type=Whole(1, 1000), metavar="TIMES", help="It fails and is reset, ten times a minute."
)
@click.option("--reset", is_flag=True, help="It is reset: nothing is against it any more.")
@click.option("--break-driver", metavar="WHY", help="The driver's library cannot be used, and says why.")
@click.option(
    "--update-driver", metavar="VERSION", help="The driver is of this version now, and can be used."
)
def command(name: str, state_folder: Path | None, **wanted: object) -> None:
    """Tell a simulated GPU what to do, and show how all of them are.

    The GPU belongs to an agent that runs with --simulated, as on the real node of `gpufleet up --real-node`.
    Without anything to do, only shows.
    """
    from gpufleet.agent.gpus.simulation_control import SOCKET, tell
    from gpufleet.localkube.node.agent_program import agent_folder
    from gpufleet.localkube.processes.folders import cluster_folder
    from gpufleet.model.model_errors import WorldError

    folder = state_folder or agent_folder(cluster_folder(name))
    machine = None
    for order in _orders(wanted):
        try:
            machine = tell(folder, order)
        except OSError as error:
            problem = f"no agent with simulated GPUs listens at {folder / SOCKET} ({error.strerror or error})"
            raise WorldError(f"{problem}; `gpufleet up --real-node` starts one") from error
        # The agent polls: an error that is reset at once would never be seen.
        if wanted["flap"]:
            time.sleep(FLAP_HALF_S)
    if machine is not None:
        _show(machine)


def _orders(wanted: dict[str, object]) -> "list[AnyOrder]":
    """What the options ask for. Raises click.UsageError for more than one thing at once."""
    from gpufleet.devices.simulated import orders

    gpu, instance = str(wanted["gpu"]), wanted["instance"]
    flap: list[AnyOrder] = [orders.RaiseXid(gpu, FLAP_XID), orders.Reset(gpu)]
    found: dict[str, list[AnyOrder]] = {
        "xid": [orders.RaiseXid(gpu, _number(wanted["xid"]), None if instance is None else str(instance))],
        "lose": [orders.Lose(gpu)],
        "hang": [orders.Hang(gpu)],
        "release": [orders.Release(gpu)],
        "fail_remap": [orders.FailRemap(gpu)],
        "reading": [_reading(gpu, str(wanted["reading"]))] if wanted["reading"] is not None else [],
        "flap": [*flap] * _number(wanted["flap"]),
        "reset": [orders.Reset(gpu)],
        "break_driver": [orders.BreakDriver(str(wanted["break_driver"]))],
        "update_driver": [orders.UpdateDriver(str(wanted["update_driver"]))],
    }
    asked = [option for option in found if wanted[option] not in (None, False)]
    if len(asked) > 1:
        names = ", ".join(f"--{option.replace('_', '-')}" for option in asked)
        raise click.UsageError(f"one thing at a time: {names}")
    if instance is not None and asked != ["xid"]:
        raise click.UsageError("--instance says of which part --xid is")
    return found[asked[0]] if asked else [orders.Show()]


def _reading(gpu: str, text: str) -> "AnyOrder":
    """``NAME=VALUE`` as an order. Raises InputError where it is none; what can be set the machine knows."""
    from gpufleet.devices.device_errors import MachineError
    from gpufleet.devices.simulated.orders import SetReading

    name, _, value = text.partition("=")
    if not value.isascii() or not value.isdecimal():
        expected = "NAME=VALUE with a whole number, such as celsius=95"
        raise MachineError("not a reading", field="--reading", value=text, expected=expected)
    return SetReading(gpu, name, int(value))


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def _show(machine: "MachineState") -> None:
    """The machine as a few lines for people."""
    echo_line(f"driver {machine.driver}{f': {machine.driver_problem}' if machine.driver_problem else ''}")
    for gpu in machine.gpus:
        marks = [word for word, holds in (("lost", gpu.lost), ("hangs", gpu.hangs)) if holds]
        marks += [f"needs {gpu.recovery}"] if gpu.recovery != "none" else []
        echo_line(f"{gpu.index}  {gpu.uuid}  {gpu.model}  {', '.join(marks) or 'well'}")
        for instance in gpu.instances:
            echo_line(f"   {instance}")
