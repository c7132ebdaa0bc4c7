"""The end of a project, step by step: what it has used, what ends, the question, and the deletion."""

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from gpufleet.cli.output import echo_json, echo_line
from gpufleet.cli.project_output import agreed, content_lines, usage_lines
from gpufleet.files.atomic_write import write_whole
from gpufleet.kube.connection import ClusterChoice, connect
from gpufleet.model.model_errors import InputError
from gpufleet.operator.projects.ending import ProjectContent, content_of, end
from gpufleet.operator.projects.project_usage import ProjectUsage, project_usage, unknown_usage
from gpufleet.usage.prometheus.client import Prometheus

if TYPE_CHECKING:
    from gpufleet.kube.client import Client


class Deletion(msgspec.Struct, frozen=True):
    """What was there, what it has used, and which namespaces are still ending."""

    content: ProjectContent
    usage: ProjectUsage
    left: tuple[str, ...]


def delete_project(
    cluster: ClusterChoice,
    name: str,
    measurements: Prometheus | None,
    usage_file: Path | None,
    window_s: int,
    wait_s: int,
    output: str,
    *,
    yes: bool,
) -> int:
    """Tell, ask and delete; the exit code."""

    async def run() -> int:
        async with connect(cluster) as connection:
            content = await content_of(connection.client, name)
            if content.is_nothing:
                expected = "a project of `gpufleet project list`"
                raise InputError("nothing is there of such a project", value=name, expected=expected)
            usage = _usage(content, measurements, window_s)
            if usage_file is not None:
                write_whole(usage_file, msgspec.json.format(msgspec.json.encode(usage), indent=2))
            if output == "text":
                for line in (*content_lines(content), *usage_lines(usage)):
                    echo_line(line)
            if not yes and not agreed(f"Delete project {name} with all of this?"):
                return 0
            return await _end(connection.client, content, usage, wait_s, output)

    return asyncio.run(run())


def _usage(content: ProjectContent, measurements: Prometheus | None, window_s: int) -> ProjectUsage:
    names = [one.name for one in content.namespaces]
    if measurements is None:
        return unknown_usage(content.name, names)
    return project_usage(measurements, content.name, names, int(time.time()), window_s)


async def _end(
    client: "Client", content: ProjectContent, usage: ProjectUsage, wait_s: int, output: str
) -> int:
    from gpufleet.cli.main import ExitCode

    left = await end(client, content.name, wait_s)
    if output == "json":
        echo_json(Deletion(content, usage, left))
    if left:
        names, way = ", ".join(left), f"gpufleet project delete {content.name} goes on"
        echo_line(f"namespaces are still ending after {wait_s} s: {names}; {way}", err=True)
        return ExitCode.WORLD_FAILED
    if output == "text":
        echo_line(f"Project {content.name} is deleted, and nothing of it is left.")
    return ExitCode.DONE
