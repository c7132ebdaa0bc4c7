"""``gpufleet scenario``: plays scenario files through the engine and checks what they expect."""

import sys
from pathlib import Path

import click

from gpufleet.cli.parameters import InputPath, OneOf

SCENARIOS = InputPath("a scenario, or a folder of them")


@click.group(name="scenario")
def command() -> None:
    """Play small stories of a fleet through the real engine and check its decisions."""


@command.command(name="run")
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=SCENARIOS)
@click.option(
    "-o",
    "--output",
    type=OneOf(["text", "json"]),
    help="json: every decision, one document a file and line.  [default: text on a terminal, else json]",
)
def run(files: tuple[Path, ...], output: str | None) -> int:
    """Play scenarios (files, or folders of them) and check what they expect.

    Ends with code 1 if something came out otherwise than expected, 2 if a file is bad.
    """
    from gpufleet.cli.main import ExitCode
    from gpufleet.cli.output import echo_json, echo_line
    from gpufleet.model.model_errors import InputError
    from gpufleet.scenario.command import files_of, play_files

    output = output or ("text" if sys.stdout.isatty() else "json")
    code, played, failed = ExitCode.DONE, 0, 0
    for outcome in play_files(files_of(files)):
        if isinstance(outcome, InputError):
            echo_line(f"gpufleet: {outcome}", err=True)
            code = ExitCode.BAD_INPUT
            continue
        played += 1
        if not outcome.passed:
            failed += 1
            code = code or ExitCode.BUG
        if output == "json":
            echo_json(outcome, indent=0)
        else:
            echo_line(f"{'ok' if outcome.passed else 'NOT OK':8}{outcome.file}: {outcome.title}")
        for difference in outcome.differences:
            echo_line(f"        {difference}", err=output == "json")
    click.echo(f"{played} played, {failed} came out otherwise than expected", err=True)
    return code
