"""``kubectl gpufleet ...``: the command ``gpufleet`` as a plugin of kubectl, with its completion.

kubectl runs ``kubectl-gpufleet`` from PATH for its sub-command ``gpufleet``, and asks
``kubectl_complete-gpufleet`` what may come next: one suggestion a line, and at the end a colon with a number
that tells the shell what else to do. Both are console scripts of this package.
"""

import sys

import click
from click.shell_completion import ShellComplete

from gpufleet.cli.main import gpufleet, main

NO_FILES = 4
"""Suggest no file names; kubectl takes its numbers from cobra (ShellCompDirectiveNoFileComp)."""

VARIABLE = "_GPUFLEET_COMPLETE"


def plugin() -> int:
    """Run as ``kubectl gpufleet``."""
    return main(program="kubectl gpufleet")


def complete() -> int:
    """Answer kubectl's question what may follow the words so far, the last of which may be begun."""
    # kubectl gives the word that is begun last, and no word at all before the first is begun.
    words = sys.argv[1:] or [""]
    for one in ShellComplete(gpufleet, {}, "gpufleet", VARIABLE).get_completions(words[:-1], words[-1]):
        if one.type == "plain":
            click.echo(f"{one.value}\t{one.help}" if one.help else one.value)
    click.echo(f":{NO_FILES}")
    return 0
