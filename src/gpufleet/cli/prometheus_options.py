"""The options by which a command asks a Prometheus server, and the asking for use of the past itself.

``gpufleet.usage.prometheus`` does the work. On a terminal the progress is shown on standard error.
"""

import datetime as dt
import functools
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import click

from gpufleet.cli.parameters import InputFile
from gpufleet.kube.codec.durations import read_duration
from gpufleet.model.model_errors import InputError

if TYPE_CHECKING:
    from gpufleet.usage.prometheus.pod_samples import GpuUse

TOKEN = InputFile("a file with a bearer token")
Decorated = TypeVar("Decorated", bound=Callable[..., object])
# Prometheus is asked in whole seconds.
MICROSECONDS = 10**6


class Question(NamedTuple):
    """What the options say: the server, if any, how one gets in, and which time is meant."""

    url: str | None
    token_file: Path | None
    authority_file: Path | None
    cluster: str
    until: str | None
    window_s: int


class Seconds(click.ParamType[int]):
    """A length of time such as 60s, 5m or 7d in whole seconds; a number alone is seconds."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:  # noqa: ARG002
        """The seconds."""
        text = f"{value}s" if str(value).isdecimal() else str(value)
        field = param.opts[0] if param is not None else ""
        try:
            length_us = read_duration(text, field)
        except InputError as error:
            # From None: the first error is the same in the words of durations, and names no value.
            raise InputError(error.problem, field=field, value=value, expected=error.expected) from None
        if length_us < MICROSECONDS or length_us % MICROSECONDS:
            raise InputError("not whole seconds", field=field, value=value, expected="at least one second")
        return length_us // MICROSECONDS


SECONDS = Seconds()


def prometheus_server_options(about: str) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """--prometheus with this help, and what goes with it; the command takes them as one ``prometheus``:
    the access, None without a server. Raises InputError for what is no access.
    """

    def decorated(command: Callable[..., int]) -> Callable[..., int]:
        @functools.wraps(command)
        def with_access(
            *,
            prometheus_url: str | None,
            token_file: Path | None,
            authority_file: Path | None,
            prometheus_cluster: str,
            **others: object,
        ) -> int:
            from gpufleet.usage.prometheus.access import access_if_any

            access = access_if_any(prometheus_url, token_file, authority_file, prometheus_cluster)
            return command(prometheus=access, **others)

        url = click.option("--prometheus", "prometheus_url", metavar="URL", help=about)
        return url(_with_it(with_access))

    return decorated


def _with_it(command: Decorated) -> Decorated:
    token = click.option(
        "--prometheus-token-file",
        "token_file",
        type=TOKEN,
        help="File with the bearer token for it.",
    )
    authority = click.option(
        "--prometheus-ca-file",
        "authority_file",
        type=InputFile("a file of PEM certificates"),
        help="Certificate authority of that server, if not one that the system trusts.",
    )
    cluster = click.option(
        "--prometheus-cluster",
        default="",
        metavar="NAME",
        help="Which of its clusters is meant, where its series have a label cluster.",
    )
    return token(authority(cluster(command)))


def prometheus_options(command: Decorated) -> Decorated:
    """The options, in the order in which help shows them."""
    command = _with_it(command)
    for option in (
        click.option(
            "--until",
            metavar="TIME",
            help="The end of the window, such as 2026-11-22 or 2026-11-22T18:00:00Z.  [default: now]",
        ),
        click.option(
            "--window",
            "window_s",
            type=SECONDS,
            default="7d",
            show_default=True,
            help="How much of the past to ask Prometheus for.",
        ),
        click.option(
            "--prometheus",
            "prometheus_url",
            metavar="URL",
            help="Take the use from this Prometheus, which scrapes dcgm-exporter or gpufleet's agents.",
        ),
    ):
        # click shows last what was applied first.
        command = option(command)
    return command


def use_of_prometheus(question: Question, step_s: int, namespaces: tuple[str, ...] = ()) -> "GpuUse":
    """What the server knows; raises InputError or WorldError, each naming the address."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from gpufleet.cli.output import terminal_of
    from gpufleet.usage.prometheus.access import read_access
    from gpufleet.usage.prometheus.client import Prometheus
    from gpufleet.usage.prometheus.gpu_use import gpu_use
    from gpufleet.usage.prometheus.window import window_until

    access = read_access(question.url or "", question.token_file, question.authority_file, question.cluster)
    window = window_until(read_until(question.until), question.window_s, step_s)
    messages = Console(file=terminal_of(sys.stderr))
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=messages, disable=not messages.is_terminal, transient=True) as progress:
        bar = progress.add_task(f"asking {access.url}", total=None)

        def heard(name: str, done: int, total: int) -> None:
            progress.update(bar, description=name, completed=done, total=total)

        return gpu_use(Prometheus(access, heard), window, namespaces)


def read_until(text: str | None) -> int:
    """Seconds since 1970, now without a text; a time without a zone is UTC."""
    if text is None:
        return int(time.time())
    try:
        found = dt.datetime.fromisoformat(text)
    except ValueError:
        expected = "a time such as 2026-11-22 or 2026-11-22T18:00:00Z"
        raise InputError("not a time", field="--until", value=text, expected=expected) from None
    return int((found if found.tzinfo else found.replace(tzinfo=dt.UTC)).timestamp())
