"""The options by which a program that runs until it is told to end says what it logs, and how."""

from collections.abc import Callable
from typing import TypeVar

import click

from gpufleet.cli.parameters import OneOf

Decorated = TypeVar("Decorated", bound=Callable[..., object])


def log_options(command: Decorated) -> Decorated:
    """The options, in the order in which help shows them."""
    for option in (
        click.option(
            "--log-format", type=OneOf(["json", "text"]), help="[default: text on a terminal, json elsewhere]"
        ),
        click.option(
            "--log-level",
            type=OneOf(["debug", "info", "warning", "error"]),
            default="info",
            show_default=True,
        ),
    ):
        command = option(command)
    return command
