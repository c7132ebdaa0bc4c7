"""The ``gpufleet`` command: its sub-commands by name, and how each kind of error ends.

The table below is all that ``gpufleet --help`` reads: no command's module, and so neither numba
nor numpy nor the engine, is imported before that command is asked for. A new command needs its
line here and its module beside this one. Every way out of the program is in ``main``, so that a
command may raise the errors of ``model.model_errors`` and know what the user will see.
"""

import errno
import importlib
import io
import os
import sys
from collections.abc import Sequence
from enum import IntEnum

import click

from gpufleet import __version__
from gpufleet.cli.output import visible_streams
from gpufleet.cli.refused_option import naming_options
from gpufleet.model.model_errors import InputError, WorldError, shortened

COMMANDS = {
    "replay": "Replay a trace of tasks on a fleet and report how well policies place them.",
    "rerun": "Run a saved event log or snapshot again and check that every decision is the same.",
    "up": "Start a real Kubernetes control plane with simulated GPU nodes on this machine.",
    "down": "End a local cluster and remove everything of it.",
    "kubeconfig": "Print where the kubeconfig of a local cluster is.",
    "status": "Show the local clusters and whether their programs run.",
    "explain": "Say why a pod or a group waits, and what would help.",
    "queues": "Show the tree of queues: quota, use, fair share, and what waits.",
    "top": "Show what GPUs do, who holds them, and who waits why; live on a terminal.",
    "web": "Show the fleet in the browser: nodes, queues, work and why it waits, live.",
    "snapshot": "Write all that decisions depend on in a cluster to one file.",
    "plan": "Say which nodes to buy for the work that waits, and what they cost.",
    "whatif": "Say what more nodes, another quota or more work would change in a cluster.",
    "mig": "Say which cards would be cut into MIG instances for the work that waits.",
    "drain": "Empty nodes: ends are waited for, gangs move whole to places that are kept.",
    "defragment": "Say which running pods to move so that larger ones fit.",
    "advise": "Say from measured use which sharing of GPUs pays, and when whole ones are right.",
    "cost": "Say what GPU nodes cost, who held them, and what of it computed nothing.",
    "close-month": "Close the accounts of a month; what is known later becomes corrections.",
    "ledger": "Keep what happens to every GPU of a cluster, for cost to answer from.",
    "cuda": "Say whether an image's CUDA runs with a driver on a GPU.",
    "fit": "Say whether a language model fits on GPUs, on how many, and what would make it fit.",
    "completion": "Print what a shell needs to complete commands.",
    "import": "Turn queues of other schedulers into FleetQueues, GPU operators' objects into FleetPolicies.",
    "policy": "Say what FleetPolicies would change on GPU nodes, and how far they are.",
    "project": "Make projects of teams, show them, and change who works in them.",
    "park": "Give the GPUs of idle work back; its volumes stay.",
    "wake": "Bring parked work back, through its queue.",
    "parked": "Show work that is parked, that will be, or that is on its way back.",
    "operator": "Make GPU nodes what FleetPolicies say, and keep them so.",
    "scheduler": "Schedule the pods of a cluster that name this scheduler.",
    "agent": "Serve the GPUs of one node to its kubelet, the scheduler and metrics.",
    "metrics": "Serve metrics of GPUs, queues and serving engines to autoscalers.",
    "expander": "Choose the groups of nodes that Cluster Autoscaler enlarges, by the engine.",
    "simulate-gpu": "Tell a simulated GPU of a local cluster to fail, or to be well again.",
    "scenario": "Play small stories of a fleet through the engine and check its decisions.",
    "doctor": "Walk through a cluster and say what is wrong with its GPUs, causes first.",
    "lint": "Say what will go wrong with GPUs in manifests, and mend it.",
    "admission": "Judge GPU work on its way into a cluster by the rules of lint.",
    "dashboards": "Write the dashboards for Grafana as JSON files.",
    "check": "Say whether gpufleet is installed and at work in a cluster.",
    "leave": "Take back what gpufleet has written on the nodes of a cluster.",
}


SENTENCE_CHARACTERS_MAX = 40_000
"""The longest message of an error: a server or a path may put text of any length into one."""

NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""What a system says of a disk, a quota or a file system that is full."""

MODULES = {"import": "import_queues"}
"""The modules of commands with names that no module may have: ``import`` is a keyword of Python."""


class ExitCode(IntEnum):
    """How the program ended, for scripts; ``docs/commands.md`` explains them to users."""

    DONE = 0
    BUG = 1
    BAD_INPUT = 2
    WORLD_FAILED = 3
    INTERRUPTED = 130
    READER_LEFT = 141


class LazyCommand(click.Command):
    """Stands for a command by name and one line of help until it is really asked for."""

    def __init__(self, name: str, line: str) -> None:
        super().__init__(name, short_help=line)
        self.module_name = "gpufleet.cli." + MODULES.get(name, name.replace("-", "_"))

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: object,
    ) -> click.Context:
        """Import the command and let it read its arguments; click then runs the real one."""
        command = naming_options(importlib.import_module(self.module_name).command)
        return command.make_context(info_name, args, parent, **extra)


@click.group(
    commands=[LazyCommand(name, line) for name, line in COMMANDS.items()],
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="gpufleet COMMAND --help tells more about one command.",
)
@click.version_option(__version__, message="gpufleet %(version)s")
def gpufleet() -> None:
    """One shared fleet of GPUs on Kubernetes, decided by one engine."""


def main(arguments: Sequence[str] | None = None, *, program: str = "gpufleet") -> int:
    """Run the command line and return its exit code; prints every error in the user's terms.

    ``program`` is what the user typed, for help texts.
    """
    return run_program(gpufleet, arguments, program=program)


def run_program(command: click.Command, arguments: Sequence[str] | None = None, *, program: str) -> int:
    """Run a command as a program of its own; ends as ``main`` does."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # What a terminal without UTF-8 cannot show is shown escaped.
            stream.reconfigure(errors="backslashreplace")
    with visible_streams():
        return _run(naming_options(command), arguments, program)


def _run(command: click.Command, arguments: Sequence[str] | None, program: str) -> int:
    try:
        return _result(command, arguments, program)
    except click.ClickException as error:
        error.show()
        return ExitCode.BAD_INPUT
    # click makes an Abort of Ctrl-C at a prompt.
    except (click.Abort, KeyboardInterrupt):
        say("interrupted")
        return ExitCode.INTERRUPTED
    except InputError as error:
        say(str(error))
        return ExitCode.BAD_INPUT
    except SystemExit:
        # This is what click and rich make of a pipe that its reader closed; commands return a code.
        leave_closed_pipe()
        return ExitCode.READER_LEFT
    except (WorldError, OSError) as error:
        say(world_sentence(error))
        return ExitCode.WORLD_FAILED
    except Exception:  # noqa: BLE001  the last one to see it, whatever it is
        tell_bug()
        return ExitCode.BUG


def _result(command: click.Command, arguments: Sequence[str] | None, program: str) -> int:
    """The exit code of the command; of errors of tasks side by side the first counts, unless one is a bug."""
    try:
        result = command.main(
            arguments, prog_name=program, complete_var="_GPUFLEET_COMPLETE", standalone_mode=False
        )
    except ExceptionGroup as group:
        _, bugs = group.split((InputError, WorldError, OSError))
        if bugs is not None:
            raise
        first: BaseException = group
        # Groups stand in groups where one command waits for tasks that themselves wait for tasks.
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        raise first from None
    return result if isinstance(result, int) else ExitCode.DONE


def world_sentence(error: Exception) -> str:
    """What failed outside, with the way out where one is known."""
    if isinstance(error, OSError) and not isinstance(error, WorldError):
        reason = error.strerror or str(error)
        place = error.filename if isinstance(error.filename, str) else "what it writes or reads"
        words = f"{place}: {reason}"
        if error.errno in NO_ROOM:
            words += "; free some space or write elsewhere"
    else:
        words = str(error)
    return "; ".join([words, *getattr(error, "__notes__", ())])


def say(sentence: str) -> None:
    """One sentence for the person at the terminal, on standard error."""
    click.echo(f"gpufleet: {shortened(sentence, SENTENCE_CHARACTERS_MAX)}", err=True)


def leave_closed_pipe() -> None:
    """End quietly where the reader of our output (``| head``) has closed it.

    Python writes out what it still holds when it ends; that goes nowhere then, instead of failing.
    """
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def tell_bug() -> None:
    """The whole story of an error that is ours, and what to do with it."""
    # Imported here: every command would pay for it, and none needs it but a failing one.
    import platform
    import traceback

    click.echo(traceback.format_exc(), err=True, nl=False)
    say("this is a bug in gpufleet, not in what you gave it")
    click.echo(
        "Please open an issue with the lines above, the command you ran and this line:\n"
        f"gpufleet {__version__}, Python {platform.python_version()}, {platform.platform()}",
        err=True,
    )
