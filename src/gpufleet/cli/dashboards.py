"""``gpufleet dashboards``: the boards for Grafana as files; ``gpufleet.dashboards`` makes them."""

from pathlib import Path

import click

from gpufleet.cli.parameters import OutputFolder


@click.command(name="dashboards")
@click.option(
    "--out",
    type=OutputFolder("a folder for the files"),
    metavar="DIR",
    help="Write one JSON file for each board there; without it the boards are listed.",
)
def command(out: Path | None) -> None:
    """Write the dashboards for Grafana as JSON files, to import them or to have them provisioned.

    The chart installs the same ones where Grafana's sidecar looks for them (dashboards.enabled=true).
    """
    from gpufleet.cli.output import echo_line
    from gpufleet.dashboards.catalogue import BOARDS, files
    from gpufleet.files.atomic_write import make_folder, write_whole

    if out is None:
        width = max(len(board.uid) for board in BOARDS)
        for board in BOARDS:
            echo_line(f"{board.uid:<{width}}  {board.description}")
        return
    make_folder(out)
    for name, content in files().items():
        write_whole(out / name, content)
        echo_line(str(out / name))
