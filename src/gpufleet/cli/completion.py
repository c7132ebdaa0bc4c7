"""``gpufleet completion``: what a shell reads to complete commands, options and names of pods."""

import click

from gpufleet.cli.parameters import OneOf

SHELLS = ("bash", "zsh", "fish")


@click.command(name="completion")
@click.argument("shell", type=OneOf(SHELLS))
def command(shell: str) -> None:
    """Print the lines that make SHELL complete `gpufleet`; have your shell read them when it starts.

    For bash: echo 'eval "$(gpufleet completion bash)"' >> ~/.bashrc. For `kubectl gpufleet` nothing is needed
    beside kubectl's own completion.
    """
    from click.shell_completion import get_completion_class

    from gpufleet.cli.kubectl import VARIABLE
    from gpufleet.cli.main import gpufleet

    chosen = get_completion_class(shell)
    if chosen is None:
        raise click.UsageError(f"{shell} is not known")
    click.echo(chosen(gpufleet, {}, "gpufleet", VARIABLE).source())
