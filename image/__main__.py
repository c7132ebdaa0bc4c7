"""Build the image, as `make image` does: ``python -m image [--arch NAME] [--out FOLDER] [--if-possible]``."""

import os
from pathlib import Path

import click

from gpufleet.localkube.processes.folders import locked
from gpufleet.model.model_errors import GpufleetError
from gpufleet.progress.reporting import ToPerson
from image.architecture import ARCHITECTURES, native
from image.build import build, problem

ARCHIVE = "gpufleet.tar"
OUT = Path("build/image")


def cache_folder() -> Path:
    """What is kept between builds."""
    named = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(named) if named.startswith("/") else Path.home() / ".cache"
    return base / "gpufleet" / "image"


@click.command()
@click.option("--out", type=click.Path(path_type=Path), help="[default: build/image, or build/image-NAME]")
@click.option("--arch", type=click.Choice(sorted(ARCHITECTURES)), help="[default: this machine's]")
@click.option("--if-possible", is_flag=True, help="Say why and end well where no image can be built.")
def command(out: Path | None, arch: str | None, *, if_possible: bool) -> None:
    """Build the container image of scheduler and agent into one archive."""
    progress = ToPerson("image: ")
    found = problem(None if arch is None else ARCHITECTURES[arch])
    if found is not None and if_possible:
        progress.say(f"without an image: {found}")
        return
    architecture = native() if arch is None else ARCHITECTURES[arch]
    folder = out or (OUT if arch is None else OUT.with_name(f"{OUT.name}-{arch}"))
    cache = cache_folder()
    # Two builds at once would make the same base.
    with locked(cache / ".lock", progress, "builds an image"):
        built = build(folder / ARCHIVE, cache, progress, architecture)
    (folder / "digest").write_text(f"{built.digest}\n", encoding="utf-8")
    size_mib = built.path.stat().st_size / (1 << 20)
    progress.say(f"{built.path} ({size_mib:.0f} MiB) holds {built.name}, {built.digest}")
    progress.say(f"on a node: ctr --namespace=k8s.io images import {built.path}")


if __name__ == "__main__":
    try:
        command()
    except GpufleetError as error:
        raise SystemExit(f"image: {error}") from error
